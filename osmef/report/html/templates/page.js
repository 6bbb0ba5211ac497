"use strict";
// Without this script the page has everything but sorting and enlarging.
const collator = new Intl.Collator("en", { numeric: true });
const said = document.getElementById("said");

function key(cell) {
  const text = cell.dataset.key ?? cell.textContent.trim();
  const number = text === "" ? NaN : Number(text);
  return { text, number };
}

function order(one, other) {
  if ((one.text === "") !== (other.text === "")) return null; // decided by the caller
  if (!Number.isNaN(one.number) && !Number.isNaN(other.number)) return one.number - other.number;
  return collator.compare(one.text, other.text);
}

function sort(table, heads, column) {
  const head = heads[column];
  const down = head.getAttribute("aria-sort") === "ascending";
  const rows = Array.from(table.tBodies[0].rows, (row) => ({ row, key: key(row.cells[column]) }));
  rows.sort((one, other) => {
    const found = order(one.key, other.key);
    if (found === null) return one.key.text === "" ? 1 : -1; // what is unknown stays last
    return down ? -found : found;
  });
  table.tBodies[0].append(...rows.map((one) => one.row));
  for (const other of heads) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  said.textContent = `Sorted by ${head.textContent.trim()}, ${down ? "descending" : "ascending"}`;
}

for (const table of document.querySelectorAll("table.sorts")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  if (table.tBodies[0].rows.length < 2) continue;
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, heads, column));
    head.append(button);
  });
}

for (const figure of document.querySelectorAll("figure:has(.drawing)")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "enlarge";
  button.textContent = "Enlarge";
  button.setAttribute("aria-label", `Enlarge: ${figure.querySelector("figcaption").textContent}`);
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => {
    const large = figure.classList.toggle("large");
    button.setAttribute("aria-pressed", String(large));
  });
  figure.append(button);
}

// Chromium prints nothing of a button where it repeats the head of a table on the next page.
function unwrap() {
  for (const button of document.querySelectorAll("thead button")) {
    button.parentNode.prepend(...button.childNodes);
  }
}

function wrap() {
  for (const button of document.querySelectorAll("thead button")) {
    button.append(...Array.from(button.parentNode.childNodes).filter((one) => one !== button));
  }
}

// A closed part of the page would be missing on paper.
const closed = () => document.querySelectorAll("details.prints:not([open])");
window.addEventListener("beforeprint", () => {
  unwrap();
  for (const part of closed()) {
    part.open = true;
    part.dataset.closed = "";
  }
});
window.addEventListener("afterprint", () => {
  wrap();
  for (const part of document.querySelectorAll("details[data-closed]")) {
    part.open = false;
    delete part.dataset.closed;
  }
});
