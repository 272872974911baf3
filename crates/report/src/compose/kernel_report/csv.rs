//! Counters for spreadsheets: one row per launch, its class, every reading.

use llmprof_analysis::counters::{CountedLaunch, CountersAnalysis};
use llmprof_record::counters::{Counters, Level, ProfiledLaunch, Value};

use super::KernelNotes;
use crate::csv::{CsvFile, csv_lines};
use crate::kernel_label;

const SUMMARY: [&str; 25] = [
    "kernel_id",
    "kernel_name",
    "display_name",
    "grid_size",
    "block_size",
    "device",
    "cc",
    "process",
    "process_id",
    "sm_throughput_pct",
    "dram_throughput_pct",
    "mem_throughput_pct",
    "l1tex_throughput_pct",
    "l2_throughput_pct",
    "duration_us",
    "mem_busy_pct",
    "max_bandwidth_pct",
    "memory_throughput_gbs",
    "l1tex_hit_rate_pct",
    "l2_hit_rate_pct",
    "achieved_occupancy_pct",
    "theoretical_occupancy_pct",
    "classification",
    "roofline_ai_flops_per_byte",
    "roofline_flops_per_s",
];

/// The three tables, by their names.
pub fn files(
    counters: &Counters,
    analysis: &CountersAnalysis,
    notes: Option<&KernelNotes>,
) -> Vec<CsvFile> {
    let ids = ids(&counters.launches);
    vec![
        (
            "metrics_summary.csv".to_owned(),
            summary(counters, analysis, &ids, notes),
        ),
        (
            "classification_summary.csv".to_owned(),
            classes(analysis, &ids),
        ),
        ("all_metrics_long.csv".to_owned(), readings(counters, &ids)),
    ]
}

/// The name of a launch: its report's where that has one launch, else numbered.
fn ids(launches: &[ProfiledLaunch]) -> Vec<String> {
    launches
        .iter()
        .map(|launch| {
            let in_report = launches
                .iter()
                .filter(|other| other.report == launch.report);
            match (launch.report.as_str(), in_report.count()) {
                ("", _) => format!("kernel_{:04}", launch.id),
                (report, 1) => report.to_owned(),
                (report, _) => format!("{report}_{:04}", launch.id),
            }
        })
        .collect()
}

fn number(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn summary(
    counters: &Counters,
    analysis: &CountersAnalysis,
    ids: &[String],
    notes: Option<&KernelNotes>,
) -> String {
    let mut lines = vec![SUMMARY.map(str::to_owned).to_vec()];
    let launches = counters.launches.iter().zip(&analysis.launches).zip(ids);
    for ((launch, row), id) in launches {
        let size = |size: Option<[u32; 3]>| {
            size.map_or_else(String::new, |[x, y, z]| format!("({x}, {y}, {z})"))
        };
        let (rate, intensity) = dominant(row);
        let dram = row.levels.iter().find(|one| one.level == Level::Dram);
        let cell = |column: &str| match column {
            "kernel_id" => id.clone(),
            "kernel_name" => launch.kernel.clone(),
            "display_name" => notes
                .and_then(|notes| notes.get(&row.kernel)?.friendly_name.clone())
                .unwrap_or_else(|| kernel_label(&row.kernel)),
            "grid_size" => size(row.grid),
            "block_size" => size(row.block),
            "device" => launch.device.to_string(),
            "cc" => launch.compute_capability.clone(),
            // Names of processes are not kept.
            "process" => String::new(),
            "process_id" => launch.process.to_string(),
            "duration_us" => number(row.duration_ns.map(|time| time.0 as f64 / 1e3)),
            "memory_throughput_gbs" => number(dram.map(|one| one.bytes_per_s.0 / 1e9)),
            "classification" => row.class.name().to_owned(),
            "roofline_ai_flops_per_byte" => number(intensity),
            "roofline_flops_per_s" => number(rate),
            percentage => number(row.percentage(percentage)),
        };
        lines.push(SUMMARY.map(cell).to_vec());
    }
    csv_lines(&lines)
}

/// Rate of the pipe that did the most, and its FLOPs per DRAM byte.
fn dominant(row: &CountedLaunch) -> (Option<f64>, Option<f64>) {
    let rates = row.pipes.iter().map(|rate| rate.flops_per_s.0);
    let Some(most) = rates.max_by(f64::total_cmp) else {
        return (None, None);
    };
    let bytes = row.levels.iter().find(|one| one.level == Level::Dram);
    let intensity = bytes
        .filter(|one| one.bytes_per_s.0 > 0.0)
        .map(|one| most / one.bytes_per_s.0);
    (Some(most), intensity)
}

fn classes(analysis: &CountersAnalysis, ids: &[String]) -> String {
    let mut lines = vec![vec!["kernel_id".to_owned(), "classification".to_owned()]];
    let rows = analysis.launches.iter().zip(ids);
    lines.extend(rows.map(|(row, id)| vec![id.clone(), row.class.name().to_owned()]));
    csv_lines(&lines)
}

/// Values in base units, with the unit.
fn readings(counters: &Counters, ids: &[String]) -> String {
    let header = ["kernel_id", "section", "metric_name", "value", "unit"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for (launch, id) in counters.launches.iter().zip(ids) {
        for reading in &launch.readings {
            let Some(metric) = counters.describe(reading.metric) else {
                continue;
            };
            let value = match &reading.value {
                Value::Number(value) => value.to_string(),
                Value::Text(text) => text.clone(),
                Value::Absent => continue,
            };
            lines.push(vec![
                id.clone(),
                metric.section.clone(),
                metric.name.clone(),
                value,
                metric.unit.clone(),
            ]);
        }
    }
    csv_lines(&lines)
}
