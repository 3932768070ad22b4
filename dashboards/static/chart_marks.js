// Draws a chart's axes and marks as SVG. Colours come from the stylesheet, by class.

import { formatTick, niceTicks, timeTicks } from "./chart_scales.js";

const SIGN_WIDTH = 6.6;
const MARGIN = { top: 14, right: 10, bottom: 34 };
const ROW_HEIGHT = 34;
const MAX_BAR_WIDTH = 56;

export function svgElement(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, typeof value === "number" ? Math.round(value * 100) / 100 : value);
  element.append(...children);
  return element;
}

function cut(text, width) {
  const most = Math.max(3, Math.floor(width / SIGN_WIDTH));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// Sums above and below zero of one bucket's stack.
export function stackEnds(series, index) {
  const values = series.map(({ values }) => values[index] ?? 0);
  return [values.filter((value) => value < 0).reduce((a, b) => a + b, 0), values.filter((value) => value > 0).reduce((a, b) => a + b, 0)];
}

function valueRange({ kind, buckets }, series, extras) {
  const lines = (kind === "stack" ? extras : [...series, ...extras]).flatMap(({ values }) => values.filter((value) => value !== null));
  const ends = kind === "stack" ? buckets.flatMap((_, index) => stackEnds(series, index)) : [];
  const all = [0, ...lines, ...ends];
  return [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))];
}

// Places of a plot whose buckets stand side by side.
function columnsFrame(svg, count, width, height, left) {
  const slot = (width - left - MARGIN.right) / count;
  const bottom = height - MARGIN.bottom;
  return {
    svg, width, height, left, top: MARGIN.top, bottom, slot, count,
    xOf: (place) => left + (place + 0.5) * slot,
    indexAt: (x) => Math.min(Math.max(Math.floor((x - left) / slot), 0), count - 1),
    bandOf: (from, to) => ({ x: left + from * slot, y: MARGIN.top, width: (to - from + 1) * slot, height: bottom - MARGIN.top }),
  };
}

function drawTimeAxis({ svg, bottom, slot, count, width, xOf }, buckets) {
  for (const { index, text, below } of timeTicks(buckets.map((bucket) => bucket.start), slot * count)) {
    const x = Math.min(Math.max(xOf(index), 22), width - 22);
    svg.append(
      svgElement("text", { class: "tick", x, y: bottom + 15, "text-anchor": "middle" }, text),
      svgElement("text", { class: "tick below", x, y: bottom + 29, "text-anchor": "middle" }, below),
    );
  }
}

function drawEvents({ svg, left, slot, top, bottom }, events) {
  for (const { place, text, isBad } of events) {
    const x = left + place * slot;
    svg.append(svgElement("g", { class: isBad ? "event bad" : "event" },
      svgElement("title", {}, text),
      svgElement("path", { d: `M${x} ${bottom}V${top - 10}` }),
      svgElement("path", { class: "flag", d: `M${x} ${top - 10}l8 3.5l-8 3.5z` })));
  }
}

function drawBars(frame, series, yOf, buckets) {
  const width = Math.min(Math.max(frame.slot * 0.78, 1), MAX_BAR_WIDTH);
  const ends = buckets.map(() => [0, 0]);
  for (const { color, values } of series) {
    const group = svgElement("g", { class: `series ${color}` });
    values.forEach((value, index) => {
      if (!value) return;
      const side = value < 0 ? 0 : 1;
      const from = ends[index][side];
      ends[index][side] += value;
      const [y, below] = [yOf(from), yOf(ends[index][side])].sort((a, b) => a - b);
      group.append(svgElement("rect", { class: buckets[index].isPartial ? "bar partial" : "bar", x: frame.xOf(index) - width / 2, y, width, height: below - y }));
    });
    frame.svg.append(group);
  }
}

// Runs of known values as lines; a value without neighbours is a dot.
function drawLines({ svg, xOf }, series, yOf) {
  for (const { color, values, role } of series) {
    const isKnown = (index) => (values[index] ?? null) !== null;
    const points = values.flatMap((value, index) => (value === null ? [] : [{ index, x: xOf(index), y: yOf(value) }]));
    const d = points.map(({ index, x, y }) => `${isKnown(index - 1) ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
    const alone = points.filter(({ index }) => !isKnown(index - 1) && !isKnown(index + 1));
    svg.append(svgElement("g", { class: `series ${color} ${role}` }, svgElement("path", { class: "line", d }), ...alone.map(({ x, y }) => svgElement("circle", { class: "dot", cx: x, cy: y, r: 3 }))));
  }
}

function drawBand({ svg, xOf }, extras, yOf) {
  const [low, high] = ["low", "high"].map((role) => extras.find((column) => column.role === role)?.values ?? []);
  const indexes = low.flatMap((value, index) => (value !== null && (high[index] ?? null) !== null ? [index] : []));
  if (!indexes.length) return;
  const points = [...indexes.map((index) => [index, high[index]]), ...indexes.toReversed().map((index) => [index, low[index]])];
  svg.append(svgElement("polygon", { class: "band", points: points.map(([index, value]) => `${xOf(index)},${yOf(value)}`).join(" ") }));
}

export function drawColumns(svg, chart, series, extras) {
  const { width, height } = svg.getBoundingClientRect();
  const ticks = niceTicks(...valueRange(chart, series, extras), Math.max(2, Math.round(height / 56)));
  const step = ticks.length > 1 ? Number((ticks[1] - ticks[0]).toPrecision(9)) : 1;
  const texts = ticks.map((tick) => formatTick(tick, chart.unit, step));
  const left = Math.max(...texts.map((text) => text.length)) * SIGN_WIDTH + 12;
  const frame = columnsFrame(svg, chart.buckets.length, width, height, left);
  const [low, high] = [ticks[0], ticks.at(-1)];
  const yOf = (value) => frame.bottom - ((value - low) / (high - low || 1)) * (frame.bottom - frame.top);
  ticks.forEach((tick, index) => svg.append(
    svgElement("path", { class: tick === 0 ? "grid zero" : "grid", d: `M${left} ${yOf(tick)}H${width - MARGIN.right}` }),
    svgElement("text", { class: "tick", x: left - 8, y: yOf(tick) + 4, "text-anchor": "end" }, texts[index]),
  ));
  if (ticks.length < 2) svg.append(svgElement("text", { class: "tick", x: width / 2, y: frame.bottom - 14, "text-anchor": "middle" }, "Nothing but 0 here"));
  drawTimeAxis(frame, chart.buckets);
  drawBand(frame, extras, yOf);
  if (chart.kind === "stack") drawBars(frame, series, yOf, chart.buckets);
  else drawLines(frame, series, yOf);
  drawLines(frame, extras.filter(({ role }) => !["low", "high"].includes(role)), yOf);
  drawEvents(frame, chart.events);
  const dotted = chart.kind === "stack" ? [] : series;
  const dotsOf = (index) => dotted.filter(({ values }) => values[index] !== null).map(({ values, color }) => ({ x: frame.xOf(index), y: yOf(values[index]), color }));
  return { ...frame, dotsOf };
}

// A row of cells for each series that has any, the first at the bottom.
export function drawHeat(svg, chart) {
  const { width, height } = svg.getBoundingClientRect();
  const isFilled = ({ values }) => values.some((value) => value);
  const rows = chart.series.slice(Math.max(0, chart.series.findIndex(isFilled)), chart.series.findLastIndex(isFilled) + 1);
  const left = Math.max(4, ...rows.map((row) => row.name.length)) * SIGN_WIDTH + 12;
  const frame = columnsFrame(svg, chart.buckets.length, width, height, left);
  const rowHeight = (frame.bottom - frame.top) / (rows.length || 1);
  const most = rows.flatMap((row) => row.values).reduce((a, b) => Math.max(a, b ?? 0), 1);
  rows.forEach((row, index) => {
    const y = frame.bottom - (index + 1) * rowHeight;
    if (index % Math.ceil(15 / rowHeight) === 0) svg.append(svgElement("text", { class: "tick", x: left - 8, y: y + rowHeight / 2 + 4, "text-anchor": "end" }, row.name));
    row.values.forEach((value, place) => value && svg.append(svgElement("rect", {
      class: "cell", x: left + place * frame.slot, y, width: Math.max(1, frame.slot - 1), height: Math.max(1, rowHeight - 1), "fill-opacity": 0.12 + 0.88 * Math.sqrt(value / most),
    })));
  });
  drawTimeAxis(frame, chart.buckets);
  drawEvents(frame, chart.events);
  return { ...frame, dotsOf: () => [] };
}

// Steps below each other, from one amount to another; grey bars are nobody's saving.
function waterfallSteps({ buckets, series: [{ values, texts }] }) {
  let level = 0;
  return buckets.map((bucket, index) => {
    const from = bucket.isTotal ? 0 : level;
    level = from + (values[index] ?? 0);
    const tone = bucket.isGrey || level === from ? "grey" : bucket.isTotal ? "total" : level < from ? "fall" : "rise";
    return { name: bucket.name, text: texts[index], from, to: level, tone };
  });
}

// On a narrow plot each name stands above its bar.
export function drawWaterfall(svg, chart) {
  const { width } = svg.getBoundingClientRect();
  const isNarrow = width < 480;
  const [rowHeight, barTop] = isNarrow ? [ROW_HEIGHT + 12, 21] : [ROW_HEIGHT, 5];
  const barHeight = rowHeight - barTop - 5;
  const steps = waterfallSteps(chart);
  const longest = (name) => Math.max(...steps.map((step) => step[name].length)) * SIGN_WIDTH * 1.1;
  const left = isNarrow ? 2 : Math.min(longest("name") + 14, width * 0.38);
  const right = width - longest("text") - 16;
  const ends = [0, ...steps.map((step) => step.to)];
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const xOf = (value) => left + ((value - low) / (high - low || 1)) * (right - left);
  const height = steps.length * rowHeight + 8;
  svg.setAttribute("height", height);
  steps.forEach(({ name, text, from, to, tone }, index) => {
    const y = 4 + index * rowHeight;
    const [x, end] = [xOf(from), xOf(to)].sort((a, b) => a - b);
    const place = isNarrow ? { x: 0, y: y + 15 } : { x: left - 10, y: y + rowHeight / 2 + 4, "text-anchor": "end" };
    svg.append(
      svgElement("text", { class: "value", ...place }, svgElement("title", {}, name), cut(name, (isNarrow ? width : left - 14) / 1.1)),
      svgElement("rect", { class: `bar ${tone}`, x, y: y + barTop, width: Math.max(end - x, 2), height: barHeight }),
      svgElement("text", { class: "value", x: end + 6, y: y + barTop + barHeight / 2 + 4 }, text),
    );
    if (index + 1 < steps.length) svg.append(svgElement("path", { class: "grid", d: `M${xOf(to)} ${y + rowHeight - 5}v${barTop + 5}` }));
  });
  return {
    svg, width, height, top: 0, bottom: height, count: steps.length, isVertical: true, dotsOf: () => [],
    indexAt: (_, y) => Math.min(Math.max(Math.floor((y - 4) / rowHeight), 0), steps.length - 1),
    bandOf: (from, to) => ({ x: 0, y: 4 + from * rowHeight, width, height: (to - from + 1) * rowHeight }),
  };
}
