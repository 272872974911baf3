// Requests of a load as a Gantt chart with the engine steps that served them, and as a table.

import { el, time, count } from "./format.js";
import { table } from "./table.js";
import { Timeline } from "./timeline.js";
import { emptyPage } from "./picture.js";

export async function requestsPage(run) {
  const page = await run.json("requests.json");
  if (page.why) return emptyPage("Requests", page.why);
  const timeline = page.lanes.length ? new Timeline(run, { lanes: new Set(page.lanes) }) : null;
  const steps = page.engine_steps ? `${count(page.engine_steps)} engine steps below them: click a request for the steps that served it.`
    : page.is_load ? "No engine steps were recorded: llmprof bench --profile, or --serve, records them." : "";
  const failed = page.requests.filter(row => row.failure).length;
  const left = page.count - page.requests.length;
  const choose = row => timeline?.jump({ trace: 0, event: row.event, start_ns: row.start_ns, duration_ns: row.duration_ns, lane: page.lanes[0] });
  const columns = [
    { head: "Request", value: row => Number(row.id) || row.id, text: row => row.id },
    { head: "Start", number: true, value: row => row.start_ns, text: row => time(row.start_ns) },
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
    timeline ? el("div", { class: "pair" }, timeline.root) : el("p", {}, "Nothing joins the clock of the requests with that of the trace, so they are not drawn."),
    table(columns, page.requests, { noun: "requests", sort: 2, choose: timeline ? choose : null }),
    left > 0 ? el("p", { class: "soft" }, `${count(left)} requests that took less time are left out of the table.`) : null);
}
