//! Hardware counters of single launches, joined with a timeline where there is one.

use llmprof_analysis::Analysis;
use llmprof_record::counters::{Counters, ProfiledLaunch, RooflinePoint};
use llmprof_units::{Count, Nanos, significant};
use serde::Serialize;

use super::files::csv;

/// Metrics that every reader wants, with the names of the raw page and of the details page.
const PERCENTAGES: &[(&str, &str, &str, &str)] = &[
    (
        "sm_throughput_pct",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "GPU Speed Of Light Throughput",
        "Compute (SM) Throughput",
    ),
    (
        "dram_throughput_pct",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "GPU Speed Of Light Throughput",
        "DRAM Throughput",
    ),
    (
        "l2_throughput_pct",
        "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "GPU Speed Of Light Throughput",
        "L2 Cache Throughput",
    ),
    (
        "achieved_occupancy_pct",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "Occupancy",
        "Achieved Occupancy",
    ),
];

/// All profiled launches.
#[derive(Serialize)]
pub(super) struct CountersAnalysis {
    /// One row a launch, in the order of the report.
    pub(super) launches: Vec<LaunchRow>,
    /// How many of them have a kernel on the timeline; absent without a timeline.
    joined: Option<usize>,
}

/// One profiled launch.
#[derive(Serialize)]
pub(super) struct LaunchRow {
    kernel: String,
    grid: Option<[u32; 3]>,
    block: Option<[u32; 3]>,
    /// As the counter profiler measured it, with cold caches.
    duration_ns: Option<Nanos>,
    /// Mean of the same kernel on the timeline.
    timeline_mean_ns: Option<f64>,
    percentages: Vec<(&'static str, Option<f64>)>,
    dram_bytes: Option<u64>,
    tensor: Option<Point>,
    fp32: Option<Point>,
    /// The tool's advice with the largest speed-up it expects.
    advice: Option<Advice>,
}

#[derive(Serialize)]
struct Point {
    flops_per_s: f64,
    bytes_per_s: f64,
    /// Operations per DRAM byte.
    intensity: Option<f64>,
}

#[derive(Serialize)]
struct Advice {
    rule: String,
    text: String,
    speedup_pct: Option<f64>,
}

impl From<RooflinePoint> for Point {
    fn from(point: RooflinePoint) -> Self {
        Self {
            flops_per_s: point.rate.0,
            bytes_per_s: point.traffic.0,
            intensity: point.intensity(),
        }
    }
}

impl CountersAnalysis {
    pub(super) fn of(counters: &Counters, timeline: Option<&Analysis>) -> Self {
        let launches: Vec<LaunchRow> = counters
            .launches
            .iter()
            .map(|launch| LaunchRow::of(counters, launch, timeline))
            .collect();
        let joined = timeline.map(|_| {
            launches
                .iter()
                .filter(|row| row.timeline_mean_ns.is_some())
                .count()
        });
        Self { launches, joined }
    }

    pub(super) fn summary(&self) -> Vec<String> {
        let total: Nanos = self.launches.iter().filter_map(|row| row.duration_ns).sum();
        let mut lines = vec![format!(
            "{} with counters, {total} together (measured with cold caches)",
            Count(self.launches.len() as u64, "launch")
        )];
        if let Some(joined) = self.joined {
            lines.push(format!(
                "{joined} of them with a kernel of the same name on the timeline"
            ));
        }
        let mut longest: Vec<&LaunchRow> = self.launches.iter().collect();
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
}

impl LaunchRow {
    fn of(counters: &Counters, launch: &ProfiledLaunch, timeline: Option<&Analysis>) -> Self {
        let percentage = |raw: &str, section: &str, name: &str| {
            counters
                .number(launch, raw)
                .or_else(|| counters.number_in(launch, section, name, "%"))
        };
        let on_timeline = timeline.and_then(|analysis| {
            analysis
                .kernels
                .iter()
                .find(|kernel| kernel.canonical == launch.canonical)
        });
        let advice = launch.rules.iter().max_by(|a, b| {
            let expected = |rule: &llmprof_record::counters::Rule| {
                rule.speedup.as_ref().map_or(0.0, |s| s.percent)
            };
            expected(a).total_cmp(&expected(b))
        });
        Self {
            kernel: launch.canonical.clone(),
            grid: launch.grid,
            block: launch.block,
            duration_ns: counters.duration(launch),
            timeline_mean_ns: on_timeline.map(|kernel| kernel.mean_ns),
            percentages: PERCENTAGES
                .iter()
                .map(|(column, raw, section, name)| (*column, percentage(raw, section, name)))
                .collect(),
            dram_bytes: counters.dram_bytes(launch).map(|bytes| bytes.0),
            tensor: counters.tensor_point(launch).map(Point::from),
            fp32: counters.fp32_point(launch).map(Point::from),
            advice: advice.map(|rule| Advice {
                rule: rule.name.clone(),
                text: rule.description.clone(),
                speedup_pct: rule.speedup.as_ref().map(|speedup| speedup.percent),
            }),
        }
    }

    /// All rows for a spreadsheet.
    pub(super) fn csv(rows: &[Self]) -> String {
        let mut lines = vec![
            ["kernel", "grid", "block", "duration_ns", "timeline_mean_ns"]
                .into_iter()
                .chain(PERCENTAGES.iter().map(|(column, ..)| *column))
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
        csv(&lines)
    }
}

/// A kernel's name that fits a line.
pub(super) fn shortened(name: &str) -> String {
    const MOST: usize = 80;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
