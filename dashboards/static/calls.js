// Follows calls: asks for this page again while it is seen, and puts its rows in place of the old.

const PAUSE_MS = 1000;
const RETRY_MS = 5000;
const button = document.getElementById("live");
const state = document.getElementById("live-state");
const table = document.querySelector("#calls table");
let timer = null;

async function refresh() {
  if (document.hidden) return PAUSE_MS;
  const answer = await fetch(location.href, { redirect: "manual" });
  if (answer.type === "opaqueredirect") {
    stop("Sign in again to go on.");
    return PAUSE_MS;
  }
  if (!answer.ok) throw new Error(answer.status);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (timer === null) return PAUSE_MS;
  table.tBodies[0].replaceWith(page.querySelector("#calls tbody"));
  table.dispatchEvent(new Event("rows"));
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
