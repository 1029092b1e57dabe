"use strict";
// Sorting: the button in a header sorts its table by the data-key of that column; a cell without one goes last.
for (const button of document.querySelectorAll("th > button")) {
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
// A link to #cell-... opens the part of the page that holds it.
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", reveal);
reveal();
