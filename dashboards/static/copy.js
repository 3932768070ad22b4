// A button that copies the text beside it; over plain HTTP, where browsers let no page copy, and
// without a script the text can be selected.
for (const block of navigator.clipboard ? document.querySelectorAll("pre[data-copy]") : []) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", textContent: "Copy", className: "copy" });
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.textContent.trim());
    button.textContent = "Copied";
  });
  block.after(button);
}
