//! Operators of the model, and PyTorch ops.

use llmprof_theory::roofline::Resource;
use llmprof_units::{Basis, BytesPerSecond, Count, FlopsPerSecond, Nanos, Percent};

use super::kernels::sentences::hundredths;
use super::{phases::phase_cell, waterfall::unmatched};
use crate::analyzed::{
    Analysis, OperatorGroup, OperatorRow, PhaseAnalysis, ShapeRow, TraceAnalysis,
};
use crate::document::{Align, Cell, Column, Document, Table, key};
use crate::text::dash;
use crate::view::PlottedOperator;

/// Rows of the page's tables.
const PAGE_ROWS_MAX: usize = 2000;
/// PyTorch ops in `operators.md`; `ops.csv` has all.
const DOCUMENT_OPS_MAX: usize = 200;
/// Columns of PyTorch ops that a trace of the host alone fills.
const OF_HOST: usize = 4;

/// The least % of roofline at which its side is called what binds.
const BINDING_ROOFLINE_MIN: f64 = 0.01;

/// Adds operators by kind, and on a page by their place in the model.
pub(super) fn add(document: &mut Document, analysis: &Analysis) {
    let phases: Vec<&PhaseAnalysis> = analysis
        .phases
        .iter()
        .filter(|phase| !phase.by_kind.is_empty())
        .collect();
    if phases.is_empty() {
        return;
    }
    let section = document.section("operators", "Operators");
    section.paragraph("From the profiled pass; shares are of its wall time. B/s and FLOP/B are of minimum DRAM traffic: activations between operators do not count.");
    for phase in phases {
        section.heading(format!("{} by kind", phase.name()));
        let prefix = format!("operators-{}", key(phase.name()));
        section.table(groups(&phase.by_kind, Some(&prefix)));
    }
    // By kernels alone the place of an operator is not known: the rows would be those above.
    let has_places = analysis.phases.iter().any(|phase| !phase.by_kernels());
    let table = by_path(analysis);
    if has_places && !table.rows.is_empty() {
        section.table(table);
    }
}

/// Adds PyTorch ops, which only a page has room for.
pub(super) fn add_framework(document: &mut Document, analysis: &Analysis) {
    let Some(timeline) = analysis.timeline.as_deref() else {
        return;
    };
    if timeline.operators.is_empty() {
        return;
    }
    let section = document.section("pytorch_ops", "PyTorch ops");
    section.page_only = true;
    section.table(framework_table(timeline));
}

/// `operators.md`: every operator by its place in the model.
pub fn operators(analysis: &Analysis) -> Document {
    let mut document = Document::new(format!(
        "{}: operators",
        super::summary::model_name(analysis)
    ));
    for phase in &analysis.phases {
        let section = document.section(&key(phase.name()), phase.name());
        if !phase.by_path.is_empty() {
            section.table(groups(&phase.by_path, None));
        }
        if !phase.unmatched.is_empty() {
            section.paragraph(match analysis.family {
                Some(_) => "Not part of the model: overhead ops and unattributed time, by name:",
                None => "Overhead ops and unattributed time, by name:",
            });
            section.table(unmatched(&phase.unmatched, None));
        }
        if !phase.missing.is_empty() {
            section.paragraph("Operators of the model with no event of their own:");
            let missing = phase.missing.iter();
            section.list(
                missing
                    .map(|missing| format!("`{}`, {}", missing.path, Count(missing.calls, "call")))
                    .collect(),
            );
        }
    }
    framework(&mut document, analysis);
    document
}

fn framework(document: &mut Document, analysis: &Analysis) {
    let Some(timeline) = analysis.timeline.as_deref() else {
        return;
    };
    if timeline.operators.is_empty() {
        return;
    }
    let section = document.section("pytorch_ops", "PyTorch ops");
    section.paragraph(
        "Over the whole trace, outside phases too. Self time is without the ops that an op calls.",
    );
    let mut table = framework_table(timeline);
    table.rows_in_text = DOCUMENT_OPS_MAX;
    section.table(table);
}

pub(super) fn groups(groups: &[OperatorGroup], prefix: Option<&str>) -> Table {
    let mut table = Table::new(
        &[
            "Operator",
            "Calls",
            "Time",
            "Share",
            "FLOP/s",
            "Min. DRAM B/s",
            "FLOP/B",
            "Roofline time",
            "% of roofline",
            "Bound by",
        ],
        1,
    )
    .with_words(&["Bound by"]);
    for group in groups {
        let roofline = group.roofline_ns;
        // Tokens that choose alike reach fewer experts than are expected.
        let is_expected = group.basis == Basis::Expected && group.binds == Some(Resource::Memory);
        let most = if is_expected { "≤ " } else { "" };
        let cells = [
            group.name.clone(),
            group.calls.to_string(),
            group.measured_ns.to_string(),
            Percent(group.share).to_string(),
            // Without arithmetic, or without minimum DRAM traffic, there is no rate.
            group
                .achieved_flops_per_s
                .filter(|rate| rate.0 > 0.0)
                .map_or_else(dash, |rate| rate.to_string()),
            group
                .achieved_bytes_per_s
                .filter(|rate| rate.0 > 0.0)
                .map_or_else(dash, |rate| rate.to_string()),
            group.intensity.map_or_else(dash, hundredths),
            roofline.map_or_else(dash, |time| time.to_string()),
            group
                .roofline_fraction
                .map_or_else(dash, |fraction| format!("{most}{}", Percent(fraction))),
            // Far below roofline neither resource is what holds an operator back.
            group
                .binds
                .filter(|_| {
                    group
                        .roofline_fraction
                        .is_none_or(|part| part >= BINDING_ROOFLINE_MIN)
                })
                .map_or_else(dash, |binds| binds.to_string()),
        ];
        let anchor = prefix.map(|prefix| format!("{prefix}-{}", key(&group.name)));
        table.push(anchor, cells.map(Cell::from).into());
    }
    table
}

fn by_path(analysis: &Analysis) -> Table {
    let columns = Column::all([
        ("Phase", Align::Left),
        ("Operator", Align::Left),
        ("Kind", Align::Left),
        ("Calls", Align::Right),
        ("Time", Align::Right),
        ("Share", Align::Right),
        ("FLOP/s", Align::Right),
        ("Min. DRAM B/s", Align::Right),
        ("Roofline time", Align::Right),
        ("% of roofline", Align::Right),
    ]);
    let mut table = Table::sortable("operators", columns);
    table.rows_in_text = 0;
    for phase in &analysis.phases {
        for group in &phase.by_path {
            let time = |time: Nanos| Cell::number(time.0 as f64, time);
            table.row([
                phase_cell(phase),
                Cell::from(group.name.as_str()),
                Cell::from(kind_of(phase, group)),
                Cell::number(group.calls as f64, group.calls),
                time(group.measured_ns),
                Cell::number(group.share, Percent(group.share)),
                group
                    .achieved_flops_per_s
                    .filter(|rate| rate.0 > 0.0)
                    .map_or(Cell::Missing, |rate| Cell::number(rate.0, rate)),
                group
                    .achieved_bytes_per_s
                    .filter(|rate| rate.0 > 0.0)
                    .map_or(Cell::Missing, |rate| Cell::number(rate.0, rate)),
                group.roofline_ns.map_or(Cell::Missing, time),
                group.roofline_fraction.map_or(Cell::Missing, |fraction| {
                    Cell::number(fraction, Percent(fraction))
                }),
            ]);
        }
    }
    table
}

/// What operators do; the name of the set where kernels are classified by name alone.
pub(super) fn kind_of(phase: &PhaseAnalysis, group: &OperatorGroup) -> String {
    if phase.by_kernels() {
        return group.name.clone();
    }
    group.kind.to_string()
}

fn framework_table(timeline: &TraceAnalysis) -> Table {
    let mut columns = Column::all([
        ("Op", Align::Left),
        ("Calls", Align::Right),
        ("Host, self", Align::Right),
        ("Host", Align::Right),
        ("GPU, self", Align::Right),
        ("GPU", Align::Right),
        ("FLOP/s", Align::Right),
        ("B/s", Align::Right),
        ("% of roofline", Align::Right),
    ]);
    let has_device = timeline.totals.device_time_ns > llmprof_units::Nanos(0);
    if !has_device {
        columns.truncate(OF_HOST);
    }
    let mut table = Table::sortable("PyTorch ops", columns);
    let time = |ns: i64| Cell::number(ns as f64, Nanos(ns));
    for row in timeline.operators.iter().take(PAGE_ROWS_MAX) {
        let (times, work) = (&row.times, row.work.as_ref());
        let rate = work.and_then(|work| work.flops_per_s);
        let bytes = work.and_then(|work| work.bytes_per_s);
        let roofline = work.and_then(|work| work.roofline);
        let mut cells = vec![
            Cell::event(&row.name),
            Cell::number(times.calls as f64, times.calls),
            time(times.host_self_ns.0),
            time(times.host_total_ns.0),
            time(times.device_self_ns.0),
            time(times.device_total_ns.0),
            rate.map_or(Cell::Missing, |rate| {
                Cell::number(rate, FlopsPerSecond(rate))
            }),
            bytes.map_or(Cell::Missing, |rate| {
                Cell::number(rate, BytesPerSecond(rate))
            }),
            roofline.map_or(Cell::Missing, |share| Cell::number(share, Percent(share))),
        ];
        if !has_device {
            cells.truncate(OF_HOST);
        }
        table.row(cells);
    }
    table.without_empty_columns()
}

/// Points of PyTorch ops under the roofline, by the shapes of their inputs: what is left to show where the model is not known.
/// Their bytes are those of a call by itself, activations included.
pub(super) fn framework_points(analysis: &Analysis) -> Vec<PlottedOperator> {
    let Some(timeline) = analysis.timeline.as_deref() else {
        return Vec::new();
    };
    let point = |operator: &OperatorRow, shape: &ShapeRow| {
        let work = shape.work.as_ref()?;
        let rate = work.flops_per_s.filter(|rate| *rate > 0.0)?;
        (work.bytes.0 > 0).then(|| PlottedOperator {
            label: format!("{} [{}]", operator.name, shape.inputs.join(", ")),
            kind: operator.name.clone(),
            phase: "whole trace".to_owned(),
            intensity: work.flops.0 as f64 / work.bytes.0 as f64,
            flops_per_s: FlopsPerSecond(rate),
            time_ns: work.device_ns,
            calls: work.calls,
            anchor: None,
        })
    };
    timeline
        .operators
        .iter()
        .flat_map(|operator| {
            let shapes = operator.shapes.iter();
            shapes.filter_map(move |shape| point(operator, shape))
        })
        .take(PAGE_ROWS_MAX)
        .collect()
}
