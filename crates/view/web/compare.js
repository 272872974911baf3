// Two runs: timelines that move in step, and kernels by how much their time differs.

import { el, time, count } from "./format.js";
import { table } from "./table.js";
import { Timeline } from "./timeline.js";

/** `change(number)` shows another second run. */
export async function comparePage(first, second, runs, change) {
  const [a, b] = await Promise.all([first.page(), second.page()]);
  const timelines = [first, second].map(run => new Timeline(run));
  // Both show the same time since their own beginning, or since the place where the second was moved to by itself.
  timelines.forEach((timeline, place) => {
    timeline.linked = () => { const other = timelines[1 - place]; if (other.width) other.show(timeline.start, timeline.start + timeline.plotWidth * timeline.nsPerPx, true); };
  });
  const choice = el("select", { "aria-label": "second run", change: event => change(event.target.value) }, runs.map((run, number) => el("option", { value: number, selected: number === second.number }, run.title)));
  const rows = joined(a.kernels ?? [], b.kernels ?? []);
  return el("div", { class: "page" }, el("h1", {}, "Compare"),
    el("p", {}, `${runs[first.number].title} with `, choice),
    el("div", { class: "pair" }, timelines.map(timeline => timeline.root)),
    el("h2", {}, "Kernels by difference"),
    el("p", {}, "One capture of each run: differences have no interval of confidence here. llmprof compare runs both in turns and gives one."),
    table([
      { head: "Kernel", value: row => row.label, text: row => row.label },
      { head: "Calls, first", number: true, value: row => row.a?.calls ?? 0, text: row => count(row.a?.calls ?? 0) },
      { head: "Calls, second", number: true, value: row => row.b?.calls ?? 0, text: row => count(row.b?.calls ?? 0) },
      { head: "First", number: true, value: row => row.a?.total_ns ?? 0, text: row => time(row.a?.total_ns ?? 0) },
      { head: "Second", number: true, value: row => row.b?.total_ns ?? 0, text: row => time(row.b?.total_ns ?? 0) },
      { head: "Difference", number: true, value: row => Math.abs(row.difference), text: row => `${row.difference > 0 ? "+" : ""}${time(row.difference)}` },
      { head: "Median, first", number: true, value: row => row.a?.median_ns ?? null, text: row => time(row.a?.median_ns) },
      { head: "Median, second", number: true, value: row => row.b?.median_ns ?? null, text: row => time(row.b?.median_ns) },
    ], rows, { noun: "kernels", sort: 5, choose: row => timelines.forEach((timeline, place) => { const own = place === 0 ? row.a : row.b; if (own) { timeline.search.value = row.label; timeline.find(true, own.name); } }) }));
}

/** Rows of both runs by label. */
function joined(a, b) {
  const rows = new Map();
  const add = (list, side) => list.forEach(kernel => {
    const row = rows.get(kernel.label) ?? { label: kernel.label };
    // Kernels that differ in template arguments alone may share a label.
    row[side] = row[side] ? { ...row[side], calls: row[side].calls + kernel.calls, total_ns: row[side].total_ns + kernel.total_ns, median_ns: null } : kernel;
    rows.set(kernel.label, row);
  });
  add(a, "a");
  add(b, "b");
  return [...rows.values()].map(row => ({ ...row, difference: (row.b?.total_ns ?? 0) - (row.a?.total_ns ?? 0) }));
}
