//! Tables of sums by name, as `nsys stats` prints them.

use llmprof_record::summary::{GemmRow, Summary, SummaryTable, TimeRow};
use llmprof_units::{Bytes, Count, Flops, Nanos, Percent};

use crate::kernel_label::kernel_label;

/// Rows in the summary.
const ROWS_MAX: usize = 5;

/// What tables are of, as a title.
pub fn title(tables: &[llmprof_record::run::Summary]) -> &'static str {
    let is_gemms =
        |table: &llmprof_record::run::Summary| matches!(table.table.summary, Summary::Gemms(_));
    if tables.iter().all(is_gemms) {
        "GEMMs of cuBLAS"
    } else {
        "Summaries by name"
    }
}

/// What rows of times are of: in a sentence, and as a heading.
pub(crate) fn times(summary: &Summary) -> Option<(&'static str, &'static str, &[TimeRow])> {
    Some(match summary {
        Summary::CudaApi(rows) => ("API function", "API calls", rows),
        Summary::OsRuntime(rows) => ("OS runtime function", "OS runtime calls", rows),
        Summary::Kernels(rows) => ("kernel", "Kernels", rows),
        Summary::KernelsBySize(rows) => ("kernel", "Kernels by launch size", rows),
        Summary::Memory(rows) => ("memory operation", "Copies and memsets", rows),
        Summary::Device(rows) => ("GPU activity", "GPU activities", rows),
        Summary::Ranges(rows) => ("range", "Ranges", rows),
        Summary::MemorySizes(_)
        | Summary::Executions(_)
        | Summary::RangeKernels(_)
        | Summary::RangeProjections(_)
        | Summary::Gemms(_) => return None,
    })
}

/// Whether rows lie inside each other, so that their times do not add up.
pub(crate) fn is_nested(summary: &Summary) -> bool {
    matches!(summary, Summary::Ranges(_))
}

pub(crate) fn total(rows: &[TimeRow]) -> Nanos {
    let times = rows.iter().map(|row| row.total_ns.0);
    Nanos(times.fold(0, i64::saturating_add))
}

/// The result, then the longest rows.
pub fn summary(table: &SummaryTable) -> Vec<String> {
    let mut lines = vec![result(table)];
    let Some((_, _, rows)) = times(&table.summary) else {
        return lines;
    };
    let whole = total(rows);
    let mut longest: Vec<&TimeRow> = rows.iter().collect();
    longest.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
    for row in longest.into_iter().take(ROWS_MAX) {
        let share = Percent(row.total_ns.0 as f64 / whole.0.max(1) as f64);
        let share = if is_nested(&table.summary) {
            String::new()
        } else {
            format!(" ({share})")
        };
        let time = row.total_ns;
        lines.push(format!("{}: {time}{share}", kernel_label(&row.name)));
    }
    lines
}

/// What a table says, in a sentence.
pub fn result(table: &SummaryTable) -> String {
    let counted = |rows: usize, what| Count(rows as u64, what);
    if let Some((what, _, rows)) = times(&table.summary) {
        let calls: u64 = rows.iter().map(|row| row.times.count).sum();
        let rows_of = counted(rows.len(), what);
        return if is_nested(&table.summary) {
            format!("{rows_of} by name, {} in all.", Count(calls, "instance"))
        } else {
            let total = total(rows);
            format!("{rows_of} in {}, {total} in all.", Count(calls, "call"))
        };
    }
    match &table.summary {
        Summary::MemorySizes(rows) => {
            let total: f64 = rows.iter().map(|row| row.total_bytes).sum();
            let kinds = counted(rows.len(), "kind");
            let bytes = Bytes(total.max(0.0).round() as u64);
            format!("{kinds} of copies and memsets, {bytes} in all.")
        }
        Summary::Executions(rows) => format!(
            "{} with launch, queue and execution times.",
            counted(rows.len(), "kernel")
        ),
        Summary::RangeKernels(rows) => format!("{} by range.", counted(rows.len(), "kernel")),
        Summary::RangeProjections(rows) => {
            format!("{} projected onto the GPU.", counted(rows.len(), "range"))
        }
        Summary::Gemms(rows) => {
            let calls: u64 = rows.iter().map(|row| row.calls).sum();
            let flops: f64 = rows.iter().map(GemmRow::total_flops).sum();
            format!(
                "{} of {}, {} in all.",
                Count(calls, "GEMM"),
                Count(rows.len() as u64, "shape"),
                Flops(flops.round() as u64)
            )
        }
        _ => String::new(),
    }
}
