// Times come in UTC; with ?local in a page's menu of zones a browser fills in its own zone.
for (const field of document.querySelectorAll("input[data-zone]")) {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const list = document.getElementById(field.getAttribute("list"));
  if (list && ![...list.options].some((each) => each.value === own)) list.append(new Option(own, own));
}
