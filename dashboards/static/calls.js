// Follows calls as they end: the server keeps the newest in memory, and asks no database for them.

const MAX_ROWS = 200;
const button = document.getElementById("live");
const state = document.getElementById("live-state");
const body = document.querySelector("#calls-title").closest("section").querySelector("tbody");
const columns = JSON.parse(button.dataset.columns);
const seen = new Set();
let source = null;

// How a column shows a value; the same forms as in dashboards/formatting.py.
const FORMS = {
  time: (at) => new Date(at * 1000).toISOString().slice(0, 19).replace("T", " "),
  call: (id) => id.slice(5, 17),
  text: (text) => text,
  feature: (name) => name || "(none)",
  asked_for: (model, call) => model !== call.model && `asked for ${model}`,
  missed: (reason) => reason && `missed: ${reason}`,
  attempts: (count) => count > 1 && `${count} attempts`,
  usd(nanos) {
    if (nanos === null) return "?";
    const dollars = nanos / 1e9;
    return dollars === 0 || dollars >= 1 ? `$${dollars.toFixed(2)}` : `$${dollars.toPrecision(3)}`;
  },
  tokens(count) {
    if (count === null) return "?";
    const [size, unit] = [[1e9, " G"], [1e6, " M"], [1e3, " k"]].find(([size]) => count >= size) ?? [];
    return size ? `${(count / size).toFixed(1)}${unit}` : count;
  },
  cached: (count, call) => `${call.prompt_tokens ? ((100 * count) / call.prompt_tokens).toFixed(1) + " %" : "?"} cached`,
  served: (part) => part && `fast path: ${part}`,
  seconds(value) {
    if (value === null) return "-";
    return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(2)} s`;
  },
};

function cell(call, [heading, field, form, details]) {
  const made = document.createElement(form === "call" ? "th" : "td");
  const text = FORMS[form](call[field], call);
  if (form === "call") {
    made.scope = "row";
    const link = document.createElement("a");
    link.className = "id";
    link.href = `/admin/calls/${encodeURIComponent(call[field])}`;
    link.textContent = text;
    made.append(link);
    return made;
  }
  made.dataset.name = heading.replace("#", "");
  if (heading.startsWith("#")) made.className = "number";
  made.textContent = text;
  for (const [field, form] of details) {
    const detail = FORMS[form](call[field], call);
    if (!detail) continue;
    const small = document.createElement("small");
    small.textContent = detail;
    made.append(small);
  }
  return made;
}

function row(call) {
  const made = document.createElement("tr");
  made.append(...columns.map((column) => cell(call, column)));
  return made;
}

function follow() {
  source = new EventSource(button.dataset.source);
  body.replaceChildren();
  seen.clear();
  source.addEventListener("call", (event) => {
    const call = JSON.parse(event.data);
    if (seen.has(call.call_id)) return;
    seen.add(call.call_id);
    body.prepend(row(call));
    while (body.rows.length > MAX_ROWS) body.lastElementChild.remove();
  });
  source.addEventListener("dropped", (event) => { state.textContent = `${event.data} calls came too fast to be shown.`; });
  source.onopen = () => { state.textContent = "Calls of this gateway appear as they end, by the filters above."; };
  source.onerror = () => { state.textContent = "The connection broke off; asking again."; };
  button.textContent = "Stop";
}

function stop() {
  source.close();
  source = null;
  state.textContent = "Stopped. Reload for the ledger's list.";
  button.textContent = "Follow live";
}

button.hidden = false;
button.addEventListener("click", () => (source ? stop() : follow()));
