"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Sorting: the button in a header sorts its table by the data-key of that column; a cell without one goes last.
for (const button of all("th > button")) {
  button.addEventListener("click", () => {
    const header = button.parentElement;
    const body = header.closest("table").tBodies[0];
    const direction = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of header.parentElement.children) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
    const key = (row) => row.cells[header.cellIndex].dataset.key;
    const compare = (a, b) => {
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      const numeric = Number(a) - Number(b);
      return direction * (Number.isNaN(numeric) ? a.localeCompare(b, undefined, { numeric: true }) : numeric);
    };
    body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b))));
  });
}

// Filters: of rows by family and method, and of cells by seed as well. What has no row is always shown.
const form = document.querySelector("form.filters");
const facets = {};
for (const row of all("tr[data-method]")) facets[row.dataset.row] = row.dataset;
function filter() {
  if (!form) return;
  const { family = "", method = "", seed = "" } = Object.fromEntries(new FormData(form));
  const shown = (row) => (!family || row.family === family) && (!method || row.method === method);
  const rows = new Set(Object.keys(facets).filter((row) => shown(facets[row])));
  for (const part of all("[data-row]")) {
    const isOtherSeed = seed !== "" && (part.dataset.seed ?? seed) !== seed;
    const isLeftOut = isOtherSeed || !rows.has(part.dataset.row);
    if (part instanceof SVGElement) part.classList.toggle("left-out", isLeftOut);
    else part.hidden = isLeftOut;
  }
  const cells = all("tr[data-seed][id]");
  const count = (some, of, what) => `${some.toLocaleString("en")} of ${of.toLocaleString("en")} ${what}`;
  const left = cells.filter((cell) => !cell.hidden).length;
  form.querySelector("output").value =
    `${count(rows.size, Object.keys(facets).length, "rows")}, ${count(left, cells.length, "cells")}`;
}

// The address: #place?family=...&method=...&seed=..., where each part may be absent.
let place = "";
function choices() {
  return new URLSearchParams(form ? [...new FormData(form)].filter(([, value]) => value) : []).toString();
}
function keep() {
  const query = choices();
  const hash = `${place}${query ? `?${query}` : ""}`;
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}
function follow() {
  const [name, query] = location.hash.slice(1).split("?");
  place = name;
  if (query !== undefined) {
    const chosen = new URLSearchParams(query);
    for (const select of form ? form.querySelectorAll("select") : []) {
      select.value = chosen.get(select.name) ?? "";
      if (select.selectedIndex < 0) select.value = "";
    }
    filter();
  } else if (choices()) {
    keep();
  }
  reveal();
}
// A place in the page is opened where it is folded, and marked.
function reveal() {
  for (const other of all(".target")) other.classList.remove("target");
  const target = place && document.getElementById(decodeURIComponent(place));
  if (!target) return;
  for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  target.classList.add("target");
  target.scrollIntoView();
}
if (form) {
  form.hidden = false;
  form.addEventListener("change", () => { filter(); keep(); });
  form.querySelector("button").addEventListener("click", () => { form.reset(); filter(); keep(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
}
// Tooltips: what a column means, by pointer and by keyboard, and the numbers of a row in a picture; until Escape.
const tip = document.createElement("div");
tip.className = "tip";
tip.id = "tip";
tip.setAttribute("role", "tooltip");
tip.hidden = true;
document.body.append(tip);
for (const header of all("th[title]")) {
  const button = header.querySelector("button") ?? header;
  button.dataset.tip = header.title;
  header.removeAttribute("title");
}
function textOf(part) {
  const title = part.querySelector(":scope > title");
  if (title) { part.dataset.tip = title.textContent; title.remove(); }  // else the browser would show its own as well
  return part.dataset.tip;
}
function show(part) {
  hide();
  const text = part && textOf(part);
  if (!text) return;
  tip.textContent = text;
  tip.hidden = false;
  if (part instanceof HTMLElement) part.setAttribute("aria-describedby", "tip");
  const at = part.getBoundingClientRect();
  const below = at.bottom + 8 + tip.offsetHeight < innerHeight;
  tip.style.left = `${Math.max(8, Math.min(at.left, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${below ? at.bottom + 8 : Math.max(8, at.top - tip.offsetHeight - 8)}px`;
}
function hide() {
  tip.hidden = true;
  for (const part of all("[aria-describedby=tip]")) part.removeAttribute("aria-describedby");
}
for (const kind of ["pointerover", "focusin"]) {
  document.addEventListener(kind, (event) => show(event.target.closest("[data-tip], svg [data-row]")));
}
document.addEventListener("focusout", hide);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

addEventListener("hashchange", follow);
follow();

// What is cut off at its right edge fades there, until it is scrolled to its end.
for (const one of all(".scroll")) {
  const mark = () => one.classList.toggle("more", one.scrollWidth - one.clientWidth - one.scrollLeft > 4);
  one.addEventListener("scroll", mark, { passive: true });
  new ResizeObserver(mark).observe(one);
}
