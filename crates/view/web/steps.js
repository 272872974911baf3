// How long each step took, in order.

import { el, time, count, spread } from "./format.js";
import { table } from "./table.js";
import { Picture, hue, emptyPage } from "./picture.js";

const HEIGHT = 180;
const LEFT = 88;
const SLOWEST_LISTED = 20;

/** `go(page, state)` opens another page of the same run. */
export async function stepsPage(run, go) {
  const page = await run.json("steps.json");
  if (page.why) return emptyPage("Steps", page.why);
  const toTimeline = ([, start, duration]) => go("timeline", { t: `${Math.round(start - duration * 0.1)},${Math.max(1, Math.round(duration * 1.2))}` });
  return el("div", { class: "page" }, el("h1", {}, "Steps"),
    page.series.map(series => seriesPart(series, toTimeline)),
    page.left_off ? el("p", { class: "soft" }, `${count(page.left_off)} kinds of steps with fewer steps are left out.`) : null);
}

function seriesPart(series, toTimeline) {
  const opens = step => step[1] === null ? null : () => toTimeline(step);
  const label = `Duration of ${count(series.count)} steps of ${series.name} in order; ${series.p50_ns === null ? "" : `median ${time(series.p50_ns)}, `}longest ${time(series.max_ns)}.`;
  const picture = new Picture(label, width => ({ height: HEIGHT + 18, ...bars(series, width, opens) }));
  const slowest = [...series.steps].sort((a, b) => b[2] - a[2]).slice(0, SLOWEST_LISTED);
  return el("section", {}, el("h2", {}, series.name),
    el("p", { class: "soft" }, `From ${series.source}.`),
    el("p", {}, `${count(series.count)} steps: ${spread(series)}`),
    picture.root,
    el("details", {}, el("summary", {}, `The ${count(slowest.length)} longest`), table([
      { head: "Step", value: step => step[0], text: step => count(step[0]) },
      { head: "Start", number: true, value: step => step[1], text: step => time(step[1]) },
      { head: "Duration", number: true, value: step => step[2], text: step => time(step[2]) },
      ...(series.p50_ns > 0 ? [{ head: "Of the median", number: true, value: step => step[2], text: step => `${(step[2] / series.p50_ns).toFixed(2)}×` }] : []),
    ], slowest, { noun: "steps", choose: slowest.every(step => step[1] !== null) ? toTimeline : null })));
}

/** A bar for each step, or for the longest of those that share a pixel. */
function bars(series, width, opens) {
  const room = Math.max(width - LEFT - 4, 1);
  const perBar = Math.max(1, Math.ceil(series.steps.length / (room / 2)));
  const marks = [];
  const slots = Math.ceil(series.steps.length / perBar);
  const barWidth = room / slots;
  for (let slot = 0; slot < slots; slot += 1) {
    const steps = series.steps.slice(slot * perBar, (slot + 1) * perBar);
    const longest = steps.reduce((best, step) => step[2] > best[2] ? step : best);
    const height = HEIGHT * longest[2] / (series.max_ns || 1);
    const shared = perBar * series.group > 1 ? `, the longest of ${count(steps.length * series.group)}` : "";
    marks.push({ x: LEFT + slot * barWidth, y: HEIGHT - height + 8, w: Math.max(barWidth - (barWidth > 4 ? 1 : 0), 1), h: height,
      fill: series.p50_ns !== null && longest[2] > 1.5 * series.p50_ns ? hue(28, 4, 75) : hue(212), text: `step ${count(longest[0])}: ${time(longest[2])}${shared}`, act: opens(longest) });
  }
  const y = ns => HEIGHT - HEIGHT * ns / (series.max_ns || 1) + 8;
  const texts = [{ x: LEFT - 6, y: y(series.max_ns), text: time(series.max_ns), align: "right" }, { x: LEFT, y: HEIGHT + 14, text: "0" }, { x: width - 4, y: HEIGHT + 14, text: count(series.count - 1), align: "right" }];
  if (series.p50_ns !== null && y(series.p50_ns) - y(series.max_ns) > 12) texts.push({ x: LEFT - 6, y: y(series.p50_ns), text: `p50 ${time(series.p50_ns)}`, align: "right" });
  return { marks, texts };
}
