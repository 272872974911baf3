// Requests of a load as a Gantt chart with the engine steps that served them, and as a table.

import { el, time, count } from "./format.js";
import { table } from "./table.js";
import { Timeline } from "./timeline.js";
import { emptyPage } from "./picture.js";

/** `keep(state)` puts the view into the address, `state` is what it holds. */
export async function requestsPage(run, state, keep) {
  const page = await run.json("requests.json");
  if (page.why) return emptyPage("Requests", page.why);
  const ids = new Map(page.requests.map(row => [row.event, row.id]));
  const timeline = page.lanes.length ? new Timeline(run, { lanes: new Set(page.lanes), moved: keep, labelOf: event => ids.get(event) }) : null;
  timeline?.restore(state);
  const steps = page.engine_steps ? `${count(page.engine_steps)} engine steps below them: click a request for the steps that served it.`
    : page.is_load ? "No engine steps were recorded: llmprof bench --profile, or --serve, records them." : "";
  const failed = page.requests.filter(row => row.failure).length;
  const left = page.count - page.requests.length;
  const choose = row => timeline?.jump({ trace: 0, event: row.event, start_ns: row.start_ns, duration_ns: row.duration_ns });
  const hasPasses = page.requests.some(row => row.pass);
  const isPlaced = page.requests.every(row => row.start_ns !== null);
  const columns = [
    { head: "Request", value: row => Number(row.id) || row.id, text: row => row.id },
    ...(hasPasses ? [{ head: "Pass", value: row => row.pass, text: row => row.pass ?? "–" }] : []),
    isPlaced ? { head: "Start", number: true, value: row => row.start_ns, text: row => time(row.start_ns) }
      : { head: "Start after the first", number: true, value: row => row.after_first_ns, text: row => time(row.after_first_ns) },
    { head: "Duration", number: true, value: row => row.duration_ns, text: row => time(row.duration_ns) },
    { head: "TTFT", number: true, value: row => row.ttft_ns, text: row => time(row.ttft_ns) },
    { head: "TPOT", number: true, value: row => row.tpot_ns, text: row => time(row.tpot_ns) },
    { head: "Prompt tokens", number: true, value: row => row.prompt_tokens, text: row => count(row.prompt_tokens) },
    { head: "Output tokens", number: true, value: row => row.output_tokens, text: row => count(row.output_tokens) },
  ];
  if (page.is_load) columns.push({ head: "In the client", number: true, value: row => row.client_ns, text: row => time(row.client_ns) },
    { head: "Outcome", value: row => row.failure ?? "", text: row => row.failure ?? (row.was_profiled ? "complete, profiled" : "complete") });
  return el("div", { class: "page wide" }, el("h1", {}, "Requests"),
    el("p", {}, `${count(page.count)} requests${failed ? `, ${count(failed)} failed` : ""}. ${steps}`),
    page.requests.some(row => row.pass?.endsWith("profiled")) ? el("p", { class: "soft" }, "The report's latencies are of the plain passes: a warm-up pays first uses, and the profiler slows a profiled pass.") : null,
    timeline ? el("div", { class: "pair" }, timeline.root) : el("p", {}, "Nothing joins the clock of the requests with that of the trace, so they are not drawn."),
    table(columns, page.requests, { noun: "requests", sort: hasPasses ? null : 2, choose: timeline ? choose : null }),
    left > 0 ? el("p", { class: "soft" }, `${count(left)} requests that took less time are left out of the table.`) : null);
}
