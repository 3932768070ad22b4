// Draws each chart from the table behind it, so that both always say the same.
//
// <figure data-chart="stack|lines|waterfall|heat"> holds an empty <div class="chart"> and a
// <table>. The first cell of a row is its place on the x axis, each further column is one series;
// `data-value` holds what a cell means to a machine. In a heat map the header has the y axis.

const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b2a300", "#8c6bb1", "#7f7f7f"];
const FALL = "#009e73";
const RISE = "#d55e00";
const GREY = "#a3a3a3";

function styleOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Plotly reads a few HTML tags in texts; names are callers' text and show as they are.
function escapeLabel(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function valueOf(cell) {
  const said = cell.dataset.value;
  if (said === undefined) return cell.textContent.trim();
  if (said === "") return null;
  return Number.isNaN(Number(said)) ? said : Number(said);
}

function readTable(table) {
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  const rows = [...table.tBodies[0].rows].map((row) => [...row.cells]);
  return { heads, rows };
}

// Bars of their own, as Plotly's waterfall has one colour for all that falls: grey is nobody's saving.
function waterfallBars(rows) {
  let level = 0;
  return rows.map((row) => {
    const { measure, tone } = row[0].dataset;
    const change = valueOf(row[1]) ?? 0;
    const base = measure === "relative" ? level : 0;
    level = base + change;
    const own = measure !== "relative" ? PALETTE[0] : change <= 0 ? FALL : RISE;
    return { base, change, color: tone === "grey" ? GREY : own };
  });
}

function traces(kind, { heads, rows }, unit) {
  const x = rows.map((row) => row[0].dataset.value ?? escapeLabel(row[0].textContent.trim()));
  const hover = unit === "usd" ? "%{y:$.4~f}" : unit === "share" ? "%{y:.1%}" : "%{y:.3~s}";
  if (kind === "heat") {
    return [{
      type: "heatmap", x, y: heads.slice(1).map(escapeLabel), z: heads.slice(1).map((_, at) => rows.map((row) => valueOf(row[at + 1]))),
      colorscale: [[0, styleOf("--card")], [0.01, "#cfe4f5"], [0.4, "#56b4e9"], [1, "#00395c"]],
      hovertemplate: "%{x}<br>%{y}: %{z} calls<extra></extra>", colorbar: { thickness: 10, outlinewidth: 0 },
    }];
  }
  if (kind === "waterfall") {
    const bars = waterfallBars(rows);
    return [{
      type: "bar", x, y: bars.map((bar) => bar.change), base: bars.map((bar) => bar.base), customdata: bars.map((bar) => bar.change),
      marker: { color: bars.map((bar) => bar.color) }, hovertemplate: `${hover.replace("y", "customdata")}<extra>%{x}</extra>`,
    }];
  }
  return heads.slice(1).map((name, at) => ({
    name: escapeLabel(name), x, y: rows.map((row) => valueOf(row[at + 1])), hovertemplate: `${hover}<extra>%{fullData.name}</extra>`,
    marker: { color: PALETTE[at % PALETTE.length] }, line: { color: PALETTE[at % PALETTE.length], width: kind === "stack" ? 0.5 : 2 },
    ...(kind === "lines" ? { type: "scatter", mode: "lines+markers" } : { type: "bar" }),
  }));
}

function layout(figure, kind, count) {
  const unit = figure.dataset.unit;
  const grid = styleOf("--line");
  const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid, automargin: true };
  return {
    autosize: true, margin: { l: 48, r: 12, t: 8, b: 36 }, barmode: "relative", bargap: 0.15,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: styleOf("--text"), family: "system-ui, sans-serif", size: 12 },
    hovermode: ["heat", "waterfall"].includes(kind) ? "closest" : "x unified", hoverlabel: { bgcolor: styleOf("--card"), bordercolor: grid, font: { color: styleOf("--text") } },
    showlegend: count > 1, legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom" },
    xaxis: axis, yaxis: { ...axis, rangemode: "tozero", tickprefix: unit === "usd" ? "$" : "", tickformat: unit === "share" ? ".0%" : "", ...(kind === "heat" ? { type: "category" } : {}) },
    shapes: marks(figure), annotations: [],
  };
}

// Events over a plot: a line each, listed in the figure's <ol class="events">.
function marks(figure) {
  return [...figure.querySelectorAll(".events [data-at]")].map((each) => ({
    type: "line", xref: "x", yref: "paper", x0: each.dataset.at, x1: each.dataset.at, y0: 0, y1: 1,
    line: { color: styleOf(each.dataset.tone === "bad" ? "--bad" : "--faint"), width: 1, dash: "dot" },
  }));
}

function draw(figure) {
  const kind = figure.dataset.chart;
  const read = readTable(figure.querySelector("table"));
  const place = figure.querySelector(".chart");
  if (!read.rows.length) return;
  const made = traces(kind, read, figure.dataset.unit);
  Plotly.react(place, made, layout(figure, kind, made.length), { responsive: true, displayModeBar: false });
}

const figures = [...document.querySelectorAll("figure[data-chart]")];
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((each) => each.isIntersecting)) {
    seen.unobserve(entry.target);
    draw(entry.target);
    entry.target.dataset.drawn = "";
  }
}, { rootMargin: "200px" });
figures.forEach((figure) => seen.observe(figure));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => figures.filter((each) => "drawn" in each.dataset).forEach(draw));
