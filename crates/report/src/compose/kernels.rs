//! Kernels by name, category and launch configuration.

use llmprof_units::{Count, Nanos, Percent, significant};

use crate::analyzed::{Analysis, KernelRow, LaunchRow, PhaseAnalysis, TraceAnalysis};
use crate::document::{Align, Cell, Column, Document, Table};
use crate::kernel_label::kernel_label;
use crate::text::{dash, kernels as text};

/// Kernels in `report.md`; `kernels.md` and the page have more.
const MOST_IN_REPORT: usize = 15;
/// Kernels of a phase in `report.md`.
const MOST_IN_PHASE: usize = 8;
/// Kernels in `kernels.md`; `kernels.csv` has all.
const MOST_IN_DOCUMENT: usize = 200;
/// Rows of the page's table.
const MOST_ON_PAGE: usize = 2000;
/// Launch configurations that are listed of one kernel.
const MOST_LAUNCHES: usize = 4;

/// A kernel's name for a table: what tells it apart, the whole name on hovering.
pub(super) fn name(full: &str) -> Cell {
    let label = kernel_label(full);
    if label == full {
        return Cell::from(label);
    }
    Cell::Name {
        label,
        full: full.to_owned(),
    }
}

pub(super) fn add(document: &mut Document, analysis: &Analysis) {
    let Some(timeline) = with_kernels(analysis) else {
        return;
    };
    let section = document.section("kernels", "Kernels");
    let mut table = by_name(&timeline.kernels, MOST_ON_PAGE);
    table.rows_in_text = MOST_IN_REPORT;
    section.table(table);
    // One phase that is all of the trace has the same shares.
    let phases = analysis.phases.iter().filter(|phase| {
        let traced = phase.traced.as_ref();
        traced.is_some_and(|traced| !traced.is_whole_trace && !traced.longest_kernels.is_empty())
    });
    for phase in phases {
        section.heading(text::in_phase(phase.name()));
        section.table(by_phase(phase));
    }
}

/// The kernels with most time in a phase, with their share of it.
fn by_phase(phase: &PhaseAnalysis) -> Table {
    let headers = [
        "Kernel",
        "Category",
        "Calls",
        "Time",
        "Share of GPU time",
        "Share of wall time",
    ];
    let mut table = Table::new(&headers, 2);
    let waterfall = &phase.waterfall;
    let kernels = phase
        .traced
        .iter()
        .flat_map(|traced| &traced.longest_kernels);
    for kernel in kernels {
        let share = |whole: Nanos| {
            let share = kernel.time_ns.0 as f64 / whole.0.max(1) as f64;
            Cell::from(Percent(share).to_string())
        };
        table.row([
            name(&kernel.name),
            Cell::from(kernel.category.to_string()),
            Cell::from(kernel.calls.to_string()),
            Cell::from(kernel.time_ns.to_string()),
            share(waterfall.sum_ns),
            share(waterfall.wall_ns),
        ]);
    }
    table.rows_in_text = MOST_IN_PHASE;
    table
}

/// `kernels.md`; nothing where the trace has no kernels.
pub fn kernels(analysis: &Analysis) -> Option<Document> {
    let timeline = with_kernels(analysis)?;
    let mut document = Document::new(format!("{}: kernels", analysis.model));
    let totals = &timeline.totals;
    document.subtitle = format!(
        "{} of {}, {} in all.",
        Count(totals.kernels, "launch"),
        Count(timeline.kernels.len() as u64, "kernel"),
        totals.kernel_time_ns
    );
    document
        .section("categories", "By category")
        .table(by_category(timeline));
    document
        .section("names", "By name")
        .table(by_name(&timeline.kernels, MOST_IN_DOCUMENT));
    let section = document.section("launches", "Launch configurations");
    section.paragraph(text::OCCUPANCY);
    section.table(launches(&timeline.kernels));
    Some(document)
}

fn with_kernels(analysis: &Analysis) -> Option<&TraceAnalysis> {
    let timeline = analysis.timeline.as_deref()?;
    (!timeline.kernels.is_empty()).then_some(timeline)
}

fn by_name(kernels: &[KernelRow], most: usize) -> Table {
    let columns = Column::all([
        ("Kernel", Align::Left),
        ("Category", Align::Left),
        ("Library", Align::Left),
        ("Calls", Align::Right),
        ("Time", Align::Right),
        ("Share", Align::Right),
        ("Mean", Align::Right),
        ("Median", Align::Right),
        ("Max", Align::Right),
        ("Blocks", Align::Right),
        ("Waves", Align::Right),
        ("Occupancy", Align::Right),
    ]);
    let mut table = Table::sortable("kernels", columns);
    for kernel in kernels.iter().take(most) {
        let time = |time: f64| Cell::number(time, Nanos(time.round() as i64));
        let launch = kernel.launches.first();
        let occupancy = launch.and_then(|launch| launch.occupancy);
        table.row([
            name(&kernel.name),
            Cell::from(kernel.category.to_string()),
            Cell::from(kernel.library.to_string()),
            Cell::number(kernel.calls as f64, kernel.calls),
            time(kernel.total_ns.0 as f64),
            Cell::number(kernel.share_pct, Percent(kernel.share_pct / 100.0)),
            time(kernel.mean_ns),
            time(kernel.median_ns),
            time(kernel.max_ns.0 as f64),
            // A graph's kernels may have no grid.
            launch
                .map(blocks)
                .filter(|blocks| *blocks > 0.0)
                .map_or(Cell::Missing, |blocks| {
                    Cell::number(blocks, significant(blocks))
                }),
            occupancy.map_or(Cell::Missing, |found| {
                Cell::number(found.waves, text::hundredths(found.waves))
            }),
            occupancy.map_or(Cell::Missing, |found| {
                Cell::number(
                    found.theoretical_pct,
                    Percent(found.theoretical_pct / 100.0),
                )
            }),
        ]);
    }
    table.without_empty_columns()
}

fn by_category(timeline: &TraceAnalysis) -> Table {
    let mut sums: std::collections::BTreeMap<_, (u64, i64)> = std::collections::BTreeMap::new();
    for kernel in &timeline.kernels {
        let sum = sums.entry(kernel.category).or_default();
        sum.0 += kernel.calls;
        sum.1 = sum.1.saturating_add(kernel.total_ns.0);
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(category, (_, time))| (std::cmp::Reverse(*time), *category));
    let mut table = Table::new(&["Category", "Calls", "Time", "Share"], 1);
    let total = timeline
        .totals
        .kernel_time_ns
        .max(llmprof_units::Nanos(1))
        .0 as f64;
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

fn launches(kernels: &[KernelRow]) -> Table {
    let mut table = Table::new(
        &[
            "Kernel",
            "Grid",
            "Block",
            "Registers",
            "Shared memory",
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
            let occupancy = launch.occupancy;
            let mut cells = vec![name(&kernel.name)];
            let figures = [
                size(launch.grid),
                size(launch.block),
                launch.registers.to_string(),
                launch.shared_bytes.to_string(),
                launch.calls.to_string(),
                launch.total_ns.to_string(),
                occupancy.map_or_else(dash, |found| text::hundredths(found.waves)),
                occupancy.map_or_else(dash, |found| {
                    Percent(found.theoretical_pct / 100.0).to_string()
                }),
            ];
            cells.extend(figures.map(Cell::from));
            table.row(cells);
        }
    }
    table
}

fn blocks(launch: &LaunchRow) -> f64 {
    launch.grid.iter().map(|&size| f64::from(size)).product()
}
