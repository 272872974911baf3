// Two runs: timelines that move in step, the result of `llmprof compare`, and kernels by how much their time differs.

import { el, time, count, prose } from "./format.js";
import { json } from "./data.js";
import { reportTable } from "./run.js";
import { table } from "./table.js";
import { Timeline } from "./timeline.js";

/** Marks what the address keeps of the second timeline. */
const OF_B = "b.";

/** `keep(state)` puts both timelines into the address, `state` is what it holds; `change(number)` shows another run as B. */
export function comparePage(first, second, runs, { state, keep, change }) {
  const both = () => {
    const [a, b] = timelines.map(timeline => Object.entries(timeline.state()));
    keep(Object.fromEntries([...a, ...b.map(([key, value]) => [OF_B + key, value])]));
  };
  const span = Math.max(first.lanes.span_ns, second.lanes.span_ns);
  const timelines = [first, second].map(run => new Timeline(run, { moved: both, span }));
  timelines.forEach((timeline, place) => {
    timeline.linked = () => { const other = timelines[1 - place]; if (other.width) other.show(timeline.start, timeline.start + timeline.plotWidth * timeline.nsPerPx, true); };
  });
  const whole = { t: `${-0.01 * span},${1.02 * span}` };
  const ofB = Object.entries(state).filter(([key]) => key.startsWith(OF_B)).map(([key, value]) => [key.slice(OF_B.length), value]);
  timelines[0].restore({ ...whole, ...state });
  timelines[1].restore({ ...whole, ...Object.fromEntries(ofB) });
  const choice = el("select", { "aria-label": "run B", change: event => change(event.target.value) }, runs.map((run, number) => el("option", { value: number, selected: number === second.number }, run.title)));
  const compared = el("div", {}, el("p", { role: "status" }, "Comparing the runs…"));
  json(`compare/${first.number}/${second.number}.json`).then(
    ({ result, kernels }) => compared.replaceChildren(...resultOf(result), ...differences(kernels, timelines)),
    error => compared.replaceChildren(el("p", { class: "bad" }, `Cannot compare the runs: ${error.message}`)));
  return el("div", { class: "page" }, el("h1", {}, "Compare"),
    el("p", {}, `A: ${runs[first.number].title}, B: `, choice),
    el("div", { class: "pair" }, timelines.map(timeline => timeline.root)), compared);
}

function resultOf(result) {
  if (!result) return [el("p", {}, "A run has no analysis, so metrics are not compared.")];
  return [el("h2", {}, "Result"),
    ...result.caveats.map(text => el("p", { class: "bad" }, prose(text))),
    ...result.summary.map(text => el("p", {}, prose(text))),
    result.metrics ? reportTable(result.metrics) : "",
    ...result.notes.map(text => el("p", { class: "soft" }, prose(text)))];
}

function differences(kernels, timelines) {
  const ns = (head, value) => ({ head, number: true, value, text: row => time(value(row)) });
  const calls = (head, side) => ({ head, number: true, value: row => row[side]?.calls ?? 0, text: row => count(row[side]?.calls ?? 0) });
  const select = row => timelines.forEach((timeline, place) => {
    const own = place === 0 ? row.a : row.b;
    if (own) { timeline.search.value = row.label; timeline.find(true, own.name); }
  });
  return [el("h2", {}, "Kernels by difference"),
    el("p", {}, "Change is that of the median call, B ÷ A, with its 95 % interval over the calls of one capture a side: it does not cover what varies between captures. It needs 6 calls a side, and is computed for the 100 largest differences."),
    table([
      { head: "Kernel", value: row => row.label, text: row => row.label },
      calls("Calls, A", "a"), calls("Calls, B", "b"),
      ns("Total, A", row => row.a?.total_ns ?? 0), ns("Total, B", row => row.b?.total_ns ?? 0),
      { head: "Difference", number: true, value: row => Math.abs(row.difference_ns), text: row => `${row.difference_ns > 0 ? "+" : ""}${time(row.difference_ns)}` },
      ns("Median, A", row => row.a?.median_ns ?? null), ns("Median, B", row => row.b?.median_ns ?? null),
      { head: "Change", number: true, value: row => row.ratio, text: row => row.change ?? "–" },
      { head: "95 % CI", number: true, value: row => row.ci_low, text: row => row.interval ?? "–" },
    ], kernels, { noun: "kernels", sort: 5, choose: select })];
}
