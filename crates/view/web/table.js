// Tables that sort by a click on their head and filter by a text.

import { el, count } from "./format.js";

/** More rows than this slow a page down; the filter reaches the others. */
const ROWS_SHOWN = 500;
/** Of a longer word a narrow column shows at least so much in a line. */
const WORD_CHARS_MIN = 14;

/**
 * `columns`: {head, number, value(row), text(row)}, and `cell(row)` where a cell is an element; `choose(row)` is called on a click or Enter.
 */
export function table(columns, rows, { noun = "rows", choose = null, sort = null, hasFilter = rows.length > 8 } = {}) {
  let order = sort === null ? null : { column: sort, down: true };
  let filter = "";
  const body = el("tbody");
  const note = el("p", { class: "soft" });
  const heads = columns.map((column, place) => el("th", { class: column.number ? "number" : null, scope: "col" },
    el("button", { type: "button", click: () => { order = { column: place, down: order?.column === place ? !order.down : !!column.number }; fill(); } }, column.head)));

  // Long names break anywhere, but no column is narrower than its longest word, or some characters of a longer one.
  columns.forEach((column, place) => {
    if (column.number) return;
    const longest = rows.slice(0, ROWS_SHOWN).reduce((most, row) => Math.max(most, ...String(column.text(row)).split(/\s/).map(word => word.length)), 0);
    heads[place].style.minWidth = `${Math.min(longest, WORD_CHARS_MIN) + (place === 0 && choose ? 4 : 1)}ch`;
  });

  function fill() {
    const words = filter.toLowerCase();
    const kept = rows.filter(row => !words || columns.some(column => String(column.text(row)).toLowerCase().includes(words)));
    if (order) {
      const { value } = columns[order.column];
      kept.sort((a, b) => compare(value(a), value(b), order.down));
    }
    heads.forEach((head, place) => {
      if (order?.column === place) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    body.replaceChildren(...kept.slice(0, ROWS_SHOWN).map(row => {
      const cells = columns.map((column, place) => {
        const text = column.cell?.(row) ?? column.text(row);
        const content = place === 0 && choose ? el("button", { type: "button", click: () => choose(row) }, text) : text;
        return el("td", { class: column.number ? "number" : "name", title: column.title?.(row) }, content);
      });
      return el("tr", {}, cells);
    }));
    note.textContent = kept.length > ROWS_SHOWN ? `${count(ROWS_SHOWN)} of ${count(kept.length)} ${noun}; filter to see others` : `${count(kept.length)} ${noun}`;
  }
  fill();
  const search = hasFilter ? el("input", { class: "filter", type: "search", placeholder: `filter ${noun}`, "aria-label": `filter ${noun}`, input: event => { filter = event.target.value; fill(); } }) : null;
  return el("div", {}, search, el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, heads)), body)), hasFilter ? note : null);
}

function compare(a, b, down) {
  // What is not known comes last both ways.
  const [noA, noB] = [a === null || a === undefined, b === null || b === undefined];
  if (noA || noB) return noA - noB;
  const sign = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  return down ? -sign : sign;
}
