// One tooltip and crosshair for pointer and keyboard, links of buckets, and zooming by dragging.

import { lengthOf } from "./chart_data.js";
import { stackEnds, svgElement } from "./chart_marks.js";
import { formatSum } from "./chart_scales.js";

const MAX_ROWS = 12;
const MAX_EVENTS = 4;
const MIN_DRAG = 6;
const NEAR = 8;
const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity };

export function htmlElement(name, className, ...children) {
  const element = document.createElement(name);
  element.className = className;
  element.append(...children);
  return element;
}

function tipRow(name, value, mark = "") {
  return htmlElement("li", "", htmlElement("i", mark && `key ${mark}`), htmlElement("span", "", name), htmlElement("b", "", value));
}

// Rows of one bucket: the dearest first, the sum, then what is no series of its own.
function tipRows({ chart, shown, extras }, index) {
  const isHeat = chart.kind === "heat";
  const present = shown.filter(({ values }) => values[index] !== null && (values[index] !== 0 || chart.kind === "lines"));
  const sorted = isHeat ? present.toReversed() : present.toSorted((a, b) => b.values[index] - a.values[index]);
  const rows = sorted.slice(0, MAX_ROWS).map(({ name, texts, color }) => tipRow(name, texts[index], isHeat ? "cell" : color));
  if (sorted.length > MAX_ROWS) rows.push(tipRow(`${sorted.length - MAX_ROWS} more`, ""));
  if (sorted.length > 1 && chart.kind !== "lines") {
    const sum = stackEnds(shown, index).reduce((a, b) => a + b);
    rows.push(tipRow("Total", formatSum(sum, chart.unit)));
  }
  return [...rows, ...extras.filter(({ values }) => values[index] !== null).map(({ name, texts, role }) => tipRow(name, texts[index], role))];
}

// Events in a bucket, or so near that a pointer means them.
function eventsAt({ chart: { events }, view: { slot } }, index) {
  return events.filter(({ place }) => Math.abs(place - index - 0.5) * slot <= Math.max(slot / 2, NEAR));
}

function fillTip(plot, index) {
  const { name, isPartial, link } = plot.chart.buckets[index];
  const events = eventsAt(plot, index).slice(0, MAX_EVENTS).map(({ text, isBad }) => htmlElement("p", isBad ? "event bad" : "event", text));
  plot.tip.replaceChildren(htmlElement("strong", "", isPartial ? `${name} so far` : name), htmlElement("ul", "", ...tipRows(plot, index)), ...events, ...(link ? [htmlElement("small", "", link.title)] : []));
}

// Beside the bucket, on the side that has room; below a step of a waterfall.
function placeTip({ tip, view }, index) {
  const { x, y, width, height } = view.bandOf(index, index);
  const [middle, gap] = [x + width / 2, Math.min(width / 2, 24) + 10];
  const beside = middle + gap + tip.offsetWidth <= view.width ? middle + gap : middle - gap - tip.offsetWidth;
  tip.style.left = `${Math.min(Math.max(view.isVertical ? view.width / 2 : beside, 0), view.width - tip.offsetWidth)}px`;
  tip.style.top = `${view.isVertical ? y + height : view.top}px`;
}

export function showBucket(plot, index) {
  plot.index = index;
  plot.tip.hidden = false;
  fillTip(plot, index);
  placeTip(plot, index);
  drawCrosshair(plot, index, index, "crosshair");
}

export function hideBucket(plot) {
  plot.index = null;
  plot.drag = null;
  plot.tip.hidden = true;
  plot.svg.querySelector(".hover")?.remove();
}

function drawCrosshair({ svg, view }, from, to, className) {
  svg.querySelector(".hover")?.remove();
  const dots = from === to ? view.dotsOf(from) : [];
  svg.append(svgElement("g", { class: "hover" }, svgElement("rect", { class: className, ...view.bandOf(from, to) }),
    ...dots.map(({ x, y, color }) => svgElement("circle", { class: color, cx: x, cy: y, r: 4 }))));
}

// The address of a page for the days of these buckets.
function zoomAddress(address, buckets, from, to) {
  const url = new URL(address);
  const textOf = (time) => new Date(time).toISOString().slice(0, 10);
  const end = textOf(buckets[to].start + lengthOf(buckets, to) - 1);
  const last = url.searchParams.get("to") || end;
  url.searchParams.set("from", textOf(buckets[from].start));
  url.searchParams.set("to", end < last ? end : last);
  for (const name of ["after", "unit"]) url.searchParams.delete(name);
  return url.href;
}

function dragEnds({ start, index }) {
  return [start, index].sort((a, b) => a - b);
}

function moveDrag(plot, event, index) {
  plot.drag.index = index;
  plot.drag.isFar ||= Math.abs(event.clientX - plot.drag.x) > MIN_DRAG;
  if (!plot.drag.isFar) return;
  const [from, to] = dragEnds(plot.drag);
  plot.tip.replaceChildren(htmlElement("strong", "", [...new Set([from, to])].map((end) => plot.chart.buckets[end].name).join(" – ")));
  placeTip(plot, index);
  drawCrosshair(plot, from, to, "selection");
}

function openBucket({ chart }, index) {
  const link = chart.buckets[index]?.link;
  if (link) location.assign(link.href);
}

function endDrag(plot) {
  const { drag, chart, figure } = plot;
  plot.drag = null;
  if (!drag) return;
  if (!drag.isFar) return openBucket(plot, drag.start);
  const [from, to] = dragEnds(drag);
  const target = new URL(figure.dataset.zoom || location.href, location.href);
  location.assign(zoomAddress(target, chart.buckets, from, to));
}

function pressKey(plot, event) {
  if (event.key === "Escape") return hideBucket(plot);
  if (event.key === "Enter") return openBucket(plot, plot.index);
  if (!(event.key in STEPS)) return;
  event.preventDefault();
  const last = plot.view.count - 1;
  const start = plot.index ?? (STEPS[event.key] < 0 ? last + 1 : -1);
  showBucket(plot, Math.min(Math.max(start + STEPS[event.key], 0), last));
}

// Listens on a plot; its `view` may be drawn anew at any time.
export function followPointer(plot) {
  const { svg, figure } = plot;
  const indexOf = (event) => plot.view.indexAt(event.clientX - svg.getBoundingClientRect().left, event.clientY - svg.getBoundingClientRect().top);
  svg.addEventListener("pointermove", (event) => {
    const index = indexOf(event);
    if (plot.drag) moveDrag(plot, event, index);
    else if (index !== plot.index) showBucket(plot, index);
  });
  svg.addEventListener("pointerdown", (event) => {
    showBucket(plot, indexOf(event));
    if (!("zoom" in figure.dataset) || event.pointerType === "touch" || event.button) return;
    event.preventDefault();
    svg.focus({ preventScroll: true });
    svg.setPointerCapture(event.pointerId);
    plot.drag = { start: indexOf(event), index: indexOf(event), x: event.clientX, isFar: false };
  });
  svg.addEventListener("pointerup", () => endDrag(plot));
  // A finger leaves at once; what it touched stays until it touches something else.
  svg.addEventListener("pointerleave", (event) => plot.drag || event.pointerType === "touch" || hideBucket(plot));
  svg.addEventListener("pointercancel", () => hideBucket(plot));
  svg.addEventListener("keydown", (event) => pressKey(plot, event));
  svg.addEventListener("blur", () => hideBucket(plot));
}
