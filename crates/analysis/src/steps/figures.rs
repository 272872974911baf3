//! Figures of sequences of launches that repeat.

use llmprof_record::trace::Trace;
use llmprof_units::{Count, Nanos, stats::upper_median};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::row_order::sort_descending;
use crate::stats::{RepeatSummary, ValueDistribution};
use crate::steps::Repetition;
use crate::steps::cut::StepUnit;
use crate::steps::sequence::LaunchSource;
use crate::thresholds::REPETITIONS_MIN;
use crate::timeline::device_events::DeviceEvents;

/// Sequences of launches that repeat, where no range shows steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct StepPatterns {
    /// The patterns, those with the most steps of each thread first.
    pub patterns: Vec<StepPattern>,
    /// Whole intervals between two steps that are like no other: a single prefill, a warm-up.
    pub unlike: u64,
}

/// Steps that launch the same kernels, or nearly so.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct StepPattern {
    /// Name of the pattern by its number and kernels, such as `pattern 1 (1006 kernels)`.
    pub name: String,
    /// The thread that launches them, or the stream where calls are not known.
    pub launched_by: String,
    /// Whole steps; those that the edge of a slice or of the trace cut are left out.
    pub steps: u64,
    /// Steps that launch exactly the most usual sequence.
    pub equal: u64,
    /// Kernels a step, the median.
    pub kernels: u64,
    /// Launches a step, the median: a graph is one.
    pub launches: u64,
    /// From the start of a step's first kernel to that of the next step's, ns; to the end of its last kernel where no step of
    /// the pattern follows at once.
    pub wall_ns: ValueDistribution,
    /// How far walls of single steps are from their mean: the sample deviation, ns.
    pub wall_deviation_ns: f64,
    /// The sum of the times of a step's kernels, ns.
    pub kernel_time_ns: RepeatSummary,
    /// The same, the median over steps.
    #[serde(default)]
    pub usual_kernel_time_ns: f64,
    /// The part of a step's wall in which no kernel, copy or memset ran on any device that the trace has, the median over steps:
    /// one step that waited long (the first, which compiles) says nothing of the others.
    pub idle_share: f64,
    /// When the first launch of each step was called (when its first kernel began, where calls are not known), ns on the
    /// clock of the trace, in order.
    pub start_ns: Vec<Nanos>,
    /// The wall of each step.
    pub step_ns: Vec<Nanos>,
}

/// The figures of repetitions; `None` if there are none, or too few.
pub(crate) fn summarize_patterns(
    trace: &Trace,
    events: &DeviceEvents,
    repetitions: &[Repetition],
) -> Option<StepPatterns> {
    if repetitions.is_empty() {
        return None;
    }
    let busy = BusyTimes::of_events(events);
    let mut all = StepPatterns::default();
    for repetition in repetitions {
        let patterns: Vec<StepPattern> = repetition_patterns(trace, repetition, &busy);
        if patterns
            .first()
            .is_none_or(|first| (first.steps as usize) < REPETITIONS_MIN)
        {
            continue;
        }
        all.patterns.extend(patterns);
        let units = repetition.units.iter();
        all.unlike += units.filter(|unit| unit.pattern.is_none()).count() as u64;
    }
    for (index, pattern) in all.patterns.iter_mut().enumerate() {
        let kernels = Count(pattern.kernels, "kernel");
        pattern.name = format!("pattern {} ({kernels})", index + 1);
    }
    (!all.patterns.is_empty()).then_some(all)
}

fn repetition_patterns(
    trace: &Trace,
    repetition: &Repetition,
    busy: &BusyTimes,
) -> Vec<StepPattern> {
    let mut patterns: Vec<StepPattern> = (0..repetition.patterns)
        .filter_map(|pattern| {
            let steps: Vec<&StepUnit> = repetition
                .units
                .iter()
                .filter(|unit| unit.pattern == Some(pattern))
                .collect();
            let walls: Vec<f64> = steps
                .iter()
                .map(|step| step.end.saturating_sub(step.start) as f64)
                .collect();
            let times: Vec<f64> = steps.iter().map(|step| step.kernel_time as f64).collect();
            let idle: Vec<f64> = steps
                .iter()
                .zip(&walls)
                .filter(|(_, wall)| **wall > 0.0)
                .map(|(step, wall)| 1.0 - busy.work_between(step.start, step.end) as f64 / wall)
                .collect();
            let usual = |count: fn(&StepUnit) -> u64| {
                upper_median(&mut steps.iter().map(|step| count(step)).collect::<Vec<_>>())
            };
            Some(StepPattern {
                name: String::new(),
                launched_by: describe_source(trace, repetition.source),
                steps: steps.len() as u64,
                equal: steps.iter().filter(|step| step.equal).count() as u64,
                kernels: usual(|step| step.kernels)?,
                launches: usual(|step| step.launches)?,
                wall_ns: ValueDistribution::from_values(&walls)?,
                wall_deviation_ns: RepeatSummary::from_values(&walls)?.deviation.unwrap_or(0.0),
                kernel_time_ns: RepeatSummary::from_values(&times)?,
                usual_kernel_time_ns: ValueDistribution::from_values(&times)?.p50,
                idle_share: ValueDistribution::from_values(&idle).map_or(0.0, |idle| idle.p50),
                start_ns: steps.iter().map(|step| Nanos(step.launched)).collect(),
                step_ns: walls.iter().map(|&wall| Nanos(wall as i64)).collect(),
            })
        })
        .collect();
    sort_descending(&mut patterns, |pattern| pattern.steps as i64);
    patterns
}

fn describe_source(trace: &Trace, source: LaunchSource) -> String {
    match source {
        LaunchSource::Thread(thread) => {
            let row = (thread.0 as usize).min(trace.threads.len().saturating_sub(1));
            let threads = &trace.threads;
            format!(
                "process {}, thread {}",
                threads.process[row], threads.thread[row]
            )
        }
        LaunchSource::Stream(device, _, stream) => format!("GPU {device}, stream {stream}"),
    }
}

/// Times in which some device worked, merged.
struct BusyTimes {
    /// Starts of intervals of work, their ends, and the work before each.
    starts: Vec<i64>,
    ends: Vec<i64>,
    before: Vec<i64>,
}

impl BusyTimes {
    fn of_events(events: &DeviceEvents) -> Self {
        let mut intervals: Vec<(i64, i64)> = events
            .all()
            .iter()
            .map(|event| (event.start, event.end))
            .collect();
        // Events come by device, each in order.
        intervals.sort_unstable();
        let mut busy = Self {
            starts: Vec::new(),
            ends: Vec::new(),
            before: Vec::new(),
        };
        let mut sum = 0_i64;
        for (start, end) in intervals {
            match busy.ends.last_mut() {
                Some(last) if start <= *last => {
                    if end > *last {
                        sum = sum.saturating_add(end.saturating_sub(*last));
                        *last = end;
                    }
                }
                _ => {
                    busy.starts.push(start);
                    busy.ends.push(end);
                    busy.before.push(sum);
                    sum = sum.saturating_add(end.saturating_sub(start));
                }
            }
        }
        busy
    }

    /// Time of work before a moment, ns.
    fn work_until(&self, time: i64) -> i64 {
        let Some(last) = self
            .starts
            .partition_point(|&start| start < time)
            .checked_sub(1)
        else {
            return 0;
        };
        let inside = self.ends[last].min(time).saturating_sub(self.starts[last]);
        self.before[last].saturating_add(inside)
    }

    /// Work between two moments, ns.
    fn work_between(&self, start: i64, end: i64) -> i64 {
        self.work_until(end).saturating_sub(self.work_until(start))
    }
}
