//! What the slices of a capture say of the whole: sums over all steps, or over all of the time, with an interval.
//!
//! Where slices begin with a range that comes back (a step), the steps that lie wholly inside slices are a sample of all
//! steps, which are known since ranges are recorded between slices too. With N steps, n of them in the sample, mean x̄
//! and deviation s, the sum over all steps is N x̄ ± N t₀.₉₇₅(n − 1) s √(1 − n/N) ÷ √n (Cochran, Sampling Techniques,
//! 1977, §2.8). Without steps the slices themselves are the sample, and what they hold is scaled by time: with y of a
//! slice of length l and R = Σy ÷ Σl, the sum over time T is R T, with residuals y − R l in place of s (§6.4).
//!
//! Between the two stand slices without ranges whose launches show steps by their pattern: `by_pattern` has how many
//! steps there are in all as an estimate of its own.

mod by_pattern;
mod step_range;

use llmprof_record::trace::{RangeKind, StrId, ThreadId, Trace};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::RepeatSummary;
use crate::steps;
use crate::steps::{LaunchSource, Repetition};
use crate::timeline::slices;
use crate::trace::scaled::by_pattern::StepCount;
use crate::trace::scaled::step_range::step_name;

/// Maximum number of kernels in the list.
const SCALED_KERNELS_MAX: usize = 20;

/// A figure for the whole, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Estimate {
    /// The point estimate for the whole.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// A value of something that is not negative, with half of its interval.
    fn around(value: f64, half: f64) -> Self {
        Self {
            value,
            low: (value - half).max(0.0),
            high: value + half,
        }
    }
}

/// One kernel over the whole.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ScaledKernel {
    /// Name of the kernel as the tool wrote it.
    pub name: String,
    /// Estimated number of its launches.
    pub calls: Estimate,
    /// The sum of its times, ns.
    pub time_ns: Estimate,
}

/// Steps that the pattern of launches shows, where no range does.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ScaledSteps {
    /// Kernels of the usual step.
    pub usual_kernels: u64,
    /// How many steps there are in the whole time.
    pub steps: Estimate,
    /// Estimated number of kernels in a step.
    pub kernels: Estimate,
    /// The sum of the times of a step's kernels, ns.
    pub kernel_time_ns: Estimate,
}

/// Estimates for the whole run from its slices.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ScaledTrace {
    /// The range that is a step; absent where no range is one.
    pub step: Option<String>,
    /// Steps by the pattern of launches; absent where a range is a step, or nothing repeats and slices are scaled by time.
    pub pattern: Option<ScaledSteps>,
    /// Steps in all, by estimate where there is a pattern; slices where there are no steps.
    pub units: u64,
    /// Those of them that were recorded whole.
    pub sampled: u64,
    /// The time that was recorded.
    pub recorded_ns: Nanos,
    /// Length of the run in ns, recorded or not.
    pub whole_ns: Nanos,
    /// Kernels in all steps, or in the whole time.
    pub kernels: Estimate,
    /// The sum of their times, ns.
    pub kernel_time_ns: Estimate,
    /// The kernels with the most time.
    pub by_kernel: Vec<ScaledKernel>,
}

/// The sample: what each unit held, and how to get from there to the whole.
struct SliceSample {
    step: Option<StrId>,
    /// By the pattern of launches, how many steps there are.
    count: Option<StepCount>,
    units: u64,
    /// Start and end of each sampled unit, in order of time.
    windows: Vec<(i64, i64)>,
    whole: (i64, i64),
    recorded: i64,
}

/// Scales what was recorded in slices; `None` if all of the time was recorded, or the sample is too small.
pub fn scale_slices(trace: &Trace) -> Option<ScaledTrace> {
    scale_repetitions(trace, &steps::find_repetitions(trace))
}

/// As [`scale_slices`], with the repetitions of the trace already known.
pub(crate) fn scale_repetitions(trace: &Trace, repetitions: &[Repetition]) -> Option<ScaledTrace> {
    let slices = slices::recorded_slices(trace)?;
    let sample = SliceSample::from_slices(trace, &slices, repetitions)?;
    let mut counts: FxHashMap<StrId, Vec<(f64, f64)>> = FxHashMap::default();
    let mut all = vec![(0.0, 0.0); sample.windows.len()];
    // Launches of other threads do not belong to a step.
    let mut own = all.clone();
    let calls = launching_calls(trace);
    let kernels = &trace.kernels;
    for row in 0..kernels.len() {
        let call = calls.get(&kernels.correlation[row]);
        let (at, source) = match call {
            Some(&(at, thread)) => (at, LaunchSource::Thread(thread)),
            None => (kernels.start[row], stream_of(trace, row)),
        };
        let Some(unit) = sample.unit_at(at) else {
            continue;
        };
        let of_name = counts
            .entry(kernels.name[row])
            .or_insert_with(|| vec![(0.0, 0.0); sample.windows.len()]);
        let add = |sum: &mut (f64, f64)| {
            sum.0 += 1.0;
            sum.1 += kernels.duration[row] as f64;
        };
        add(&mut all[unit]);
        add(&mut of_name[unit]);
        if sample.launches_units(source) {
            add(&mut own[unit]);
        }
    }
    let estimate = |units: &[(f64, f64)]| {
        let (calls, times): (Vec<f64>, Vec<f64>) = units.iter().copied().unzip();
        Some((
            sample.scale_to_whole(&calls)?,
            sample.scale_to_whole(&times)?,
        ))
    };
    let (total, kernel_time_ns) = estimate(&all)?;
    let pattern = sample.count.as_ref().and_then(|count| {
        let (kernels, times): (Vec<f64>, Vec<f64>) = own.iter().copied().unzip();
        Some(ScaledSteps {
            usual_kernels: count.usual_kernels,
            steps: count.estimate(),
            kernels: count.estimate_step(&kernels)?,
            kernel_time_ns: count.estimate_step(&times)?,
        })
    });
    let mut by_kernel: Vec<ScaledKernel> = counts
        .iter()
        .filter_map(|(&name, units)| {
            let (calls, time_ns) = estimate(units)?;
            Some(ScaledKernel {
                name: trace.text(name).to_owned(),
                calls,
                time_ns,
            })
        })
        .collect();
    by_kernel.sort_by(|a, b| {
        let time = b.time_ns.value.total_cmp(&a.time_ns.value);
        time.then_with(|| a.name.cmp(&b.name))
    });
    by_kernel.truncate(SCALED_KERNELS_MAX);
    Some(ScaledTrace {
        step: sample.step.map(|name| trace.text(name).to_owned()),
        pattern,
        units: sample.units,
        sampled: sample.windows.len() as u64,
        recorded_ns: Nanos(sample.recorded),
        whole_ns: Nanos(sample.whole.1.saturating_sub(sample.whole.0)),
        kernels: total,
        kernel_time_ns,
        by_kernel,
    })
}

/// When the call began that launched what carries a correlation id, and on which thread.
fn launching_calls(trace: &Trace) -> FxHashMap<u32, (i64, ThreadId)> {
    let hosts = &trace.hosts;
    (0..hosts.len())
        .filter(|&row| hosts.correlation[row] != 0)
        .map(|row| {
            (
                hosts.correlation[row],
                (hosts.start[row], hosts.thread[row]),
            )
        })
        .collect()
}

fn stream_of(trace: &Trace, row: usize) -> LaunchSource {
    let kernels = &trace.kernels;
    LaunchSource::Stream(
        kernels.device[row],
        kernels.context[row],
        kernels.stream[row],
    )
}

impl SliceSample {
    fn from_slices(
        trace: &Trace,
        slices: &[(i64, i64)],
        repetitions: &[Repetition],
    ) -> Option<Self> {
        let ranges = &trace.ranges;
        let end = |row: usize| ranges.start[row].saturating_add(ranges.duration[row]);
        let nvtx: Vec<usize> = (0..ranges.len())
            .filter(|&row| ranges.kind[row] == RangeKind::NVTX)
            .collect();
        let first = nvtx.iter().map(|&row| ranges.start[row]).min();
        let last = nvtx.iter().map(|&row| end(row)).max();
        let whole = (
            first.unwrap_or(i64::MAX).min(slices.first()?.0),
            last.unwrap_or(i64::MIN).max(slices.last()?.1),
        );
        let recorded = slices
            .iter()
            .map(|(start, end)| end.saturating_sub(*start))
            .fold(0, i64::saturating_add);
        let step = step_name(trace, &nvtx, slices);
        let inside = |window: (i64, i64)| {
            let place = slices.partition_point(|slice| slice.0 <= window.0);
            place > 0 && window.1 <= slices[place - 1].1
        };
        let mut count = None;
        let (units, mut windows) = match step {
            Some(name) => {
                let steps = nvtx.iter().filter(|&&row| ranges.name[row] == name);
                let steps: Vec<(i64, i64)> =
                    steps.map(|&row| (ranges.start[row], end(row))).collect();
                let whole = steps.iter().copied().filter(|&step| inside(step)).collect();
                (steps.len() as u64, whole)
            }
            None => match StepCount::from_repetitions(trace, repetitions, slices, whole) {
                Some((step_count, steps)) => {
                    let all = step_count.estimate().value.round() as u64;
                    count = Some(step_count);
                    (all, steps)
                }
                None => (slices.len() as u64, slices.to_vec()),
            },
        };
        windows.sort_unstable();
        (windows.len() >= 2).then_some(Self {
            step,
            count,
            units,
            windows,
            whole,
            recorded,
        })
    }

    /// The unit that a moment lies in.
    fn unit_at(&self, at: i64) -> Option<usize> {
        let place = self.windows.partition_point(|window| window.0 <= at);
        let unit = place.checked_sub(1)?;
        (at <= self.windows[unit].1).then_some(unit)
    }

    /// Whether what is launched there belongs to the units.
    fn launches_units(&self, source: LaunchSource) -> bool {
        let steps = self.count.as_ref().and_then(|count| count.source);
        steps.is_none_or(|steps| steps == source)
    }

    /// What the whole holds, by what each unit holds.
    fn scale_to_whole(&self, units: &[f64]) -> Option<Estimate> {
        let sampled = units.len() as f64;
        if let Some(count) = &self.count {
            return count.estimate_total(units);
        }
        let (value, half) = if self.step.is_some() {
            let summary = RepeatSummary::from_values(units)?;
            let all = self.units as f64;
            let unseen = (1.0 - sampled / all).max(0.0).sqrt();
            (all * summary.mean, all * summary.ci95_half_width? * unseen)
        } else {
            let lengths: Vec<f64> = self
                .windows
                .iter()
                .map(|(start, end)| end.saturating_sub(*start) as f64)
                .collect();
            let length: f64 = lengths.iter().sum();
            let rate = units.iter().sum::<f64>() / length;
            let residuals: Vec<f64> = units
                .iter()
                .zip(&lengths)
                .map(|(unit, length)| unit - rate * length)
                .collect();
            let whole = self.whole.1.saturating_sub(self.whole.0) as f64;
            let unseen = (1.0 - length / whole).max(0.0).sqrt();
            let half = RepeatSummary::from_values(&residuals)?.ci95_half_width? * unseen;
            (rate * whole, half * whole / (length / sampled))
        };
        Some(Estimate::around(value, half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llmprof_record::trace::{Host, HostKind, Kernel, Range, TraceBuilder};

    /// Steps of 10 ms with `kernels(step)` kernels of 1 µs each; every fifth is a slice.
    fn trace(with_ranges: bool, kernels: impl Fn(i64) -> i64) -> Trace {
        const MS: i64 = 1_000_000;
        let mut builder = TraceBuilder::default();
        let (name, slice) = (builder.intern("decode_step"), builder.intern("slice"));
        let gemms: Vec<StrId> = (0..16)
            .map(|gemm| builder.intern(&format!("gemm_{gemm}")))
            .collect();
        let thread = builder.thread(1, 1);
        let mut correlation = 0_u32;
        for step in 0..100 {
            let start = step * 10 * MS;
            if with_ranges {
                builder.ranges.push(Range {
                    start,
                    duration: 9 * MS,
                    name,
                    thread,
                    kind: RangeKind::NVTX,
                    ..Range::default()
                });
            }
            if step % 5 != 0 {
                continue;
            }
            builder.ranges.push(Range {
                start: start - 10,
                duration: 9 * MS + 20,
                name: slice,
                kind: RangeKind::CAPTURE,
                ..Range::default()
            });
            for kernel in 0..kernels(step) {
                correlation += 1;
                let at = start + kernel * 1000;
                // Without ranges in no order, so that no pattern shows steps.
                let gemm = if with_ranges {
                    0
                } else {
                    correlation.wrapping_mul(2_654_435_761) >> 28
                };
                builder.hosts.push(Host {
                    start: at,
                    duration: 500,
                    thread,
                    kind: HostKind::RUNTIME,
                    correlation,
                    ..Host::default()
                });
                // The last ones run after the step has ended.
                builder.kernels.push(Kernel {
                    start: at + 9 * MS,
                    duration: 1000,
                    name: gemms[gemm as usize],
                    correlation,
                    ..Kernel::default()
                });
            }
        }
        builder
            .metadata
            .insert("slices".to_owned(), "true".to_owned());
        builder.finish()
    }

    #[test]
    fn steps_that_are_alike_give_the_whole_exactly() {
        let scaled = scale_slices(&trace(true, |_| 40)).unwrap();
        assert_eq!(scaled.step.as_deref(), Some("decode_step"));
        assert_eq!((scaled.units, scaled.sampled), (100, 20));
        let exact = |value: f64| Estimate {
            value,
            low: value,
            high: value,
        };
        assert_eq!(scaled.kernels, exact(4000.0));
        assert_eq!(scaled.kernel_time_ns, exact(4e6));
        assert_eq!(scaled.by_kernel.len(), 1);
    }

    #[test]
    fn an_interval_holds_what_all_steps_hold() {
        // Steps 0, 5, 10… have 30 or 50 kernels in turn; by hand: x̄ = 40, s = 10.26, t₀.₉₇₅(19) = 2.093, n = 20, N = 100:
        // half = 100 × 2.093 × 10.26 × √0.8 ÷ √20 = 429.
        let scaled =
            scale_slices(&trace(true, |step| if step % 10 == 0 { 30 } else { 50 })).unwrap();
        assert_eq!(scaled.kernels.value, 4000.0);
        let half = scaled.kernels.high - scaled.kernels.value;
        assert!((half - 429.4).abs() < 1.0, "{half}");
        assert!(scaled.kernels.low < 4000.0);
    }

    #[test]
    fn without_ranges_and_steps_time_scales() {
        let scaled = scale_slices(&trace(false, |_| 40)).unwrap();
        assert_eq!((&scaled.step, &scaled.pattern), (&None, &None));
        assert_eq!((scaled.units, scaled.sampled), (20, 20));
        // 20 slices of 9.00002 ms in 959.00001 ms: the first begins at 0, the last ends at 959 ms.
        let expected = 40.0 / 9.000_02 * 959.000_02;
        assert!(
            (scaled.kernels.value / expected - 1.0).abs() < 1e-6,
            "{:?}",
            scaled.kernels
        );
    }

    #[test]
    fn a_trace_without_slices_needs_no_scaling() {
        let mut whole = trace(true, |_| 1);
        whole.metadata.clear();
        assert!(scale_slices(&whole).is_none());
    }
}
