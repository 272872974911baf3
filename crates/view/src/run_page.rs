//! The page of a run: the report's document as data, and tables whose rows lead to the timeline.

use llmprof_analysis::causes::CauseKind;
use llmprof_analysis::findings::{Conclusion, Finding};
use llmprof_analysis::{Analysis, judged_device};
use llmprof_report::compose::concluded_findings;
use llmprof_report::{
    Align, Block, Cell, Document, FindingItem, Report, ReportTarget, Table, plots,
    text::warning_lines,
};
use serde_json::{Value, json};

use crate::names::Named;
use crate::opened_run::{OpenedRun, RunPage};
use crate::timeline::ViewTimeline;

impl OpenedRun {
    pub(crate) fn findings(&self) -> &[FindingItem] {
        &self.page().findings
    }

    pub(crate) fn plot_names(&self) -> impl Iterator<Item = &str> {
        self.page().plots.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn page(&self) -> &RunPage {
        self.page.get_or_init(|| RunPage::render(self))
    }
}

impl RunPage {
    fn render(run: &OpenedRun) -> Self {
        let Some(analysis) = &run.analysis else {
            let page = json!({"title": run.title, "notes": run.notes, "phases": phases(run)});
            return Self {
                json: page.to_string().into_bytes(),
                plots: Vec::new(),
                findings: Vec::new(),
            };
        };
        let document = document_of(run, analysis);
        let plots: Vec<(String, String)> = plots(&document)
            .into_iter()
            .map(|(name, svg)| (name, svg.file()))
            .collect();
        Self {
            json: page_json(run, analysis, &document, &plots)
                .to_string()
                .into_bytes(),
            plots,
            findings: document.findings,
        }
    }
}

fn page_json(
    run: &OpenedRun,
    analysis: &Analysis,
    document: &Document,
    plots: &[(String, String)],
) -> Value {
    // Plots are in the order of the charts.
    let mut plot_names = plots.iter().map(|(name, _)| name.as_str());
    json!({
        "title": document.title,
        "notes": run.notes,
        "subtitle": document.subtitle,
        "caveats": document.caveats,
        "summary": document.summary,
        "findings": findings_json(run, analysis, document),
        "no_conclusion": document.no_conclusion,
        "warnings": warning_lines(&document.issues),
        "sections": document.sections.iter().map(|section| json!({
            "key": section.key,
            "title": section.title,
            "blocks": section.blocks.iter().map(|part| block(&run.timeline, part, &mut plot_names)).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "phases": phases(run),
        "kernels": kernels(&run.timeline, analysis),
        "operators": operators(&run.timeline, analysis),
        "has_report": run.report.is_some(),
    })
}

fn document_of(run: &OpenedRun, analysis: &Analysis) -> Document {
    let judged = judged_device(&run.record, None);
    let report = Report {
        record: &run.record,
        analysis,
        issues: &analysis.issues,
        device: judged.device.as_ref(),
        notes: None,
    };
    report.document()
}

fn findings_json(run: &OpenedRun, analysis: &Analysis, document: &Document) -> Vec<Value> {
    let concluded = concluded_findings(analysis).map(Some);
    let concluded = concluded.chain(std::iter::repeat(None));
    let findings = document.findings.iter().zip(concluded);
    findings
        .map(|(item, finding)| finding_json(item, finding.and_then(|one| pause_link(run, one))))
        .collect()
}

/// The longest pause of the host, where a finding is about pauses and the trace shows this one.
fn pause_link(run: &OpenedRun, finding: &Finding) -> Option<Value> {
    let Some(Conclusion::Cause { cause }) = &finding.conclusion else {
        return None;
    };
    let CauseKind::HostCode {
        longest_ns,
        after,
        before,
        ..
    } = &cause.kind
    else {
        return None;
    };
    let between = (after.as_deref(), before.as_deref());
    let (from, to) = run
        .timeline
        .find_pause(&run.record, between, longest_ns.0)?;
    Some(json!({
        "label": "longest pause on the timeline",
        "pause": {"start_ns": from - run.timeline.origin, "duration_ns": to - from},
    }))
}

fn finding_json(item: &FindingItem, pause: Option<Value>) -> Value {
    let links = item.links.iter().map(|link| match &link.target {
        ReportTarget::Anchor(key) => json!({"label": link.label, "section": key}),
        ReportTarget::Phase(name) => json!({"label": link.label, "phase": name}),
        ReportTarget::Event(name) => json!({"label": link.label, "event": name}),
    });
    json!({
        "key": item.key, "title": item.title, "gain": item.gain, "knob": item.knob, "evidence": item.evidence,
        "links": links.chain(pause).collect::<Vec<_>>(),
    })
}

fn block<'n>(
    timeline: &ViewTimeline,
    block: &Block,
    plot_names: &mut impl Iterator<Item = &'n str>,
) -> Value {
    match block {
        Block::Heading(text) | Block::Entry { title: text, .. } => json!({"heading": text}),
        Block::Paragraph(text) => json!({"text": text}),
        Block::List(items) => json!({"list": items}),
        Block::Table(table) => json!({"table": table_json(timeline, table)}),
        Block::Chart(_) => json!({"chart": plot_names.next()}),
    }
}

pub(crate) fn table_json(timeline: &ViewTimeline, table: &Table) -> Value {
    let columns = table
        .columns
        .iter()
        .map(|column| json!([column.header, column.align == Align::Right]));
    let cell = |cell: &Cell| match cell {
        Cell::Number { value, text } => json!({"text": text, "value": value}),
        Cell::Name { label, full } => {
            let kinds = [Named::Kernel, Named::As("operator"), Named::As("range")];
            let name = kinds
                .iter()
                .find_map(|named| timeline.names.find(*named, full));
            json!({"text": label, "full": full, "name": name})
        }
        other => json!({"text": other.text()}),
    };
    let rows = table.rows.iter().map(
        |row| json!({"key": row.key, "cells": row.cells.iter().map(cell).collect::<Vec<_>>()}),
    );
    json!({"columns": columns.collect::<Vec<_>>(), "rows": rows.collect::<Vec<_>>(), "noun": table.noun})
}

/// Intervals of phases; the first of each, which findings lead to, with the start of its host work.
fn phases(run: &OpenedRun) -> Vec<Value> {
    let timeline = &run.timeline;
    let mut named: Vec<&str> = Vec::new();
    let phases = timeline.phases.iter();
    phases
        .map(|(name, start, end)| {
            let is_first = !named.contains(&name.as_str());
            if is_first {
                named.push(name);
            }
            let host_start = is_first
                .then(|| timeline.host_start(&run.record, *start))
                .flatten();
            json!({
                "name": name, "start_ns": start - timeline.origin, "duration_ns": end - start,
                "host_start_ns": host_start.map(|host_start| host_start - timeline.origin),
            })
        })
        .collect()
}

/// Kernels by name, with the number of the name on the timeline.
fn kernels(timeline: &ViewTimeline, analysis: &Analysis) -> Vec<Value> {
    let Some(trace) = &analysis.timeline else {
        return Vec::new();
    };
    trace
        .kernels
        .iter()
        .map(|row| {
            let name = timeline.names.find(Named::Kernel, &row.name);
            json!({
                "name": name, "label": llmprof_report::kernel_label(&row.name), "category": row.category.name(),
                "library": row.library.name(), "calls": row.calls, "total_ns": row.total_ns, "share_percent": row.share_pct,
                "median_ns": row.median_ns, "max_ns": row.max_ns,
            })
        })
        .collect()
}

fn operators(timeline: &ViewTimeline, analysis: &Analysis) -> Vec<Value> {
    let Some(trace) = &analysis.timeline else {
        return Vec::new();
    };
    trace
        .operators
        .iter()
        .map(|row| {
            let name = timeline.names.find(Named::As("operator"), &row.name);
            json!({
                "name": name, "label": row.name, "calls": row.times.calls,
                "host_total_ns": row.times.host_total_ns, "host_self_ns": row.times.host_self_ns,
                "device_total_ns": row.times.device_total_ns, "device_self_ns": row.times.device_self_ns,
            })
        })
        .collect()
}
