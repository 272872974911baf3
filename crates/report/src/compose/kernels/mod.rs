//! Kernels by name, category and launch configuration.

pub(crate) mod sentences;

use llmprof_units::{Count, Nanos, Percent, format_significant};

use self::sentences as text;
use crate::analyzed::{Analysis, KernelRow, PhaseAnalysis, TraceAnalysis};
use crate::document::{Align, Cell, Column, Document, Table};
use crate::kernel_label::kernel_label;
use crate::text::dash;

/// Kernels in `report.md`; `kernels.md` and the page have more.
const REPORT_KERNELS_MAX: usize = 15;
/// Phases that have a column of their own.
const PHASES_MAX: usize = 3;
/// Kernels in `kernels.md`; `kernels.csv` has all.
const DOCUMENT_KERNELS_MAX: usize = 200;
/// Rows of the page's table.
const PAGE_ROWS_MAX: usize = 2000;
/// Launch configurations that are listed of one kernel.
const LAUNCHES_MAX: usize = 4;

/// A kernel's name for a table: what tells it apart, the whole name on hovering.
pub(super) fn name(full: &str) -> Cell {
    Cell::Name {
        label: kernel_label(full),
        full: full.to_owned(),
    }
}

pub(super) fn add(document: &mut Document, analysis: &Analysis) {
    let Some(timeline) = with_kernels(analysis) else {
        return;
    };
    let section = document.section("kernels", "Kernels");
    // One phase that is all of the trace has the same shares.
    let phases = analysis.phases.iter().filter(|phase| {
        let traced = phase.traced.as_ref();
        traced.is_some_and(|traced| !traced.is_whole_trace && !traced.longest_kernels.is_empty())
    });
    let phases: Vec<&PhaseAnalysis> = phases.take(PHASES_MAX).collect();
    let mut table = by_name(&timeline.kernels, PAGE_ROWS_MAX, &phases);
    table.rows_in_text = REPORT_KERNELS_MAX;
    section.table(table);
    if !phases.is_empty() {
        section.paragraph(text::PHASE_SHARES);
    }
}

/// `kernels.md`; nothing where the trace has no kernels.
pub fn kernels(analysis: &Analysis) -> Option<Document> {
    let timeline = with_kernels(analysis)?;
    let mut document = Document::new(format!(
        "{}: kernels",
        crate::compose::summary::model_name(analysis)
    ));
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
    document.section("names", "By name").table(by_name(
        &timeline.kernels,
        DOCUMENT_KERNELS_MAX,
        &[],
    ));
    let section = document.section("launches", "Launch configurations");
    section.paragraph(text::OCCUPANCY);
    section.table(launches(&timeline.kernels));
    Some(document)
}

fn with_kernels(analysis: &Analysis) -> Option<&TraceAnalysis> {
    let timeline = analysis.timeline.as_deref()?;
    (!timeline.kernels.is_empty()).then_some(timeline)
}

/// All kernels, with their share of the GPU time of each phase.
fn by_name(kernels: &[KernelRow], most: usize, phases: &[&PhaseAnalysis]) -> Table {
    let shares: Vec<String> = phases
        .iter()
        .map(|phase| format!("Of {}", phase.name()))
        .collect();
    let right = |header: &'static str| (header, Align::Right);
    let columns = ["Kernel", "Category", "Library"]
        .map(|header| (header, Align::Left))
        .into_iter()
        .chain(["Calls", "Time", "Of kernel time"].map(right))
        .chain(shares.iter().map(|header| (header.as_str(), Align::Right)))
        .chain(["Median", "Max"].map(right))
        .chain(phases.is_empty().then(|| right("Blocks")))
        .chain(["Waves", "Occupancy"].map(right));
    let mut table = Table::sortable("kernels", Column::all(columns));
    for kernel in kernels.iter().take(most) {
        let time = |time: f64| Cell::number(time, Nanos(time.round() as i64));
        let launch = kernel.launches.first();
        let occupancy = launch.and_then(|launch| launch.occupancy);
        let mut cells = vec![
            name(&kernel.name),
            Cell::from(kernel.category.to_string()),
            Cell::from(kernel.library.to_string()),
            Cell::number(kernel.calls as f64, kernel.calls),
            time(kernel.total_ns.0 as f64),
            Cell::number(kernel.share_pct, Percent(kernel.share_pct / 100.0)),
        ];
        cells.extend(phases.iter().map(|phase| share_of(phase, &kernel.name)));
        cells.extend([time(kernel.median_ns), time(kernel.max_ns.0 as f64)]);
        if phases.is_empty() {
            // A graph's kernels may have no grid.
            let grid = launch.map(|launch| launch.grid.iter().map(|&size| f64::from(size)));
            let blocks = grid
                .map(Iterator::product::<f64>)
                .filter(|blocks| *blocks > 0.0);
            cells.push(blocks.map_or(Cell::Missing, |blocks| {
                Cell::number(blocks, format_significant(blocks))
            }));
        }
        cells.extend([
            occupancy.map_or(Cell::Missing, |occupancy| {
                Cell::number(occupancy.waves, text::hundredths(occupancy.waves))
            }),
            occupancy.map_or(Cell::Missing, |occupancy| {
                Cell::number(
                    occupancy.theoretical_pct,
                    Percent(occupancy.theoretical_pct / 100.0),
                )
            }),
        ]);
        table.row(cells);
    }
    table.without_empty_columns()
}

/// The share of a kernel in the GPU time of a phase, where it is one of its longest.
fn share_of(phase: &PhaseAnalysis, kernel: &str) -> Cell {
    let longest = phase.traced.iter().flat_map(|one| &one.longest_kernels);
    let row = longest.into_iter().find(|row| row.name == kernel);
    row.map_or(Cell::Missing, |row| {
        let share = row.time_ns.0 as f64 / phase.waterfall.sum_ns.0.max(1) as f64;
        Cell::number(share, Percent(share))
    })
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
    let mut table = Table::new(&["Category", "Calls", "Time", "Of kernel time"], 1);
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
    for kernel in kernels.iter().take(DOCUMENT_KERNELS_MAX) {
        for launch in kernel.launches.iter().take(LAUNCHES_MAX) {
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
                occupancy.map_or_else(dash, |occupancy| text::hundredths(occupancy.waves)),
                occupancy.map_or_else(dash, |occupancy| {
                    Percent(occupancy.theoretical_pct / 100.0).to_string()
                }),
            ];
            cells.extend(figures.map(Cell::from));
            table.row(cells);
        }
    }
    table
}
