// SQL over a run.

import { el, count } from "./format.js";
import { json } from "./data.js";
import { table } from "./table.js";

const FIRST = "SELECT category, count(*) AS kernels, sum(duration_ns) AS total_ns\nFROM kernel GROUP BY category ORDER BY total_ns DESC";

/** `keep(state)` puts the query into the address. */
export async function queryPage(run, state, keep) {
  const tables = await json("tables.json");
  const text = el("textarea", { rows: "6", cols: "100", "aria-label": "SQL", spellcheck: "false",
    keydown: event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); } } });
  text.value = state.sql ?? FIRST;
  const answer = el("div", { role: "region", "aria-label": "Answer", "aria-live": "polite" });

  async function ask() {
    keep({ sql: text.value });
    const found = await run.query("query", { sql: text.value });
    if (found.error) { answer.replaceChildren(el("p", { class: "bad" }, found.error)); return; }
    const isNumber = found.columns.map((_, place) => found.rows.some(row => typeof row[place] === "number"));
    const columns = found.columns.map((head, place) => ({ head, number: isNumber[place], value: row => row[place], text: row => row[place] === null ? "" : typeof row[place] === "number" ? row[place].toLocaleString("en-US") : String(row[place]) }));
    answer.replaceChildren(found.is_cut ? el("p", {}, `The first ${count(found.rows.length)} rows.`) : "", table(columns, found.rows, { noun: "rows" }));
  }
  if (state.sql) ask();
  return el("div", { class: "page" }, el("h1", {}, "Query"),
    el("p", {}, "One SELECT over the tables of this run. Times are nanoseconds since the first event."), text,
    el("p", {}, el("button", { type: "button", click: ask }, "Run (Ctrl+Enter)")), answer,
    el("h2", {}, "Tables"), el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, tables.map(([name, columns]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "name" }, columns.join(", "))))))));
}
