//! Files and lines made from an analysis.

use std::path::{Path, PathBuf};

use llmprof_analysis::Analysis;
use llmprof_record::summary::{Summary, SummaryTable};
use llmprof_units::Nanos;

use super::counters::shortened;

/// `runs/import/<name of the first file>/<time>`.
pub(super) fn default_directory(files: &[PathBuf]) -> PathBuf {
    let name = files.first().map(|file| name(file)).unwrap_or_default();
    let stem = name
        .split('.')
        .next()
        .filter(|stem| !stem.is_empty())
        .unwrap_or("profile")
        .to_owned();
    let time = jiff::Zoned::now().strftime("%Y-%m-%d_%H-%M-%S").to_string();
    Path::new("runs").join("import").join(stem).join(time)
}

/// The last part of a path, as text.
pub(super) fn name(file: &Path) -> String {
    file.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// What a table of sums says, in a few lines.
pub(super) fn table_lines(table: &SummaryTable) -> Vec<String> {
    let (title, rows) = match &table.summary {
        Summary::CudaApi(rows) => ("CUDA API calls", rows),
        Summary::OsRuntime(rows) => ("calls of the operating system", rows),
        Summary::Kernels(rows) | Summary::KernelsBySize(rows) => ("kernels", rows),
        Summary::Memory(rows) => ("copies and memsets", rows),
        Summary::Device(rows) => ("device activities", rows),
        Summary::Ranges(rows) => ("ranges", rows),
        Summary::MemorySizes(rows) => {
            return vec![format!("{} kinds of copies, by size", rows.len())];
        }
        Summary::Executions(rows) => {
            return vec![format!(
                "{} kernels with launch, queue and run times",
                rows.len()
            )];
        }
        Summary::RangeKernels(rows) => return vec![format!("{} kernels by range", rows.len())],
        Summary::RangeProjections(rows) => {
            return vec![format!("{} ranges as the device saw them", rows.len())];
        }
    };
    let total: i64 = rows
        .iter()
        .map(|row| row.total_ns)
        .fold(0, i64::saturating_add);
    let mut lines = vec![format!("{} {title}, {} in all", rows.len(), Nanos(total))];
    let mut longest: Vec<_> = rows.iter().collect();
    longest.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
    for row in longest.into_iter().take(5) {
        let share = if total > 0 {
            100.0 * row.total_ns as f64 / total as f64
        } else {
            0.0
        };
        lines.push(format!(
            "  {share:5.1} %  {}  {}",
            Nanos(row.total_ns),
            shortened(&row.name)
        ));
    }
    lines
}

/// Kernels by name, for a spreadsheet.
pub(super) fn kernels_csv(analysis: &Analysis) -> String {
    let mut lines = vec![header(&[
        "name",
        "category",
        "library",
        "calls",
        "total_ns",
        "share_pct",
        "mean_ns",
        "median_ns",
        "min_ns",
        "max_ns",
        "deviation_ns",
    ])];
    for kernel in &analysis.kernels {
        lines.push(vec![
            kernel.name.clone(),
            word(&kernel.category),
            word(&kernel.library),
            kernel.calls.to_string(),
            kernel.total_ns.to_string(),
            kernel.share_pct.to_string(),
            kernel.mean_ns.to_string(),
            kernel.median_ns.to_string(),
            kernel.min_ns.to_string(),
            kernel.max_ns.to_string(),
            kernel.deviation_ns.to_string(),
        ]);
    }
    csv(&lines)
}

/// Operators by name, for a spreadsheet.
pub(super) fn operators_csv(analysis: &Analysis) -> String {
    let mut lines = vec![header(&[
        "name",
        "calls",
        "host_self_ns",
        "host_total_ns",
        "device_self_ns",
        "device_total_ns",
        "launches",
        "flops",
        "bytes",
        "flops_per_s",
        "bytes_per_s",
        "roofline",
    ])];
    for operator in &analysis.operators {
        let times = &operator.times;
        let work = operator.work.as_ref();
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        lines.push(vec![
            operator.name.clone(),
            times.calls.to_string(),
            times.host_self_ns.to_string(),
            times.host_total_ns.to_string(),
            times.device_self_ns.to_string(),
            times.device_total_ns.to_string(),
            times.launches.to_string(),
            work.map(|work| work.flops.to_string()).unwrap_or_default(),
            work.map(|work| work.bytes.to_string()).unwrap_or_default(),
            number(work.and_then(|work| work.flops_per_s)),
            number(work.and_then(|work| work.bytes_per_s)),
            number(work.and_then(|work| work.roofline)),
        ]);
    }
    csv(&lines)
}

fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// An enum as JSON spells it.
fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Lines of cells as CSV.
pub(super) fn csv(lines: &[Vec<String>]) -> String {
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .map(|cell| crate::output::csv_field(cell))
            .collect();
        text += &cells.join(",");
        text.push('\n');
    }
    text
}
