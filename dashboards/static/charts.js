// Draws each <figure data-chart="stack|lines|waterfall|heat"> from its table into its empty .chart.

import { readChart } from "./chart_data.js";
import { drawColumns, drawHeat, drawWaterfall, stackEnds, svgElement } from "./chart_marks.js";
import { followPointer, hideBucket, htmlElement } from "./chart_pointer.js";
import { formatSum } from "./chart_scales.js";

const NAMES = { stack: "Stacked bars", lines: "Lines", waterfall: "Waterfall", heat: "Heat map" };
const plots = new Map();

function draw(plot) {
  const { chart, svg, solo } = plot;
  hideBucket(plot);
  svg.replaceChildren();
  plot.shown = solo === null ? chart.series : [chart.series[solo]];
  plot.extras = solo === null ? chart.extras : [];
  if (chart.kind === "waterfall") plot.view = drawWaterfall(svg, chart);
  else if (chart.kind === "heat") plot.view = drawHeat(svg, chart);
  else plot.view = drawColumns(svg, chart, plot.shown, plot.extras);
  svg.setAttribute("viewBox", `0 0 ${plot.view.width} ${plot.view.height}`);
}

// The first, last and highest bucket of which anything is known, in words.
function summary({ figure, chart: { kind, unit, buckets, series } }) {
  const sumOf = (index) => (kind === "lines" ? Math.max(...series.map(({ values }) => values[index])) : stackEnds(series, index).reduce((a, b) => a + b));
  const textOf = (index) => `${buckets[index].name} ${kind === "waterfall" ? series[0].texts[index] : formatSum(sumOf(index), unit)}`;
  const filled = [...buckets.keys()].filter((index) => series.some(({ values }) => values[index] !== null));
  const highest = filled.reduce((best, index) => (sumOf(index) > sumOf(best) ? index : best), filled[0]);
  const title = document.getElementById(figure.getAttribute("aria-labelledby"))?.textContent.trim() ?? "";
  const values = filled.length ? `First ${textOf(filled[0])}, last ${textOf(filled.at(-1))}, highest ${textOf(highest)}. Arrow keys read the values.` : "No values.";
  return `${NAMES[kind]}: ${title}. ${values}`;
}

function legendButton(plot, { name, color }, index) {
  const button = htmlElement("button", "", htmlElement("i", `key ${color}`), htmlElement("span", "", name));
  button.type = "button";
  button.title = name;
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => {
    plot.solo = plot.solo === index ? null : index;
    button.parentElement.querySelectorAll("button").forEach((other, place) => other.setAttribute("aria-pressed", String(place === plot.solo)));
    draw(plot);
  });
  return button;
}

// Names of series, of which a click shows one alone; of a heat map the meaning of its tints.
function legend(plot) {
  const { kind, series, extras } = plot.chart;
  const row = htmlElement("div", "legend");
  if (kind === "heat") {
    const most = Math.max(1, ...series.flatMap(({ values }) => values));
    row.append(htmlElement("span", "", "1"), htmlElement("i", "ramp"), htmlElement("span", "", `${formatSum(most)} calls`));
  } else if (kind !== "waterfall" && series.length + extras.length > 1) {
    row.setAttribute("role", "group");
    row.setAttribute("aria-label", "Show one series alone");
    row.append(...series.map((column, index) => legendButton(plot, column, index)));
    row.append(...extras.filter(({ role }) => role !== "high").map(({ name, role }) => htmlElement("span", "", htmlElement("i", `key ${role}`), name)));
  }
  return row;
}

function begin(figure) {
  if (!figure.querySelector("tbody tr")) return;
  const chart = readChart(figure);
  const svg = svgElement("svg", { class: `plot ${chart.kind}`, role: "img", tabindex: 0 });
  const tip = htmlElement("div", "tip");
  tip.setAttribute("role", "status");
  const plot = { figure, chart, svg, tip, solo: null, index: null, drag: null };
  const box = htmlElement("div", "plot-box", svg, tip);
  figure.querySelector(".chart").replaceChildren(legend(plot), box);
  svg.setAttribute("aria-label", summary(plot));
  draw(plot);
  followPointer(plot);
  plots.set(figure, plot);
  // Its first report comes at once, with the width that was drawn.
  new ResizeObserver(() => plot.view.width !== svg.getBoundingClientRect().width && draw(plot)).observe(box);
  figure.dataset.drawn = "";
}

const figures = [...document.querySelectorAll("figure[data-chart]")];
const near = new IntersectionObserver((entries) => {
  for (const { target } of entries.filter((entry) => entry.isIntersecting && !plots.has(entry.target))) begin(target);
}, { rootMargin: "200px" });
for (const figure of figures) near.observe(figure);
addEventListener("beforeprint", () => figures.filter((figure) => !plots.has(figure)).forEach(begin));
