"use strict";
// Without this script the page has everything but sorting, enlarging and figures that react.
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
  button.setAttribute("aria-label", `Enlarge: ${figure.querySelector("figcaption").firstChild.textContent}`);
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => {
    const large = figure.classList.toggle("large");
    button.setAttribute("aria-pressed", String(large));
    const plot = figure.querySelector(".plot");
    if (plot?.data) Plotly.Plots.resize(plot);
  });
  figure.append(button);
}

// The picture stays for paper, and for who has no scripts.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const plots = [];

// What is dark on white can't be seen on black.
function seen(colour) {
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const light = (0.3 * parts[0] + 0.59 * parts[1] + 0.11 * parts[2]) / 255;
  const more = Math.max(0, 0.55 - light);
  return `rgb(${parts.map((one) => Math.round(one + (255 - one) * more)).join()})`;
}

const LINE = 20; // pixels of a line of the legend

// A row of words, such as of a comparison, needs the height of its letters.
function panels(told, narrow) {
  const words = told.layout.yaxis.ticktext ?? [];
  const lines = Math.max(0, ...words.map((text) => text.split("<br>").length)) + narrow;
  return Math.max((narrow ? 240 : 280) * told.layout.meta.rows, (6 + 14 * lines) * words.length);
}

// A long legend is above the panels, and takes none of their height.
function legendHeight(names, width) {
  let lines = 0;
  let used = width;
  for (const parts of names.map((name) => name.split("<br>"))) {
    const wide = 7 * Math.max(...parts.map((part) => part.length)) + 50;
    if (used + wide > width) {
      lines += parts.length;
      used = 0;
    }
    used += wide;
  }
  return LINE * Math.max(0, lines - 1);
}

function drawn(told, place) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim();
  const line = style.getPropertyValue("--line").trim();
  const narrow = place.clientWidth < 480;
  const layout = structuredClone(told.layout);
  for (const [name, axis] of Object.entries(layout)) {
    if (!/^[xy]axis/.test(name)) continue;
    Object.assign(axis, { gridcolor: line, zerolinecolor: line, linecolor: ink, ticks: "outside", automargin: true });
    axis.title.font = { size: narrow ? 11 : 13 };
    if (narrow && name.startsWith("x")) axis.tickfont = { size: 10 };
    if (narrow && name.startsWith("y")) axis.ticktext = axis.ticktext?.map((text) => text.replace(", ", ",<br>"));
  }
  const data = structuredClone(told.data);
  for (const trace of narrow ? data : []) trace.name = trace.name?.replace(/(.{28,}?), /g, "$1,<br>");
  const named = data.filter((trace) => trace.showlegend).map((trace) => trace.name);
  const high = panels(told, narrow) + 80;
  const more = legendHeight(named, place.clientWidth);
  const titles = LINE * (told.layout.meta.title_lines - 1);
  for (const trace of dark.matches ? data : []) {
    for (const part of [trace.line, trace.marker, trace.error_y]) {
      if (part) part.color = seen(part.color);
    }
  }
  for (const { line: across } of dark.matches ? layout.shapes : []) across.color = seen(across.color);
  Object.assign(layout, {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, family: "system-ui, sans-serif", size: narrow ? 11 : 12 },
    margin: { l: narrow ? 50 : 65, r: 12, t: 26 + titles, b: 45 },
    height: high + titles + more,
    legend: { orientation: "h", tracegroupgap: 0, maxheight: 2 * LINE + more, y: 1 + (38 + titles) / (high - 71), yanchor: "bottom", x: 0, font: { size: narrow ? 10 : 12 } },
    hovermode: "closest",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: line, activecolor: ink },
    dragmode: narrow ? false : "zoom",
  });
  const removed = ["select2d", "lasso2d", "autoScale2d", "toImage"];
  Plotly.react(place, data, layout, { responsive: true, displaylogo: false, modeBarButtonsToRemove: removed });
}

for (const part of document.querySelectorAll('figure > script[type="application/json"]')) {
  const place = document.createElement("div");
  place.className = "plot";
  part.after(place);
  plots.push({ told: JSON.parse(part.textContent), place, figure: part.parentNode });
}
// Many figures take their time, so each is drawn when it comes into sight; until then it is a picture.
const near = new IntersectionObserver((seenNow) => {
  for (const one of seenNow) {
    if (!one.isIntersecting) continue;
    near.unobserve(one.target);
    one.target.classList.add("live");
    const { told, place } = plots.find(({ figure }) => figure === one.target);
    drawn(told, place);
  }
}, { rootMargin: "400px" });
for (const { figure } of plots) near.observe(figure);
dark.addEventListener("change", () => {
  for (const { told, place } of plots) if (place.data) drawn(told, place);
});

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
