//! Hardware counters per kernel launch.
//!
//! A profiler of counters replays a launch and reads hundreds of metrics, each in a unit of its choice. Here every
//! number is in a base unit (ns, byte, Hz, and their quotients: see [`unit`]) and the unit it was printed in is kept.
//! Rules are the tool's own advice, with the speed-up it expects.

mod levels;
mod roofline;
pub mod unit;

use std::collections::HashMap;

use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use levels::{Level, LevelTraffic, Pipe, PipeRate};
pub use roofline::RooflinePoint;

use crate::issue::Issue;

/// Counters of some launches, from one report or several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Counters {
    /// Every metric that some launch has, in order of first appearance.
    pub metrics: Vec<Metric>,
    /// The launches, in order of appearance.
    pub launches: Vec<ProfiledLaunch>,
    /// What was dropped or is doubtful.
    pub issues: Vec<Issue>,
}

/// Counters while they are read: gives every metric one number.
#[derive(Debug, Default)]
pub struct CountersBuilder {
    /// What was read so far.
    pub counters: Counters,
    lookup: HashMap<Metric, MetricId>,
}

impl CountersBuilder {
    /// The number of a metric, new where it was not seen before.
    pub fn metric(&mut self, metric: Metric) -> MetricId {
        let metrics = &mut self.counters.metrics;
        *self.lookup.entry(metric).or_insert_with_key(|metric| {
            metrics.push(metric.clone());
            MetricId(metrics.len() as u32 - 1)
        })
    }
}

/// A quantity that a profiler reads, in its base unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[schemars(rename = "CounterMetric")]
pub struct Metric {
    /// The section it was printed under; empty for a page without sections.
    pub section: String,
    /// The chart or table inside the section; mostly empty.
    pub label: String,
    /// Its name: `gpu__time_duration.sum`, or `Duration` in a section.
    pub name: String,
    /// The base unit of its values; empty for plain counts, ratios and texts.
    pub unit: String,
}

/// The number of a metric in [`Counters::metrics`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema, Deserialize,
)]
pub struct MetricId(pub u32);

/// One launch of a kernel under the profiler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ProfiledLaunch {
    /// The report it is from, where several were read: a directory's name.
    pub report: String,
    /// The tool's number of the launch within its report.
    pub id: u64,
    /// Id of the process that launched the kernel.
    pub process: u64,
    /// The kernel's name as the tool spells it.
    pub kernel: String,
    /// The name under which all tools meet ([`crate::kernel_name::canonical`]).
    pub canonical: String,
    /// The CUDA context that it was launched in.
    pub context: u64,
    /// The CUDA stream that it was launched on.
    pub stream: u64,
    /// The index of the device that it ran on.
    pub device: u32,
    /// The compute capability of the device: `9.0`.
    pub compute_capability: String,
    /// Blocks in the grid; absent where the cell did not parse.
    pub grid: Option<[u32; 3]>,
    /// Threads in a block; absent where the cell did not parse.
    pub block: Option<[u32; 3]>,
    /// NVTX ranges around the launch, outermost first.
    pub ranges: Vec<LaunchRange>,
    /// What was read, in the order of the file.
    pub readings: Vec<Reading>,
    /// What rules of Nsight Compute say.
    pub rules: Vec<Rule>,
    /// What the launch stands for on the timeline that it was chosen from; absent where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_for: Option<StandsFor>,
}

/// Launches of one kernel with one configuration that take as long as the profiled one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct StandsFor {
    /// Launches that it stands for.
    pub launches: u64,
    /// Their time on the timeline.
    pub total_ns: Nanos,
    /// Time of the profiled one there.
    pub duration_ns: Nanos,
}

/// An NVTX range around a profiled launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct LaunchRange {
    /// Its domain; empty for the default domain.
    pub domain: String,
    /// The text of the NVTX range.
    pub name: String,
}

/// One value of one metric.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Reading {
    /// The metric, by its number in [`Counters::metrics`].
    pub metric: MetricId,
    /// Its value in the metric's unit.
    pub value: Value,
    /// The unit in which the tool printed it: `Mbyte` where the metric's is `byte`.
    pub printed_unit: String,
}

/// What a cell of a report held.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A number, in the base unit.
    Number(f64),
    /// A word, such as a cache configuration.
    Text(String),
    /// The tool had no value: `n/a`, `no data`, `nan` or an empty cell.
    Absent,
}

/// A remark or advice of the tool about one launch.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Rule {
    /// Identifier of the section that the rule belongs to: `SpeedOfLight`.
    pub section: String,
    /// Name of the rule as the tool writes it: `SOLBottleneck`.
    pub name: String,
    /// What kind of remark it is.
    pub kind: RuleKind,
    /// The text that the tool prints.
    pub description: String,
    /// How much faster it expects the change to be.
    pub speedup: Option<EstimatedSpeedup>,
}

/// The kinds of remarks that rules make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleKind {
    /// `OPT`: something that could be made faster.
    Optimization,
    /// `INF`: a fact without advice.
    Information,
    /// `WRN`: a reason for distrust.
    Warning,
    /// A kind that this version does not know.
    Other(String),
}

/// A speed-up as the tool estimates it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct EstimatedSpeedup {
    /// Whether the percentage is of the kernel's time, as opposed to the time of the part that the rule looks at.
    pub of_whole_kernel: bool,
    /// The part of the time that would go, percent.
    pub percent: f64,
}

impl Counters {
    /// Adds the launches of other reports, which keep their own numbers under the name of their report.
    pub fn absorb(&mut self, report: &str, other: Self) {
        let mut builder = CountersBuilder {
            lookup: self
                .metrics
                .iter()
                .enumerate()
                .map(|(at, metric)| (metric.clone(), MetricId(at as u32)))
                .collect(),
            counters: std::mem::take(self),
        };
        let ids: Vec<MetricId> = other
            .metrics
            .into_iter()
            .map(|metric| builder.metric(metric))
            .collect();
        for mut launch in other.launches {
            for reading in &mut launch.readings {
                if let Some(id) = ids.get(reading.metric.0 as usize) {
                    reading.metric = *id;
                }
            }
            if !report.is_empty() {
                launch.report = match launch.report.as_str() {
                    "" => report.to_owned(),
                    own => format!("{report}/{own}"),
                };
            }
            builder.counters.launches.push(launch);
        }
        builder.counters.issues.extend(other.issues);
        *self = builder.counters;
    }

    /// The metric behind a number that a reading has.
    pub fn describe(&self, id: MetricId) -> Option<&Metric> {
        self.metrics.get(id.0 as usize)
    }

    /// The first number of the metric `name` of a launch, whatever its section.
    pub fn number(&self, launch: &ProfiledLaunch, name: &str) -> Option<f64> {
        self.find(launch, |metric| metric.name == name)
    }

    /// The number of the metric `name` printed under `section` with base unit `unit`.
    pub fn number_in(
        &self,
        launch: &ProfiledLaunch,
        section: &str,
        name: &str,
        unit: &str,
    ) -> Option<f64> {
        self.find(launch, |metric| {
            metric.name == name && metric.section == section && metric.unit == unit
        })
    }

    fn find(&self, launch: &ProfiledLaunch, wanted: impl Fn(&Metric) -> bool) -> Option<f64> {
        launch
            .readings
            .iter()
            .find_map(|reading| match reading.value {
                Value::Number(number) if self.describe(reading.metric).is_some_and(&wanted) => {
                    Some(number)
                }
                _ => None,
            })
    }
}
