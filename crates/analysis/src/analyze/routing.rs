//! How many experts the calls of a mixture reached.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::kernel_name::Category;
use llmprof_record::run::RunPhase;
use llmprof_record::trace::Trace;
use llmprof_theory::{Kind, Routing, Workload};
use rustc_hash::FxHashMap;

use crate::analyze::phase_intervals::{PhaseInterval, TracePhase};
use crate::graphs::is_of_experts;
use crate::matching::lanes::WorkLane;
use crate::roofline::{ExpertsRead, Theory};
use crate::thresholds::ROOFLINE_TOLERANCE_RATIO;
use crate::trace::Structure;

/// The mean number of distinct experts that the calls of each phase reached, where the recorder counts them.
pub(super) fn measured_routing(
    workload: &Workload,
    trace: &Trace,
    structure: &Structure,
) -> Routing {
    if workload.routing != Routing::Uniform {
        return workload.routing;
    }
    let calls = &trace.operator_calls;
    let mut sums: FxHashMap<&str, (f64, f64)> = FxHashMap::default();
    for row in 0..trace.hosts.len() {
        let external = trace.hosts.external[row];
        let at = calls.external.partition_point(|&known| known < external);
        let experts = match calls.external.get(at) {
            Some(&known) if known == external => calls.experts[at],
            _ => 0,
        };
        let window = structure.phases.at_launch(trace.hosts.start[row]);
        if let Some(window) = window.filter(|_| experts > 0) {
            let name = structure.phases.windows[window].name;
            let sum = sums.entry(&structure.phases.names[name]).or_default();
            sum.0 += f64::from(experts);
            sum.1 += 1.0;
        }
    }
    let mean = |phase: RunPhase| {
        let &(sum, count) = sums.get(phase.name())?;
        Some(sum / count)
    };
    match (mean(RunPhase::Prefill), mean(RunPhase::Decode)) {
        (Some(prefill), Some(decode)) => Routing::Measured { prefill, decode },
        // Without decode steps the second figure is used nowhere.
        (Some(prefill), None) if workload.decode_steps() == 0 => Routing::Measured {
            prefill,
            decode: 0.0,
        },
        _ => Routing::Uniform,
    }
}

/// Calls of the experts of one step or pass, each layer by itself.
struct ExpertCalls {
    calls: u64,
    /// Experts that each call is expected to reach.
    expected: f64,
    /// Bytes of the weights of one.
    bytes: f64,
}

/// How many experts the calls of some intervals read.
#[derive(Default)]
struct ReachedExperts {
    calls: u64,
    /// Calls whose kernels were too fast for the experts that are expected.
    faster: u64,
    expected: f64,
    at_most: f64,
}

/// Phases whose expert kernels were faster than the bandwidth lets them read as many experts as uniform routing expects: with the most
/// that they can have read.
///
/// Kernels are those whose names say so. They are dealt out to layers where each has the same number of them, two at least: the
/// products before and after the activation.
pub(super) fn fewer_experts(
    theory: &Theory<'_>,
    trace_phases: &[TracePhase],
    trace: &Trace,
    lanes: &[WorkLane],
) -> (Vec<ExpertsRead>, Vec<Issue>) {
    let (Some(roof), [lane]) = (theory.roof, lanes) else {
        return Default::default();
    };
    if theory.workload.routing != Routing::Uniform || lane.device.is_none() {
        return Default::default();
    }
    let bandwidth = roof.device().memory_bandwidth().0;
    let mut experts: Vec<ExpertsRead> = Vec::new();
    let mut issues = Vec::new();
    for phase in trace_phases {
        let mut sum = ReachedExperts::default();
        for interval in &phase.intervals {
            let Some(calls) = expert_calls(theory, phase.phase, interval) else {
                continue;
            };
            let times = kernel_times(trace, lane, interval, calls.calls);
            sum.add_calls(&calls, times.as_deref(), bandwidth);
        }
        if sum.faster == 0 {
            continue;
        }
        let mean = |value: f64| value / sum.calls as f64;
        experts.push(ExpertsRead {
            phase: phase.phase,
            at_most: mean(sum.at_most),
        });
        issues.push(
            Issue::info(IssueCode::RunFewerExperts)
                .with("phase", phase.phase.name())
                .with("layers", sum.calls)
                .with("faster", sum.faster)
                .with("expected", round_to_tenths(mean(sum.expected)))
                .with("at_most", round_to_tenths(mean(sum.at_most))),
        );
    }
    (experts, issues)
}

fn round_to_tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

impl ReachedExperts {
    fn add_calls(&mut self, calls: &ExpertCalls, times: Option<&[i64]>, bandwidth: f64) {
        self.calls += calls.calls;
        self.expected += calls.expected * calls.calls as f64;
        let Some(times) = times else {
            self.at_most += calls.expected * calls.calls as f64;
            return;
        };
        for &time in times {
            let most = time as f64 * 1e-9 * bandwidth / calls.bytes;
            if most * ROOFLINE_TOLERANCE_RATIO < calls.expected {
                self.faster += 1;
                self.at_most += most;
            } else {
                self.at_most += calls.expected;
            }
        }
    }
}

/// Absent where an interval has no experts, or different ones.
fn expert_calls(
    theory: &Theory<'_>,
    phase: RunPhase,
    interval: &PhaseInterval,
) -> Option<ExpertCalls> {
    let weights = |workload: &Workload| {
        let mut calls: Vec<(u64, f64)> = Vec::new();
        let theory = Theory {
            workload,
            ..*theory
        };
        theory.lower_phase(phase, interval.work(), &mut |operator| {
            if operator.kind == Kind::Experts {
                let bytes = operator.traffic.weights as f64 / operator.steps.max(1) as f64;
                calls.push((operator.call_count(), bytes));
            }
        });
        calls
    };
    let uniform = weights(theory.workload);
    let one = weights(&Workload {
        routing: Routing::Measured {
            prefill: 1.0,
            decode: 1.0,
        },
        ..*theory.workload
    });
    let (&(_, bytes), &(_, each)) = uniform.first().zip(one.first())?;
    let near = |a: f64, b: f64| (a - b).abs() <= a * 1e-6;
    let is_one = uniform.iter().all(|(_, other)| near(bytes, *other))
        && one.iter().all(|(_, other)| near(each, *other));
    (is_one && each > 0.0).then(|| ExpertCalls {
        calls: uniform.iter().map(|(calls, _)| calls).sum(),
        expected: bytes / each,
        bytes: each,
    })
}

/// Time of the expert kernels of each layer and step, ns.
fn kernel_times(
    trace: &Trace,
    lane: &WorkLane,
    interval: &PhaseInterval,
    calls: u64,
) -> Option<Vec<i64>> {
    let items = lane.items[lane.items_around(interval.window())].iter();
    let times: Vec<i64> = items
        .filter(|item| item.category == Category::Gemm && is_of_experts(trace.text(item.name)))
        .filter_map(|item| item.time_inside(interval.window()))
        .collect();
    let each = times.len().checked_div(usize::try_from(calls).ok()?)?;
    let is_dealt = each >= 2 && each as u64 * calls == times.len() as u64;
    is_dealt.then(|| times.chunks(each).map(|times| times.iter().sum()).collect())
}
