// Pages and the address: `#page?run=0&…` holds all that is shown, so a link shows it again.

import { el, time, count } from "./format.js";
import { json, Run } from "./data.js";
import { Timeline } from "./timeline.js";
import { forgetColours } from "./draw.js";
import { runPage } from "./run.js";
import { queryPage } from "./query.js";
import { comparePage } from "./compare.js";
import { table } from "./table.js";

const ALL_PAGES = [["runs", "Runs"], ["run", "Run"], ["timeline", "Timeline"], ["query", "Query"], ["compare", "Compare"]];
let PAGES = ALL_PAGES;
const main = document.getElementById("main");
const opened = new Map();
let all = { runs: [] };
let shown = 0;

function address() {
  const [page, query] = location.hash.replace(/^#/, "").split("?");
  const state = Object.fromEntries(new URLSearchParams(query ?? ""));
  const isKnown = PAGES.some(([key]) => key === page);
  return { page: isKnown ? page : all.runs.length > 1 ? "runs" : "run", run: Math.min(Math.max(Number(state.run) || 0, 0), Math.max(all.runs.length - 1, 0)), state };
}

function link(page, run, state = {}) {
  return `#${page}?${new URLSearchParams({ ...state, run })}`;
}

function open(number) {
  if (!opened.has(number)) opened.set(number, Run.open(number).catch(error => { opened.delete(number); throw error; }));
  return opened.get(number);
}

async function show() {
  shown += 1;
  const turn = shown;
  const { page, run: number, state } = address();
  document.getElementById("tabs").replaceChildren(...PAGES.map(([key, title]) => el("a", { href: link(key, number), "aria-current": key === page ? "page" : null }, title)));
  document.getElementById("run").value = String(number);
  document.title = `${PAGES.find(([key]) => key === page)[1]} – ${all.runs[number]?.title ?? "llmprof"}`;
  const content = await pageOf(page, number, state);
  if (turn !== shown) return;
  main.replaceChildren(content);
  main.scrollTop = 0;
  if (page === "run" && state.finding) showFinding(document.getElementById(`finding-${state.finding}`));
  content.timeline?.canvas.focus();
}

/** Opens the evidence of a finding that the address names. */
function showFinding(item) {
  if (!item) return;
  item.classList.add("chosen");
  item.querySelector("details")?.setAttribute("open", "");
  item.scrollIntoView({ block: "center" });
}

async function pageOf(page, number, state) {
  if (page === "runs") return runsPage();
  if (page === "compare") {
    const other = Number(state.with ?? (number === 0 ? 1 : 0));
    return comparePage(await open(number), await open(Math.min(Math.max(other || 0, 0), all.runs.length - 1)), all.runs, with_ => { location.hash = link("compare", number, { with: with_ }); });
  }
  const run = await open(number);
  if (page === "run") return runPage(run, (other, values) => { location.hash = link(other, number, values); });
  if (page === "query") return queryPage(run, state, values => history.replaceState(null, "", link("query", number, values)));
  const timeline = new Timeline(run, { moved: now => {
    const hash = link("timeline", number, now);
    if (address().page === "timeline" && location.hash !== hash) history.replaceState(null, "", hash);
  } });
  if (Object.keys(state).some(key => key !== "run")) timeline.restore(state);
  if (state.q && !state.s) timeline.listFound();
  return timeline.root;
}

function runsPage() {
  return el("div", { class: "page" }, el("h1", {}, "Runs"), table([
    { head: "Run", value: row => row.title, text: row => row.title },
    { head: "Name", value: row => row.name, text: row => row.name },
    { head: "Device", value: row => row.device, text: row => row.device ?? "–" },
    { head: "Events", number: true, value: row => row.events, text: row => count(row.events) },
    { head: "Time", number: true, value: row => row.span_ns, text: row => time(row.span_ns) },
  ], all.runs.map((run, number) => ({ ...run, number })), { noun: "runs", choose: row => { location.hash = link("run", row.number); } }));
}

function theme() {
  const kept = localStorage.getItem("llmprof-theme");
  document.documentElement.dataset.theme = kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

document.getElementById("theme").addEventListener("click", () => {
  localStorage.setItem("llmprof-theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  theme();
  forgetColours();
  document.querySelectorAll(".timeline").forEach(element => element.timeline.draw());
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
document.getElementById("run").addEventListener("change", event => { location.hash = link(address().page, event.target.value); });
addEventListener("hashchange", show);
theme();
all = await json("runs.json");
PAGES = ALL_PAGES.filter(([key]) => !(key === "query" && all.is_archive) && !(key === "compare" && all.runs.length < 2));
document.getElementById("run").replaceChildren(...all.runs.map((run, number) => el("option", { value: number }, run.title)));
await show();
document.documentElement.dataset.ready = "yes";
