// Loads a page again every data-reload-s seconds while it is seen, and nothing in it is read by
// keys, selected or open: who works in it would lose their place.
const seconds = Number(document.querySelector("[data-reload-s]").dataset.reloadS);
const isInUse = () => document.querySelector("main :focus-visible, main details[open]:not(.listed)") || !getSelection().isCollapsed;
setInterval(() => document.hidden || isInUse() || location.reload(), seconds * 1000);
