//! Files and lines made from an analysis.

use std::path::{Path, PathBuf};

use llmprof_record::summary::{Summary, SummaryTable};
use llmprof_units::{Count, Nanos};

use super::counters::shortened;
use crate::clock;

/// `runs/import/<name of the first file>/<time>`.
pub(super) fn default_directory(files: &[PathBuf]) -> PathBuf {
    let name = files.first().map(|file| name(file)).unwrap_or_default();
    let stem = name
        .split('.')
        .next()
        .filter(|stem| !stem.is_empty())
        .unwrap_or("profile")
        .to_owned();
    let time = clock::directory_name();
    free(&Path::new("runs").join("import").join(stem).join(time))
}

/// The directory, or the first like it that is not there yet: two runs may begin in one microsecond.
pub(crate) fn free(dir: &Path) -> PathBuf {
    let mut found = dir.to_path_buf();
    let mut number = 2_u32;
    while found.exists() {
        let mut name = dir.as_os_str().to_owned();
        name.push(format!("-{number}"));
        found = name.into();
        number += 1;
    }
    found
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
        Summary::CudaApi(rows) => ("CUDA API call", rows),
        Summary::OsRuntime(rows) => ("operating-system call", rows),
        Summary::Kernels(rows) | Summary::KernelsBySize(rows) => ("kernel", rows),
        Summary::Memory(rows) => ("memory operation", rows),
        Summary::Device(rows) => ("device activity", rows),
        Summary::Ranges(rows) => ("range", rows),
        Summary::MemorySizes(rows) => {
            return vec![format!(
                "copies and memsets by size: {}",
                Count(count(rows), "kind")
            )];
        }
        Summary::Executions(rows) => {
            return vec![format!(
                "{} with launch, queue and run times",
                Count(count(rows), "kernel")
            )];
        }
        Summary::RangeKernels(rows) => {
            return vec![format!("{} by range", Count(count(rows), "kernel"))];
        }
        Summary::RangeProjections(rows) => {
            return vec![format!(
                "{} as the device saw them",
                Count(count(rows), "range")
            )];
        }
    };
    let total: i64 = rows
        .iter()
        .map(|row| row.total_ns)
        .fold(0, i64::saturating_add);
    let mut lines = vec![format!(
        "{}, {} in all",
        Count(count(rows), title),
        Nanos(total)
    )];
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

fn count<T>(rows: &[T]) -> u64 {
    rows.len() as u64
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
