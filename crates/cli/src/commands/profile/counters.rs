//! Hardware counters of single launches, as lines and for a spreadsheet.

use llmprof_analysis::counters::{CountersAnalysis, LaunchRow, percentages};
use llmprof_units::{Count, Nanos, significant};

use super::files;

/// What counters say, in a few lines.
pub(crate) fn lines(counters: &CountersAnalysis) -> Vec<String> {
    let total: Nanos = counters
        .launches
        .iter()
        .filter_map(|row| row.duration_ns)
        .sum();
    let mut lines = vec![format!(
        "{} with counters, {total} together (measured with cold caches)",
        Count(counters.launches.len() as u64, "launch")
    )];
    if let Some(joined) = counters.joined {
        lines.push(format!(
            "{joined} of them with a kernel of the same name on the timeline"
        ));
    }
    let mut longest: Vec<&LaunchRow> = counters.launches.iter().collect();
    longest.sort_by_key(|row| std::cmp::Reverse(row.duration_ns));
    for row in longest.into_iter().take(5) {
        let mut parts = vec![
            row.duration_ns
                .map(|time| time.to_string())
                .unwrap_or_default(),
        ];
        for (name, value) in &row.percentages {
            if let Some(value) = value {
                parts.push(format!(
                    "{} {} %",
                    name.trim_end_matches("_pct"),
                    significant(*value)
                ));
            }
        }
        lines.push(format!(
            "  {}  {}",
            parts.join(", "),
            shortened(&row.kernel)
        ));
    }
    lines
}

/// All rows for a spreadsheet.
pub(crate) fn csv(rows: &[LaunchRow]) -> String {
    let mut lines = vec![
        ["kernel", "grid", "block", "duration_ns", "timeline_mean_ns"]
            .into_iter()
            .chain(percentages())
            .chain([
                "dram_bytes",
                "tensor_flops_per_s",
                "tensor_intensity",
                "fp32_flops_per_s",
                "fp32_intensity",
            ])
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    ];
    let size = |size: Option<[u32; 3]>| {
        size.map(|[x, y, z]| format!("{x}x{y}x{z}"))
            .unwrap_or_default()
    };
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for row in rows {
        let mut cells = vec![
            row.kernel.clone(),
            size(row.grid),
            size(row.block),
            row.duration_ns
                .map(|time| time.0.to_string())
                .unwrap_or_default(),
            number(row.timeline_mean_ns),
        ];
        cells.extend(row.percentages.iter().map(|(_, value)| number(*value)));
        cells.push(
            row.dram_bytes
                .map(|bytes| bytes.to_string())
                .unwrap_or_default(),
        );
        for point in [&row.tensor, &row.fp32] {
            cells.push(number(point.as_ref().map(|point| point.flops_per_s)));
            cells.push(number(point.as_ref().and_then(|point| point.intensity)));
        }
        lines.push(cells);
    }
    files::csv(&lines)
}

/// A kernel's name that fits a line.
pub(super) fn shortened(name: &str) -> String {
    const MOST: usize = 80;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
