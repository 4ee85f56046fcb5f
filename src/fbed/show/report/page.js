"use strict";
// Tables sort by their headings: buttons, so that the keyboard and a screen reader can use them, too.
(() => {
  const told = document.getElementById("told");
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.textContent.trim();
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === "number") return -1; // numbers before cells that have none
    if (typeof b === "number") return 1;
    return a.localeCompare(b, undefined, { numeric: true });
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const original = [...body.rows];
    heads.forEach((head, column) => {
      const title = head.textContent;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const sign = up ? 1 : -1;
        const rows = original.map((row) => [row, valueOf(row, column)]);
        rows.sort((a, b) => sign * compare(a[1], b[1]));
        body.append(...rows.map((pair) => pair[0]));
        told.textContent = `Sorted by ${title}, ${up ? "ascending" : "descending"}`;
      });
    });
  }
  // What is folded on the screen is printed.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => (d.open = true)));
})();
