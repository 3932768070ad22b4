// Tables of sections: sorted by a click on a heading, searched and paged where they are long, with
// a choice of columns where there are many, and saved as CSV exactly as they are seen. Those that
// the gateway sorts and pages (data-csv) have the choice, and their CSV from its address.

// On a phone each row is a card.
const PAGE_ROWS = matchMedia("(max-width: 48rem)").matches ? 6 : 20;
const MANY_COLUMNS = 7;
const UNITS = { k: 1e3, M: 1e6, B: 1e9, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400 };

// The start of a formula, full-width signs too; a signed number alone is none.
const FORMULA_START = /^[=+@\t＝＋－＠-]/u;
const SIGNED_NUMBER = /^[-+]\$?[\d,.]+( ?[a-zA-Z%]+)?$/u;
// A minus sign before a number, which spreadsheets do not read.
const MINUS = /^−(?=\$?\d)/u;

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function textOf(cell) {
  return (cell.innerText ?? cell.textContent).trim();
}

// A cell's number, with its unit counted; its text where it has none.
function sortKey(cell) {
  if (!cell) return "";
  const text = cell.dataset.value ?? (cell.querySelector("time")?.dateTime || textOf(cell).split("\n")[0]);
  const [, sign, digits, unit] = text.match(/^([-−+±]?)\$?([\d,]+(?:\.\d+)?) ?([a-zA-Z%]*)/u) ?? [];
  if (digits === undefined || /^\d{4}-\d\d/.test(text)) return text.toLowerCase();
  return Number(digits.replaceAll(",", "")) * (UNITS[unit] ?? 1) * (sign === "-" || sign === "−" ? -1 : 1);
}

// Numbers before texts, and what is unknown last in both directions.
function compareKeys(left, right, direction) {
  const unknown = (key) => key === "" || key === "?" || key === "–" || key === "-";
  if (unknown(left) || unknown(right)) return unknown(left) - unknown(right);
  if (typeof left === typeof right) return (left < right ? -1 : left > right ? 1 : 0) * direction;
  return typeof left === "number" ? -1 : 1;
}

class LongTable {
  constructor(table, name, csv) {
    this.table = table;
    this.name = name;
    this.csv = csv;
    this.hidden = new Set();
    this.heads = [...table.tHead.rows[0].cells];
    const isTotal = (row) => "total" in row.dataset;
    this.rows = [...table.tBodies[0].rows].filter((row) => !isTotal(row));
    this.totals = [...table.tBodies[0].rows].filter(isTotal);
    this.query = "";
    this.first = 0;
    this.shown = PAGE_ROWS;
    // The server sorts and pages what is served by it.
    const isServed = csv || "paged" in table.dataset;
    if (!isServed) this.heads.forEach((head, column) => this.addSort(head, column));
    this.addTools();
    if (!csv) this.draw();
  }

  addSort(head, column) {
    const button = element("button", { type: "button", className: "sort", textContent: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const isNumber = head.classList.contains("number");
      const direction = head.ariaSort ? (head.ariaSort === "ascending" ? -1 : 1) : isNumber ? -1 : 1;
      this.heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.ariaSort = direction === 1 ? "ascending" : "descending";
      const keys = new Map(this.rows.map((row) => [row, sortKey(row.cells[column])]));
      this.rows.sort((left, right) => compareKeys(keys.get(left), keys.get(right), direction));
      this.first = 0;
      this.draw();
    });
  }

  addTools() {
    const tools = element("div", { className: "table-tools screen" });
    if (!this.csv && this.rows.length > PAGE_ROWS) {
      const search = element("input", { type: "search", placeholder: `Search ${this.rows.length} rows`, ariaLabel: "Search the table" });
      search.addEventListener("input", () => {
        this.query = search.value.trim().toLowerCase();
        this.first = 0;
        this.shown = PAGE_ROWS;
        this.draw();
      });
      tools.append(search);
    }
    if (this.heads.length >= MANY_COLUMNS) tools.append(this.columnChoice());
    const save = element("button", { type: "button", textContent: "CSV" });
    save.addEventListener("click", () => (this.csv ? this.saveServed() : this.save()));
    tools.append(save);
    const around = this.table.closest(".scroll");
    const title = around.previousElementSibling;
    if (title?.classList.contains("table-tools")) title.append(...tools.children);
    else if (title?.tagName === "H2") {
      const heading = element("div", { className: "heading" });
      title.replaceWith(heading);
      heading.append(title, tools);
    } else around.before(tools);
    this.pager = this.rowPager();
    around.after(this.pager);
  }

  rowPager() {
    const turn = (pages) => () => {
      this.first += pages * PAGE_ROWS;
      this.draw();
    };
    const button = (textContent, ariaLabel, listener) => {
      const made = element("button", { type: "button", textContent, ariaLabel });
      made.addEventListener("click", listener);
      return made;
    };
    this.previous = button("‹", "Previous rows", turn(-1));
    this.next = button("›", "Next rows", turn(1));
    this.place = element("span", { role: "status" });
    this.every = button("", null, () => {
      this.first = 0;
      this.shown = Infinity;
      this.draw();
    });
    return element("div", { className: "pager screen", hidden: true }, this.previous, this.place, this.next, this.every);
  }

  columnChoice() {
    const stored = `columns ${location.pathname} ${this.name}`;
    const usual = this.heads.filter((head) => "hidden" in head.dataset).map((head) => textOf(head));
    this.hidden = new Set(JSON.parse(localStorage.getItem(stored)) ?? usual);
    const boxes = this.heads.slice(1).map((head) => {
      const title = textOf(head);
      const box = element("input", { type: "checkbox", checked: !this.hidden.has(title) });
      box.addEventListener("change", () => {
        this.hidden[box.checked ? "delete" : "add"](title);
        localStorage.setItem(stored, JSON.stringify([...this.hidden]));
        this.hideColumns();
      });
      return element("label", {}, box, ` ${title}`);
    });
    this.table.addEventListener("rows", () => this.hideColumns());
    this.hideColumns();
    return element("details", { className: "column-choice" }, element("summary", { textContent: "Columns" }), ...boxes);
  }

  hideColumns() {
    const rows = this.csv ? this.table.tBodies[0].rows : [...this.rows, ...this.totals];
    this.heads.forEach((head, place) => {
      const isHidden = place > 0 && this.hidden.has(textOf(head) || head.textContent.trim());
      for (const row of [head.parentElement, ...rows]) if (row.cells.length > place) row.cells[place].hidden = isHidden;
    });
  }

  wanted() {
    return this.rows.filter((row) => !this.query || row.textContent.toLowerCase().includes(this.query));
  }

  draw() {
    const wanted = this.wanted();
    const end = Math.min(this.first + this.shown, wanted.length);
    this.table.tBodies[0].replaceChildren(...wanted.slice(this.first, end), ...this.totals);
    this.pager.hidden = wanted.length <= this.shown;
    this.previous.disabled = this.first === 0;
    this.next.disabled = end === wanted.length;
    this.place.textContent = `${this.first + 1}–${end} of ${wanted.length}`;
    this.every.textContent = `Show all ${wanted.length}`;
  }

  saveServed() {
    const without = this.heads.filter((head) => head.hidden).map((head) => `&without=${head.dataset.column}`);
    location.assign(`${this.csv}${without.join("")}`);
  }

  save() {
    const line = (cells) => [...cells].filter((cell) => !cell.hidden).map((cell) => {
      const time = cell.querySelector("time[title]");
      const text = (time ? textOf(cell).replace(time.innerText, time.dateTime) : textOf(cell)).replace(/\s*\n\s*/g, "; ").replace(MINUS, "-");
      return `"${(FORMULA_START.test(text) && !SIGNED_NUMBER.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
    }).join(",");
    const rows = [...this.table.tBodies[0].rows].map((row) => line(row.cells));
    const text = [line(this.heads), ...rows].join("\r\n");
    const link = element("a", { href: URL.createObjectURL(new Blob([`\ufeff${text}`], { type: "text/csv" })), download: `${this.name}.csv` });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

for (const table of document.querySelectorAll("main .scroll > table")) {
  const section = table.closest("section");
  const isOwn = table.tHead && (section?.dataset.csv || table.tBodies[0]?.rows.length > 1) && !table.closest("figure, form");
  if (isOwn && section) new LongTable(table, section.id || section.getAttribute("aria-labelledby")?.replace("-title", "") || "table", section.dataset.csv);
}
