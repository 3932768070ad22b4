// Follows calls as they end: the server keeps the newest in memory, and asks no database for them.

const MAX_ROWS = 200;
const button = document.getElementById("live");
const state = document.getElementById("live-state");
const body = document.querySelector("#calls-title").closest("section").querySelector("tbody");
const seen = new Set();
let source = null;

function cell(tag, name, text, isNumber = false) {
  const made = document.createElement(tag);
  if (tag === "th") made.scope = "row";
  else made.dataset.name = name;
  if (isNumber) made.className = "number";
  made.textContent = text ?? "?";
  return made;
}

function withDetails(made, ...details) {
  for (const each of details.filter(Boolean)) {
    const small = document.createElement("small");
    small.textContent = each;
    made.append(small);
  }
  return made;
}

function usd(nanos) {
  if (nanos === null) return "?";
  const dollars = nanos / 1e9;
  return dollars === 0 || dollars >= 1 ? `$${dollars.toFixed(2)}` : `$${dollars.toPrecision(3)}`;
}

function seconds(value) {
  if (value === null) return "–";
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(2)} s`;
}

function row(call) {
  const made = document.createElement("tr");
  const id = cell("th", "Call", "");
  const link = document.createElement("a");
  link.className = "id";
  link.href = `/admin/calls/${encodeURIComponent(call.call_id)}`;
  link.textContent = call.call_id.slice(5, 17);
  id.append(link);
  const share = call.prompt_tokens ? `${((100 * call.cache_read_tokens) / call.prompt_tokens).toFixed(1)} %` : "?";
  made.append(
    cell("td", "When", new Date(call.started * 1000).toISOString().slice(0, 19).replace("T", " ")), id,
    withDetails(cell("td", "Team", call.team_name), call.feature || "(none)"), cell("td", "Model", call.model),
    withDetails(cell("td", "Outcome", call.outcome), call.error, call.miss && `missed: ${call.miss}`, call.reroute_reason),
    cell("td", "Cost", usd(call.cost_nanos), true),
    withDetails(cell("td", "Prompt", call.prompt_tokens, true), `${share} cached`), cell("td", "Answer", call.generated_tokens, true),
    cell("td", "First token", seconds(call.ttft), true), cell("td", "Total", seconds(call.duration), true),
  );
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
