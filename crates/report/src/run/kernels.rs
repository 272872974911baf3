//! Kernels by name, and the operators of the framework: what a trace holds whatever the model.

use llmprof_analysis::Analysis;
use llmprof_analysis::TraceAnalysis;
use llmprof_analysis::attribution::kernels::{KernelRow, LaunchRow};
use llmprof_analysis::attribution::operators::{OperatorRow, ShapeRow};
use llmprof_record::kernel_name::brief;
use llmprof_units::{BytesPerSecond, Count, FlopsPerSecond, Nanos, Percent, significant};

use super::full::dash;
use crate::{
    Align, Block, Column, Document, Table,
    view::{Cell, OperatorTable, RooflinePoint},
};

/// Kernels that the report has; `kernels.md` and the page have more.
const MOST_IN_REPORT: usize = 15;
/// Kernels that `kernels.md` has; `kernels.csv` has all.
const MOST_IN_DOCUMENT: usize = 200;
/// Rows of the page's table.
const MOST_ON_PAGE: usize = 2000;
/// Ways of launching that are listed of one kernel.
const MOST_LAUNCHES: usize = 4;
/// Columns of the framework's operators that a trace of the host alone fills.
const OF_HOST: usize = 4;
/// Names in tables are cut to this many characters.
pub(super) const LONGEST_NAME: usize = 90;

/// `kernels.md`; nothing where the trace has no kernels.
pub fn kernels(analysis: &Analysis) -> Option<Document> {
    let timeline = with_kernels(analysis)?;
    let mut document = Document::new(format!("{}: kernels", analysis.model));
    let totals = &timeline.totals;
    document.paragraph(format!(
        "{} of {}, {} in all.",
        Count(totals.kernels, "launch"),
        Count(timeline.kernels.len() as u64, "kernel"),
        Nanos(totals.kernel_time_ns)
    ));
    document.heading("By purpose");
    document.table(by_purpose(timeline));
    document.heading("By name");
    document.table(by_name(&timeline.kernels, MOST_IN_DOCUMENT));
    document.heading("Launches");
    document.paragraph(
        "Occupancy is resident warps over the most there can be. Waves below 1 leave multiprocessors without work.",
    );
    document.table(launches(&timeline.kernels));
    Some(document)
}

/// Adds the first kernels to the report.
pub(super) fn section(document: &mut Document, analysis: &Analysis) {
    let Some(timeline) = with_kernels(analysis) else {
        return;
    };
    document.heading("Kernels");
    document.table(by_name(&timeline.kernels, MOST_IN_REPORT));
}

/// Adds the operators of the framework, where the trace has some.
pub(super) fn framework(document: &mut Document, analysis: &Analysis) {
    let Some(timeline) = analysis.timeline.as_deref() else {
        return;
    };
    if timeline.operators.is_empty() {
        return;
    }
    document.push(Block::Heading(1, "Operators of the framework".to_owned()));
    document.paragraph(
        "Over the whole trace, what lies outside phases too. Self is without the operators that one calls.",
    );
    let has_device = has_device(timeline);
    let mut headers = vec!["Operator", "Calls", "Host, self", "Host"];
    if has_device {
        headers.extend(["Device, self", "Device", "Of the roof"]);
    }
    let mut table = Table::new(&headers, 1);
    for row in timeline.operators.iter().take(MOST_IN_DOCUMENT) {
        let times = &row.times;
        let time = |ns: i64| Nanos(ns).to_string();
        let mut cells = vec![
            row.name.clone(),
            times.calls.to_string(),
            time(times.host_self_ns),
            time(times.host_total_ns),
        ];
        if has_device {
            let roofline = row.work.and_then(|work| work.roofline);
            cells.extend([
                time(times.device_self_ns),
                time(times.device_total_ns),
                roofline.map_or_else(dash, |roofline| Percent(roofline).to_string()),
            ]);
        }
        table.row(cells);
    }
    document.table(table);
}

/// The page's table of kernels; nothing where the trace has none.
pub(super) fn table(analysis: &Analysis) -> Option<OperatorTable> {
    let timeline = with_kernels(analysis)?;
    let headers = [
        ("Kernel", Align::Left),
        ("Purpose", Align::Left),
        ("Library", Align::Left),
        ("Calls", Align::Right),
        ("Time", Align::Right),
        ("Share", Align::Right),
        ("Mean", Align::Right),
        ("Longest", Align::Right),
        ("Blocks", Align::Right),
        ("Waves", Align::Right),
        ("Occupancy", Align::Right),
    ];
    let columns = Column::all(headers);
    let rows = timeline
        .kernels
        .iter()
        .take(MOST_ON_PAGE)
        .map(|kernel| {
            let time = |time: f64| Cell::number(time, Nanos(time.round() as i64));
            let launch = kernel.launches.first();
            let occupancy = launch.and_then(|launch| launch.occupancy);
            vec![
                Cell::Text(kernel.name.clone()),
                Cell::Text(kernel.category.to_string()),
                Cell::Text(kernel.library.to_string()),
                Cell::number(kernel.calls as f64, kernel.calls),
                time(kernel.total_ns as f64),
                Cell::number(kernel.share_pct, Percent(kernel.share_pct / 100.0)),
                time(kernel.mean_ns),
                time(kernel.max_ns as f64),
                launch.map_or(Cell::Missing, |launch| {
                    let blocks = blocks(launch);
                    Cell::number(blocks, significant(blocks))
                }),
                occupancy.map_or(Cell::Missing, |found| {
                    Cell::number(found.waves, significant(found.waves))
                }),
                occupancy.map_or(Cell::Missing, |found| {
                    Cell::number(
                        found.theoretical_pct,
                        Percent(found.theoretical_pct / 100.0),
                    )
                }),
            ]
        })
        .collect();
    Some(OperatorTable {
        title: "kernels".to_owned(),
        columns,
        rows,
    })
}

/// The page's table of the framework's operators; nothing where the trace has none.
pub(super) fn framework_table(analysis: &Analysis) -> Option<OperatorTable> {
    let timeline = analysis.timeline.as_deref()?;
    let headers = [
        ("Operator", Align::Left),
        ("Calls", Align::Right),
        ("Host, self", Align::Right),
        ("Host", Align::Right),
        ("Device, self", Align::Right),
        ("Device", Align::Right),
        ("FLOP/s", Align::Right),
        ("B/s", Align::Right),
        ("Of the roof", Align::Right),
    ];
    let mut columns: Vec<Column> = Column::all(headers);
    let has_device = has_device(timeline);
    if !has_device {
        columns.truncate(OF_HOST);
    }
    let time = |ns: i64| Cell::number(ns as f64, Nanos(ns));
    let rows: Vec<Vec<Cell>> = timeline
        .operators
        .iter()
        .take(MOST_ON_PAGE)
        .map(|row| {
            let (times, work) = (&row.times, row.work.as_ref());
            let rate = work.and_then(|work| work.flops_per_s);
            let bytes = work.and_then(|work| work.bytes_per_s);
            let roof = work.and_then(|work| work.roofline);
            let mut cells = vec![
                Cell::Text(row.name.clone()),
                Cell::number(times.calls as f64, times.calls),
                time(times.host_self_ns),
                time(times.host_total_ns),
                time(times.device_self_ns),
                time(times.device_total_ns),
                rate.map_or(Cell::Missing, |rate| {
                    Cell::number(rate, FlopsPerSecond(rate))
                }),
                bytes.map_or(Cell::Missing, |rate| {
                    Cell::number(rate, BytesPerSecond(rate))
                }),
                roof.map_or(Cell::Missing, |roof| Cell::number(roof, Percent(roof))),
            ];
            if !has_device {
                cells.truncate(OF_HOST);
            }
            cells
        })
        .collect();
    (!rows.is_empty()).then(|| OperatorTable {
        title: "operators of the framework".to_owned(),
        columns,
        rows,
    })
}

/// Points of the framework's operators under the roofline, by the shapes of their inputs: what is left to show where the
/// model is not known. Their bytes are those of a call by itself, activations included.
pub(super) fn framework_points(analysis: &Analysis) -> Vec<RooflinePoint> {
    let Some(timeline) = analysis.timeline.as_deref() else {
        return Vec::new();
    };
    let point = |operator: &OperatorRow, shape: &ShapeRow| {
        let work = shape.work.as_ref()?;
        let rate = work.flops_per_s.filter(|rate| *rate > 0.0)?;
        (work.bytes > 0).then(|| RooflinePoint {
            label: format!("{} [{}]", operator.name, shape.inputs.join(", ")),
            kind: operator.name.clone(),
            phase: "whole trace".to_owned(),
            intensity: work.flops as f64 / work.bytes as f64,
            flops_per_s: FlopsPerSecond(rate),
            time_ns: Nanos(work.device_ns),
            calls: work.calls,
        })
    };
    timeline
        .operators
        .iter()
        .flat_map(|operator| {
            let shapes = operator.shapes.iter();
            shapes.filter_map(move |shape| point(operator, shape))
        })
        .take(MOST_ON_PAGE)
        .collect()
}

/// Whether a trace has anything to say of a device.
fn has_device(timeline: &TraceAnalysis) -> bool {
    timeline.totals.device_time_ns > 0
}

fn with_kernels(analysis: &Analysis) -> Option<&TraceAnalysis> {
    let timeline = analysis.timeline.as_deref()?;
    (!timeline.kernels.is_empty()).then_some(timeline)
}

fn by_purpose(timeline: &TraceAnalysis) -> Table {
    let mut sums: std::collections::BTreeMap<_, (u64, i64)> = std::collections::BTreeMap::new();
    for kernel in &timeline.kernels {
        let sum = sums.entry(kernel.category).or_default();
        sum.0 += kernel.calls;
        sum.1 = sum.1.saturating_add(kernel.total_ns);
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(category, (_, time))| (std::cmp::Reverse(*time), *category));
    let mut table = Table::new(&["Purpose", "Calls", "Time", "Share"], 1);
    let total = timeline.totals.kernel_time_ns.max(1) as f64;
    for (category, (calls, time)) in rows {
        table.row([
            category.to_string(),
            calls.to_string(),
            Nanos(time).to_string(),
            Percent(time as f64 / total).to_string(),
        ]);
    }
    table
}

fn by_name(kernels: &[KernelRow], most: usize) -> Table {
    let mut table = Table::new(
        &[
            "Kernel", "Purpose", "Library", "Calls", "Time", "Share", "Mean", "Median",
        ],
        3,
    );
    for kernel in kernels.iter().take(most) {
        table.row([
            brief(&kernel.name, LONGEST_NAME),
            kernel.category.to_string(),
            kernel.library.to_string(),
            kernel.calls.to_string(),
            Nanos(kernel.total_ns).to_string(),
            Percent(kernel.share_pct / 100.0).to_string(),
            Nanos(kernel.mean_ns.round() as i64).to_string(),
            Nanos(kernel.median_ns.round() as i64).to_string(),
        ]);
    }
    table
}

fn launches(kernels: &[KernelRow]) -> Table {
    let mut table = Table::new(
        &[
            "Kernel",
            "Grid",
            "Block",
            "Registers",
            "Shared",
            "Calls",
            "Time",
            "Waves",
            "Occupancy",
        ],
        1,
    );
    for kernel in kernels.iter().take(MOST_IN_DOCUMENT) {
        for launch in kernel.launches.iter().take(MOST_LAUNCHES) {
            let size = |[x, y, z]: [u32; 3]| format!("{x}×{y}×{z}");
            table.row([
                brief(&kernel.name, LONGEST_NAME),
                size(launch.grid),
                size(launch.block),
                launch.registers.to_string(),
                llmprof_units::Bytes(launch.shared_bytes).to_string(),
                launch.calls.to_string(),
                Nanos(launch.total_ns).to_string(),
                launch
                    .occupancy
                    .map_or_else(dash, |found| significant(found.waves)),
                launch.occupancy.map_or_else(dash, |found| {
                    Percent(found.theoretical_pct / 100.0).to_string()
                }),
            ]);
        }
    }
    table
}

fn blocks(launch: &LaunchRow) -> f64 {
    launch.grid.iter().map(|&size| f64::from(size)).product()
}
