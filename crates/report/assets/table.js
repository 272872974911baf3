// Tables that sort by a click on a header and show the rows that hold a text.
"use strict";
for (const figure of document.querySelectorAll("figure.operators")) {
  const body = figure.querySelector("tbody");
  const headers = [...figure.querySelectorAll("th")];
  const filter = figure.querySelector(".filter");
  const output = figure.querySelector("output");
  const words = output.textContent.replace(/^\d+ /, "");
  const rows = [...body.rows].map((row) => ({
    row,
    text: row.textContent.toLowerCase(),
    keys: [...row.cells].map((cell) => {
      if ("missing" in cell.dataset) return null;
      return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
    }),
  }));
  const language = new Intl.Collator(undefined, { numeric: true });

  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return language.compare(a, b);
  };
  const sort = (column, direction) => {
    rows.sort((a, b) => {
      const x = a.keys[column], y = b.keys[column];
      // What is not known comes last, whichever way.
      if (x === null || y === null) return (x === null) - (y === null);
      return direction * compare(x, y);
    });
    body.append(...rows.map(({ row }) => row));
    headers.forEach((header, index) => {
      if (index === column) header.setAttribute("aria-sort", direction < 0 ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
    });
  };
  headers.forEach((header, column) => header.querySelector("button").addEventListener("click", () => {
    const numeric = header.classList.contains("n");
    const current = header.getAttribute("aria-sort");
    // The first click shows what people look for: the largest number, the first word.
    const first = numeric ? -1 : 1;
    const reversed = current === (numeric ? "descending" : "ascending");
    sort(column, reversed ? -first : first);
  }));
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    let shown = 0;
    for (const { row, text } of rows) {
      const match = text.includes(wanted);
      row.hidden = !match;
      shown += match;
    }
    output.textContent = wanted ? `${shown} of ${rows.length} ${words}` : `${rows.length} ${words}`;
  });
}

// Tables that are wider than a narrow page become cards, so that no column is out of sight.
{
  const narrow = matchMedia("(max-width: 46rem)");
  const tables = [...document.querySelectorAll(".scroll")];
  const head = (table) => {
    const headers = [...table.querySelectorAll("th")].map((header) => header.textContent);
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, index) => { cell.dataset.header = headers[index]; });
    }
  };
  const fit = () => {
    for (const table of tables) table.classList.remove("cards");
    if (!narrow.matches) return;
    const wide = tables.filter((table) => table.scrollWidth > table.clientWidth + 1);
    for (const table of wide) {
      head(table);
      table.classList.add("cards");
    }
  };
  new ResizeObserver(fit).observe(document.documentElement);
  fit();
}
