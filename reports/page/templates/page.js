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

// A place in the page is opened where it is folded.
function reveal() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  target.scrollIntoView();
}
// Tooltips: what a column means, by pointer and by keyboard, until Escape.
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
function show(part) {
  hide();
  if (!part) return;
  tip.textContent = part.dataset.tip;
  tip.hidden = false;
  part.setAttribute("aria-describedby", "tip");
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
  document.addEventListener(kind, (event) => show(event.target.closest("[data-tip]")));
}
document.addEventListener("focusout", hide);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

addEventListener("hashchange", reveal);
reveal();

// What is cut off at its right edge fades there, until it is scrolled to its end.
for (const one of all(".scroll")) {
  const mark = () => one.classList.toggle("more", one.scrollWidth - one.clientWidth - one.scrollLeft > 4);
  one.addEventListener("scroll", mark, { passive: true });
  new ResizeObserver(mark).observe(one);
}
