// Memory over time, by the place that allocated it.

import { el, time, bytes, count } from "./format.js";
import { table } from "./table.js";
import { Picture, hue, emptyPage } from "./picture.js";

const HEIGHT = 280;
const LEFT = 76;
const BEFORE = "held before the recording";

export async function memoryPage(run, go) {
  const page = await run.json("memory.json");
  if (page.why) return emptyPage("Memory", page.why);
  return el("div", { class: "page" }, el("h1", {}, "Memory"), page.charts.map(chart => chartPart(chart, go)),
    page.left_off ? el("p", { class: "soft" }, `${count(page.left_off)} further devices are left out.`) : null);
}

function chartPart(chart, go) {
  const all = chart.sites.map((site, place) => ({ name: site.site ?? BEFORE, bytes: site.bytes, peak: Math.max(...site.bytes), place }));
  const sum = (sites, at) => sites.reduce((total, site) => total + site.bytes[at], 0);
  const totals = chart.time_ns.map((_, at) => sum(all, at));
  const peakAt = totals.reduce((best, value, at) => value > totals[best] ? at : best, 0);
  const held = all.find(site => site.name === BEFORE);
  // What is there all the time and most of it leaves a thin line of what changes.
  let sites = held && held.bytes[peakAt] > totals[peakAt] / 2 ? all.filter(site => site !== held) : all;
  const opens = at => chart.is_on_timeline ? () => { const span = (chart.time_ns.at(-1) - chart.time_ns[0]) / 20 + 1; go("timeline", { t: `${Math.round(chart.time_ns[at] - span / 2)},${Math.round(span)}` }); } : null;
  const picture = new Picture(`Memory of ${chart.title} over time by site; peak ${bytes(totals[peakAt])}.`, width => ({ height: HEIGHT + 22, ...areas(chart, sites, chart.time_ns.map((_, at) => sum(sites, at)), width, opens) }));
  const choice = held ? el("p", {}, el("label", {}, el("input", { type: "checkbox", checked: sites === all, change: event => { sites = event.target.checked ? all : all.filter(site => site !== held); picture.draw(); } }), ` with the ${bytes(held.bytes[0])} held before the recording`)) : null;
  return el("section", {}, el("h2", {}, chart.title), el("p", { class: "soft" }, chart.source),
    el("p", {}, `Peak ${bytes(totals[peakAt])} at ${time(chart.time_ns[peakAt])}; at the end ${bytes(totals.at(-1))}.`), choice, picture.root,
    table([
      { head: "Site", value: row => row.name, text: row => row.name },
      { head: "At the peak", number: true, value: row => row.bytes[peakAt], text: row => bytes(row.bytes[peakAt]) },
      { head: "Of the peak", number: true, value: row => row.bytes[peakAt], text: row => totals[peakAt] > 0 ? `${(100 * row.bytes[peakAt] / totals[peakAt]).toFixed(1)} %` : "–" },
      { head: "Highest", number: true, value: row => row.peak, text: row => bytes(row.peak) },
      { head: "At the end", number: true, value: row => row.bytes.at(-1), text: row => bytes(row.bytes.at(-1)) },
    ], all, { noun: "sites", sort: 1 }));
}

/** Columns of a few pixels, each at the moment in it with the most memory; the sites of a moment are on top of each other. */
function areas(chart, sites, totals, width, opens) {
  const room = Math.max(width - LEFT - 4, 1);
  const [first, last] = [chart.time_ns[0], chart.time_ns.at(-1)];
  const most = totals.reduce((most, value) => Math.max(most, value), 0) || 1;
  const columnPx = 3;
  const slots = Math.max(1, Math.floor(room / columnPx));
  const moment = new Array(slots).fill(-1);
  chart.time_ns.forEach((ns, at) => {
    const slot = Math.min(slots - 1, Math.floor((ns - first) / Math.max(last - first, 1) * slots));
    if (moment[slot] < 0 || totals[at] > totals[moment[slot]]) moment[slot] = at;
  });
  // A level holds until the next change.
  let held = 0;
  let lastInSlot = 0;
  const marks = [];
  for (let slot = 0; slot < slots; slot += 1) {
    const at = moment[slot] >= 0 ? moment[slot] : held;
    while (lastInSlot + 1 < chart.time_ns.length && (chart.time_ns[lastInSlot + 1] - first) / Math.max(last - first, 1) * slots < slot + 1) lastInSlot += 1;
    held = lastInSlot;
    let top = HEIGHT + 6;
    for (const site of sites) {
      const height = HEIGHT * site.bytes[at] / most;
      if (height < 0.2) continue;
      top -= height;
      marks.push({ x: LEFT + slot * columnPx, y: top, w: columnPx, h: height, fill: site.name === BEFORE ? hue(0, 6, 0) : hue(site.place * 47 % 360, 6 + site.place % 5), text: `${site.name}: ${bytes(site.bytes[at])} of ${bytes(totals[at])} at ${time(chart.time_ns[at])}`, act: opens(at) });
    }
  }
  const texts = [{ x: LEFT - 6, y: 8, text: bytes(most), align: "right" }, { x: LEFT - 6, y: HEIGHT / 2 + 6, text: bytes(most / 2), align: "right" }, { x: LEFT - 6, y: HEIGHT + 4, text: "0", align: "right" },
    { x: LEFT, y: HEIGHT + 15, text: time(first) }, { x: width - 4, y: HEIGHT + 15, text: time(last), align: "right" }];
  return { marks, texts };
}
