// Follows calls: asks for the rows that are newer than the first while the page is seen.

const RETRY_MS = 5000;
const button = document.getElementById("live");
const state = document.getElementById("live-state");
const table = document.querySelector("#calls table");
const MAX_ROWS = Math.max(50, table.tBodies[0].rows.length);
const filters = new URLSearchParams(location.search);
// A search reads texts of prompts.
const PAUSE_MS = filters.get("q") ? 5000 : 1000;
let timer = null;

// Calls by their ids, which sort by arrival.
function callsOf(body) {
  const rows = [...body.rows].map((row) => [row.querySelector("a.id")?.pathname.split("/").pop(), row]);
  return rows.filter(([id]) => id);
}

// The first call's id, or one that a call would have which arrives as the page is made.
function newestId() {
  const [first] = callsOf(table.tBodies[0]);
  return first ? first[0] : `call_${Math.floor(button.dataset.now * 1000).toString(16).padStart(12, "0")}`;
}

function addRows(body) {
  const calls = new Map([...callsOf(table.tBodies[0]), ...callsOf(body)]);
  if (calls.size === 0) return;
  const newest = [...calls].sort(([left], [right]) => (left < right ? 1 : -1)).slice(0, MAX_ROWS);
  table.tBodies[0].replaceChildren(...newest.map(([, row]) => row));
  table.dispatchEvent(new Event("rows"));
}

async function refresh() {
  if (document.hidden) return PAUSE_MS;
  filters.set("newer", newestId());
  const answer = await fetch(`${location.pathname}?${filters}`, { redirect: "manual" });
  if (answer.type === "opaqueredirect") {
    stop("Sign in again to go on.");
    return PAUSE_MS;
  }
  if (!answer.ok) throw new Error(answer.status);
  const rows = `<table><tbody>${await answer.text()}</tbody></table>`;
  if (timer === null) return PAUSE_MS;
  addRows(new DOMParser().parseFromString(rows, "text/html").querySelector("tbody"));
  state.textContent = "Calls appear as they end, by the filters above.";
  return PAUSE_MS;
}

async function follow() {
  let pause = RETRY_MS;
  try {
    pause = await refresh();
  } catch {
    state.textContent = "The gateway does not answer just now; asking again.";
  }
  if (timer !== null) timer = setTimeout(follow, pause);
}

function start() {
  timer = setTimeout(follow, 0);
  button.textContent = "Stop";
}

function stop(why) {
  clearTimeout(timer);
  timer = null;
  state.textContent = why;
  button.textContent = "Follow live";
}

if (button) {
  button.hidden = false;
  button.addEventListener("click", () => (timer === null ? start() : stop("Stopped.")));
}
