//! Hardware counters of single launches for a spreadsheet.

use llmprof_analysis::counters::{CountedLaunch, percentages};

use crate::csv::csv_lines;

/// All rows for a spreadsheet.
pub fn csv(rows: &[CountedLaunch]) -> String {
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
    csv_lines(&lines)
}
