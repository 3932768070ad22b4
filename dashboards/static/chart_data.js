// Reads a chart from its table, so that both always say the same, and gives each name its colour.
//
// The first cell of a row names its bucket, each further column is one series; `data-value` holds
// what a cell means to a machine, a bucket's beginning as its zone's clocks show it. A heading's
// `data-role` makes its column no series of its own: low and high are the edges of a band, forecast
// and previous are dashed lines, total is a series that is no part of others. A heading's `data-tone`
// is its colour, whatever its name.

const COLORS = 12;

function hashOf(name) {
  let hash = 0x811c9dc5;
  for (const sign of name) hash = Math.imul(hash ^ sign.codePointAt(0), 0x01000193);
  return (hash ^ (hash >>> 15)) >>> 0;
}

// A colour for each name, from 1 on, the same on all pages; 0 for "(none)", "(others)" and the like.
// Of names that share one the first by its hash has it, the others take the next that are free.
export function colorSlots(names) {
  const homeOf = (name) => hashOf(name) % COLORS;
  const own = [...new Set(names)].filter((name) => !/^\(.*\)$/.test(name)).sort((a, b) => hashOf(a) - hashOf(b) || (a < b ? -1 : 1));
  const slots = new Map();
  const taken = new Set();
  const take = (name, slot) => slots.set(name, slot + 1) && taken.add(slot);
  for (const name of own) if (!taken.has(homeOf(name))) take(name, homeOf(name));
  for (const name of own.filter((other) => !slots.has(other))) {
    let slot = homeOf(name);
    while (taken.has(slot) && taken.size < COLORS) slot = (slot + 1) % COLORS;
    take(name, slot);
  }
  return names.map((name) => slots.get(name) ?? 0);
}

function valueOf(cell) {
  return cell.dataset.value ? Number(cell.dataset.value) : null;
}

// Place of a moment among buckets: 1.5 is the middle of the second.
function placeOf(buckets, moment) {
  const index = Math.max(0, buckets.findLastIndex((bucket) => bucket.start <= moment));
  return index + Math.min(Math.max((moment - buckets[index].start) / lengthOf(buckets, index), 0), 1);
}

// Milliseconds from a bucket's beginning to its end.
export function lengthOf(buckets, index) {
  const first = buckets[index + 1] ? index : Math.max(0, index - 1);
  return buckets.length > 1 ? buckets[first + 1].start - buckets[first].start : 864e5;
}

export function readChart(figure) {
  const kind = figure.dataset.chart;
  const table = figure.querySelector("table");
  const rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells].slice(1, kind === "waterfall" ? 2 : undefined);
  const slots = colorSlots(heads.map((head) => (head.dataset.role ? "()" : head.textContent.trim())));
  const buckets = rows.map(({ cells: [head] }) => ({
    name: head.textContent.trim(), start: Date.parse(`${head.dataset.value}Z`), isPartial: "partial" in head.dataset,
    link: head.querySelector("a"), isTotal: head.dataset.measure !== "relative", isGrey: head.dataset.tone === "grey",
  }));
  const columns = heads.map((head, index) => ({
    name: head.textContent.trim(), role: head.dataset.role ?? "", color: head.dataset.tone ?? `s${slots[index]}`,
    values: rows.map((row) => valueOf(row.cells[index + 1])), texts: rows.map((row) => row.cells[index + 1].textContent.trim()),
  }));
  const events = [...figure.querySelectorAll(".events [data-at]")].map((item) => ({
    place: placeOf(buckets, Date.parse(`${item.dataset.at}Z`)), text: item.textContent.trim(), isBad: item.dataset.tone === "bad",
  }));
  const series = columns.filter((column) => ["", "total"].includes(column.role));
  if (series.length === 1 && (series[0].role || kind === "waterfall")) series[0].color = "lone";
  return { kind, unit: figure.dataset.unit ?? "count", buckets, events, series, extras: columns.filter((column) => !series.includes(column)) };
}
