// A log that is dropped anywhere on the page is sent as if it had been chosen.

const form = document.querySelector("form.upload");
const button = form.querySelector("button");

document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  if (!event.dataTransfer.files.length) return;
  form.log.files = event.dataTransfer.files;
  form.requestSubmit();
});
form.addEventListener("submit", () => {
  button.disabled = true;
  button.textContent = "Replaying…";
});
// The browser may keep the page as it was left.
addEventListener("pageshow", () => {
  button.disabled = false;
  button.textContent = "Replay";
});
