// Pages and the address: `#page?run=0&…` holds all that is shown, so a link shows it again.

import { el, time, count } from "./format.js";
import { json, Run, SLOW_MS } from "./data.js";
import { Timeline } from "./timeline.js";
import { forgetColours } from "./draw.js";
import { runPage } from "./run.js";
import { queryPage } from "./query.js";
import { comparePage } from "./compare.js";
import { stepsPage } from "./steps.js";
import { requestsPage } from "./requests.js";
import { ranksPage } from "./ranks.js";
import { memoryPage } from "./memory.js";
import { flamePage } from "./flame.js";
import { emptyPage } from "./picture.js";
import { table } from "./table.js";

const ALL_PAGES = [["runs", "Runs"], ["run", "Run"], ["timeline", "Timeline"], ["steps", "Steps"], ["requests", "Requests"], ["ranks", "Ranks"], ["memory", "Memory"],
  ["flame", "Host stacks"], ["query", "Query"], ["compare", "Compare"]];
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

/** A page that says what is being done. */
function say(text, kind = null) {
  main.replaceChildren(el("p", { class: kind ? `page ${kind}` : "page", id: "loading", role: "status" }, text));
}

async function show() {
  shown += 1;
  const turn = shown;
  const { page, run: number, state } = address();
  document.getElementById("tabs").replaceChildren(...PAGES.map(([key, title]) => el("a", { href: link(key, number), "aria-current": key === page ? "page" : null }, title)));
  document.getElementById("run").value = String(number);
  document.title = `${PAGES.find(([key]) => key === page)[1]} – ${all.runs[number]?.title ?? "llmprof"}`;
  const title = PAGES.find(([key]) => key === page)[1];
  // Nothing flickers where an answer comes at once.
  const slow = setTimeout(() => { if (turn === shown) say(`Loading ${title} of ${all.runs[number]?.title ?? "the run"}…`); }, main.querySelector("#loading") ? 0 : SLOW_MS);
  const keep = values => { if (turn === shown) history.replaceState(null, "", link(page, number, values)); };
  const content = await pageOf(page, number, state, keep).catch(error => el("div", { class: "page" }, el("p", { class: "bad" }, `Cannot show ${title}: ${error.message}`))).finally(() => clearTimeout(slow));
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

/** `keep(state)` puts what is shown into the address. */
async function pageOf(page, number, state, keep) {
  if (page === "runs") return runsPage();
  if (page === "compare") {
    const other = Number(state.with ?? (number === 0 ? 1 : 0));
    const second = Math.min(Math.max(other || 0, 0), all.runs.length - 1);
    return comparePage(await open(number), await open(second), all.runs, { state, keep: values => keep({ ...values, with: second }), change: with_ => { location.hash = link("compare", number, { with: with_ }); } });
  }
  const run = await open(number);
  const go = (other, values) => { location.hash = link(other, number, values); };
  if (page === "run") return runPage(run, go);
  if (page === "query") return queryPage(run, state, keep);
  if (page === "steps") return stepsPage(run, go);
  if (page === "requests") return requestsPage(run, state, keep);
  if (page === "ranks") return ranksPage(run, go);
  if (page === "memory") return memoryPage(run, go);
  if (page === "flame") return flamePage(run, state, keep);
  if (!run.lanes.lanes.length) return emptyPage("Timeline", "This run has no trace, requests or telemetry to draw over time.");
  const timeline = new Timeline(run, { moved: keep });
  timeline.restore(state);
  return timeline.root;
}

function runsPage() {
  const picked = new Set();
  const compare = el("button", { type: "button", disabled: true, click: () => { const [first, second] = [...picked].sort((a, b) => a - b); location.hash = link("compare", first, { with: second }); } }, "Compare the two");
  const pick = row => el("input", { type: "checkbox", checked: picked.has(row.number), "aria-label": `pick ${row.title}`, change: event => {
    if (event.target.checked) picked.add(row.number); else picked.delete(row.number);
    compare.disabled = picked.size !== 2;
  } });
  return el("div", { class: "page" }, el("h1", {}, "Runs"), all.runs.length > 1 ? el("p", {}, "Pick two runs and ", compare, ".") : null, table([
    { head: "Run", value: row => row.title, text: row => row.title },
    // Second, so that a narrow screen shows it.
    ...(all.runs.length > 1 ? [{ head: "Pick", value: row => row.number, text: () => "", cell: pick }] : []),
    { head: "Name", value: row => row.name, text: row => row.name },
    { head: "Device", value: row => row.device, text: row => row.device ?? "–" },
    ...(all.runs.some(run => run.notes) ? [{ head: "Notes", value: row => row.notes, text: row => row.notes ?? "", cell: row => row.notes?.split("\n")[0] ?? "", title: row => row.notes }] : []),
    { head: "Events", number: true, value: row => row.events, text: row => row.events ? count(row.events) : "–" },
    { head: "Time", number: true, value: row => row.span_ns, text: row => row.events ? time(row.span_ns) : "–" },
  ], all.runs.map((run, number) => ({ ...run, number })), { noun: "runs", hasFilter: all.runs.length > 1, choose: row => { location.hash = link("run", row.number); } }));
}

function theme() {
  const kept = localStorage.getItem("llmprof-theme");
  document.documentElement.dataset.theme = kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  forgetColours();
}

/** Canvases have the colours that they were drawn with. */
function redraw() {
  document.querySelectorAll(".timeline").forEach(element => element.timeline.draw());
  document.querySelectorAll(".picture").forEach(element => element.parentElement.picture.draw());
}

document.getElementById("theme").addEventListener("click", () => {
  localStorage.setItem("llmprof-theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  theme();
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { theme(); redraw(); });
document.getElementById("run").addEventListener("change", event => { location.hash = link(address().page, event.target.value); });
addEventListener("hashchange", show);
theme();
say("Loading the list of runs…");
all = await json("runs.json").catch(error => { say(`Cannot load the list of runs: ${error.message}`, "bad"); throw error; });
PAGES = ALL_PAGES.filter(([key]) => !(key === "query" && all.is_archive) && !(key === "compare" && all.runs.length < 2));
document.getElementById("run").replaceChildren(...all.runs.map((run, number) => el("option", { value: number }, run.title)));
await show();
document.documentElement.dataset.ready = "yes";
