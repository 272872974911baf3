// The page of a run: result, findings that lead to the timeline, tables that sort, filter and select.

import { el, time, count, prose } from "./format.js";
import { table } from "./table.js";

/** `go(page, state)` opens another page of the same run. */
export async function runPage(run, go) {
  const page = await run.page();
  if (!page.findings) {
    return el("div", { class: "page" }, el("h1", {}, page.title), notes(page), el("p", {}, "This run has no analysis. ", el("button", { type: "button", click: () => go("timeline", {}) }, "Timeline")));
  }
  // Steps of decode are phases of their own on the timeline.
  const phase = name => page.phases.find(one => one.name === name || one.name === `${name}_step`);
  const windowOf = (start, duration) => { const margin = duration * 0.02; return `${Math.round(start - margin)},${Math.round(duration + 2 * margin)}`; };
  // With the work of the host before the phase's first kernel.
  const toPhase = found => { const start = found.host_start_ns ?? found.start_ns; go("timeline", { t: windowOf(start, found.start_ns + found.duration_ns - start) }); };
  const toPause = ({ start_ns, duration_ns }) => go("timeline", { t: windowOf(start_ns - duration_ns, 3 * duration_ns), a: `${start_ns},${start_ns + duration_ns}` });
  const links = finding => finding.links.map(link => {
    const found = link.phase && phase(link.phase);
    if (found) return [el("button", { type: "button", click: () => toPhase(found) }, link.label), " "];
    if (link.pause) return [el("button", { type: "button", click: () => toPause(link.pause) }, link.label), " "];
    if (link.event) return [el("button", { type: "button", click: () => go("timeline", { q: link.event, longest: "1" }) }, link.label), " "];
    return link.section && page.sections.some(section => section.key === link.section)
      ? [el("button", { type: "button", click: () => document.getElementById(`section-${link.section}`)?.scrollIntoView() }, link.label), " "] : null;
  });
  const findings = page.findings.map(finding => el("li", { id: finding.key }, el("strong", {}, prose(finding.title)), " ", prose(finding.gain ?? ""), " ", prose(finding.knob ?? ""),
    finding.evidence.length ? el("details", {}, el("summary", {}, "Evidence"), el("ul", {}, finding.evidence.map(text => el("li", {}, prose(text))))) : null, el("div", {}, links(finding))));
  const select = name => go("timeline", { q: name });
  return el("div", { class: "page" },
    el("h1", {}, page.title), el("p", { class: "soft" }, prose(page.subtitle)), notes(page),
    page.caveats.map(text => el("p", { class: "bad" }, prose(text))),
    page.warnings.map(text => el("p", { class: "bad" }, prose(text))),
    page.summary.map(text => el("p", {}, prose(text))),
    el("p", {}, el("button", { type: "button", click: () => go("timeline", {}) }, "Timeline"), " ", page.has_report ? el("a", { href: `${run.base}report.html`, target: "_blank", rel: "noopener" }, "Report") : null),
    findings.length ? [el("h2", {}, "Findings"), el("ol", { class: "findings" }, findings)] : null,
    page.no_conclusion.length ? el("details", {}, el("summary", {}, "What the data do not support"), el("ul", {}, page.no_conclusion.map(text => el("li", {}, prose(text))))) : null,
    page.phases.length ? phases(page, toPhase) : null,
    page.kernels.length ? [el("h2", {}, "Kernels"), kernels(page.kernels, select)] : null,
    page.operators.length ? [el("h2", {}, "Operators"), operators(page.operators, select)] : null,
    page.sections.map(section => sectionOf(run, section, select)));
}

/** What people wrote about the run, line for line. */
const notes = page => page.notes ? el("section", { class: "notes", "aria-label": "Notes" }, prose(page.notes)) : null;

function phases(page, toPhase) {
  const slow = page.phases.length > 8 ? { noun: "phases", sort: null } : { noun: "phases" };
  return [el("h2", {}, "Phases"), table([
    { head: "Phase", value: row => row.name, text: row => row.name.replace("decode_step", "decode step") },
    { head: "Start", number: true, value: row => row.start_ns, text: row => time(row.start_ns) },
    { head: "Duration", number: true, value: row => row.duration_ns, text: row => time(row.duration_ns) },
  ], page.phases, { ...slow, choose: toPhase })];
}

function kernels(rows, select) {
  return table([
    { head: "Kernel", value: row => row.label, text: row => row.label },
    { head: "Category", value: row => row.category, text: row => row.category },
    { head: "Library", value: row => row.library, text: row => row.library },
    { head: "Calls", number: true, value: row => row.calls, text: row => count(row.calls) },
    { head: "Total", number: true, value: row => row.total_ns, text: row => time(row.total_ns) },
    { head: "Share", number: true, value: row => row.share_percent, text: row => `${row.share_percent.toFixed(1)} %` },
    { head: "Median", number: true, value: row => row.median_ns, text: row => time(row.median_ns) },
    { head: "Max", number: true, value: row => row.max_ns, text: row => time(row.max_ns) },
  ], rows, { noun: "kernels", sort: 4, choose: row => select(row.label) });
}

function operators(rows, select) {
  const nanos = (head, key) => ({ head, number: true, value: row => row[key], text: row => time(row[key]) });
  return table([
    { head: "Operator", value: row => row.label, text: row => row.label },
    { head: "Calls", number: true, value: row => row.calls, text: row => count(row.calls) },
    nanos("Device, self", "device_self_ns"), nanos("Device, total", "device_total_ns"), nanos("Host, self", "host_self_ns"), nanos("Host, total", "host_total_ns"),
  ], rows, { noun: "operators", sort: 3, choose: row => select(row.label) });
}

/** A chart as part of the page, so that its marks tell their values under the pointer. Its style is its own: a shadow tree keeps it in. */
function chart(run, name, label) {
  const place = el("div", { class: "chart", role: "img", "aria-label": label });
  const shadow = place.attachShadow({ mode: "open" });
  run.text(`plot/${encodeURIComponent(name)}.svg`).then(text => {
    // The policy of the page refuses style elements; the same rules as a sheet are no text of others.
    const [, before, rules, after] = text.match(/^([^]*?)<style>([^]*?)<\/style>([^]*)$/) ?? [null, text, "", ""];
    const drawing = new DOMParser().parseFromString(before + after, "image/svg+xml").documentElement;
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`${rules} svg { max-width: max(100%, 800px); height: auto; display: block; }`);
    shadow.adoptedStyleSheets = [sheet];
    shadow.append(document.importNode(drawing, true));
  });
  return place;
}

/** A table of the report; `select(name)` finds a name on the timeline. */
export function reportTable({ columns, rows, noun }, select = null) {
  const shown = columns.map(([head, isNumber], place) => ({
    head, number: isNumber, value: row => row.cells[place]?.value ?? (row.cells[place]?.text || null), text: row => row.cells[place]?.text ?? "", title: row => row.cells[place]?.full,
  }));
  const isNamed = select && rows.some(row => typeof row.cells[0]?.name === "number");
  return table(shown, rows, { noun: noun || "rows", choose: isNamed ? row => select(row.cells[0].text) : null });
}

function sectionOf(run, section, select) {
  const blocks = section.blocks.map(block => {
    if (block.heading) return el("h3", {}, block.heading);
    if (block.text) return el("p", {}, prose(block.text));
    if (block.list) return el("ul", {}, block.list.map(text => el("li", {}, prose(text))));
    if (block.chart) return chart(run, block.chart, `${section.title}: ${block.chart.replaceAll("_", " ")}`);
    if (block.table) return reportTable(block.table, select);
    return null;
  });
  return el("section", { id: `section-${section.key}` }, section.title ? el("h2", {}, section.title) : null, blocks);
}
