// Views that a person saved in this browser: a name for the address of a page with its filters.

const STORED = "thriftgate views";
const MAX_VIEWS = 20;
const menu = document.querySelector(".pages nav");
const controls = document.querySelector("main form.controls");

function savedViews() {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "[]").filter((view) => view.path?.startsWith("/admin"));
  } catch {
    return [];
  }
}

function keep(views) {
  localStorage.setItem(STORED, JSON.stringify(views.slice(-MAX_VIEWS)));
  drawMenu();
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function drawMenu() {
  menu.querySelector(".saved-views")?.remove();
  const views = savedViews();
  if (!views.length) return;
  const items = views.map((view) => {
    const link = element("a", { href: view.path, textContent: view.name, title: view.name });
    if (view.path === location.pathname + location.search) link.setAttribute("aria-current", "page");
    const remove = element("button", { type: "button", textContent: "×", ariaLabel: `Remove the view ${view.name}` });
    remove.addEventListener("click", () => keep(savedViews().filter((other) => other.name !== view.name)));
    return element("li", {}, link, remove);
  });
  const title = element("h2", { id: "saved-views-title", textContent: "Saved views" });
  const list = element("ul", {}, ...items);
  list.setAttribute("aria-labelledby", "saved-views-title");
  menu.append(element("div", { className: "saved-views" }, title, list));
}

function addSaveForm() {
  const name = element("input", { maxLength: 40, required: true, placeholder: "Name of the view", ariaLabel: "Name of the view" });
  const form = element("form", { className: "save-view" }, name, element("button", { textContent: "Save" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const view = { name: name.value.trim(), path: location.pathname + location.search };
    if (view.name) keep([...savedViews().filter((other) => other.name !== view.name), view]);
    details.open = false;
    name.value = "";
  });
  const details = element("details", { className: "save screen" }, element("summary", { textContent: "Save this view" }), form);
  controls.after(details);
}

drawMenu();
if (controls) addSaveForm();
