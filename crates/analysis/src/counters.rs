//! Hardware counters of single launches, joined with a timeline where there is one.

use llmprof_record::counters::{Counters, ProfiledLaunch, RooflinePoint, Rule};
use llmprof_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::trace::TraceAnalysis;

/// Metrics that every reader wants: our name, that of the raw page, section and name of the details page.
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

/// The names of the percentages that every launch has, in their order.
pub fn percentages() -> impl Iterator<Item = &'static str> {
    PERCENTAGES.iter().map(|(name, ..)| *name)
}

/// All profiled launches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountersAnalysis {
    /// One row a launch, in the order of the report.
    pub launches: Vec<LaunchRow>,
    /// How many of them have a kernel on the timeline; absent without a timeline.
    pub joined: Option<usize>,
}

/// One profiled launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchRow {
    /// The kernel, under the name by which all tools meet.
    pub kernel: String,
    /// Blocks in the grid.
    pub grid: Option<[u32; 3]>,
    /// Threads in a block.
    pub block: Option<[u32; 3]>,
    /// As the counter profiler measured it, with cold caches.
    pub duration_ns: Option<Nanos>,
    /// Mean of the same kernel on the timeline.
    pub timeline_mean_ns: Option<f64>,
    /// Use of the device's parts in percent of their peak, by [`percentages`].
    pub percentages: Vec<(String, Option<f64>)>,
    /// Bytes that main memory moved.
    pub dram_bytes: Option<Bytes>,
    /// Matrix units.
    pub tensor: Option<Point>,
    /// Multiply-adds in f32.
    pub fp32: Option<Point>,
    /// The tool's advice that it expects the largest speed-up of the kernel of; absent where it expects none.
    pub advice: Option<Advice>,
}

/// Where a launch stands under a roofline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Operations per second.
    pub flops_per_s: f64,
    /// Bytes per second of main memory.
    pub bytes_per_s: f64,
    /// Operations per DRAM byte.
    pub intensity: Option<f64>,
}

/// What the profiler of counters advises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The rule's name: `SOLBottleneck`.
    pub rule: String,
    /// What it says.
    pub text: String,
    /// The part of the time that would go, percent, as the tool estimates it.
    pub speedup_pct: Option<f64>,
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
    /// Rows of all launches; with a timeline, beside their kernels there.
    pub fn of(counters: &Counters, timeline: Option<&TraceAnalysis>) -> Self {
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
}

impl LaunchRow {
    fn of(counters: &Counters, launch: &ProfiledLaunch, timeline: Option<&TraceAnalysis>) -> Self {
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
        // A part of a kernel may become much faster and the kernel hardly.
        let expected = |rule: &&Rule| {
            let speedup = rule.speedup.filter(|speedup| speedup.of_whole_kernel);
            speedup.map(|speedup| speedup.percent)
        };
        let advice = launch.rules.iter().filter(|rule| expected(rule).is_some());
        let advice = advice.max_by(|a, b| {
            let [a, b] = [a, b].map(|rule| expected(rule).unwrap_or(0.0));
            a.total_cmp(&b)
        });
        Self {
            kernel: launch.canonical.clone(),
            grid: launch.grid,
            block: launch.block,
            duration_ns: counters.duration(launch),
            timeline_mean_ns: on_timeline.map(|kernel| kernel.mean_ns),
            percentages: PERCENTAGES
                .iter()
                .map(|(column, raw, section, name)| {
                    ((*column).to_owned(), percentage(raw, section, name))
                })
                .collect(),
            dram_bytes: counters.dram_bytes(launch),
            tensor: counters.tensor_point(launch).map(Point::from),
            fp32: counters.fp32_point(launch).map(Point::from),
            advice: advice.map(|rule| Advice {
                rule: rule.name.clone(),
                text: rule.description.clone(),
                speedup_pct: expected(&rule),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::counters::{EstimatedSpeedup, RuleKind};

    use super::*;

    /// Nsight Compute expects 99.9 % of a part of a kernel that has a single block: of the kernel it is the grid that matters.
    #[test]
    fn advice_is_for_the_whole_kernel() {
        let rule = |name: &str, speedup: Option<(bool, f64)>| Rule {
            section: String::new(),
            name: name.to_owned(),
            kind: RuleKind::Optimization,
            description: String::new(),
            speedup: speedup.map(|(of_whole_kernel, percent)| EstimatedSpeedup {
                of_whole_kernel,
                percent,
            }),
        };
        let advised = |rules: Vec<Rule>| {
            let launch = ProfiledLaunch {
                rules,
                ..ProfiledLaunch::default()
            };
            let counters = Counters {
                launches: vec![launch],
                ..Counters::default()
            };
            let found = CountersAnalysis::of(&counters, None);
            assert_eq!(found.joined, None);
            found.launches[0]
                .advice
                .as_ref()
                .map(|advice| advice.rule.clone())
        };
        let rules = vec![
            rule("SOLBottleneck", None),
            rule("HighPipeUtilization", Some((false, 99.9))),
            rule("AchievedOccupancy", Some((true, 73.5))),
            rule("LaunchConfiguration", Some((true, 99.2))),
        ];
        assert_eq!(advised(rules).as_deref(), Some("LaunchConfiguration"));
        assert_eq!(advised(vec![rule("SOLBottleneck", None)]), None);
    }
}
