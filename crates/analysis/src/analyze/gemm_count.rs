//! Steps with fewer GEMMs than the model has: only a part of them was recorded, or another model ran.

use crate::thresholds::{GEMMS_NAMED_MIN_SHARE, MERGED_LINEARS_MAX};
use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::kernel_name::Category;
use llmprof_record::run::RunPhase;
use llmprof_theory::Kind;

use crate::analyze::phase_intervals::{PhaseInterval, TracePhase};
use crate::matching::lanes::WorkLane;
use crate::roofline::Theory;

/// Takes the work out of intervals that have fewer GEMM kernels than the operators of the model need.
pub(super) fn leave_fewer_gemms(
    trace_phases: &mut [TracePhase],
    theory: &Theory<'_>,
    lanes: &[WorkLane],
) -> Vec<Issue> {
    let [lane] = lanes else { return Vec::new() };
    if lane.device.is_none() || lane.is_exact {
        return Vec::new();
    }
    let mut issues = Vec::new();
    for phase in trace_phases.iter_mut() {
        let mut fewer = None;
        for interval in &mut phase.intervals {
            let needed = needed_gemms(theory, phase.phase, interval);
            let Some(gemms) = gemm_kernels(lane, interval).filter(|_| needed > 0) else {
                continue;
            };
            if (gemms as f64) < GEMMS_NAMED_MIN_SHARE * needed as f64 {
                fewer.get_or_insert((gemms, needed));
                interval.step = None;
                interval.passes.clear();
                interval.is_assumed = false;
            }
        }
        issues.extend(fewer.map(|(gemms, needed)| {
            Issue::warning(IssueCode::InvariantFewerGemms)
                .with("phase", phase.phase.name())
                .with("found", gemms)
                .with("needed", needed)
        }));
    }
    issues
}

/// GEMM kernels of an interval; nothing where a graph was recorded without its kernels.
fn gemm_kernels(lane: &WorkLane, interval: &PhaseInterval) -> Option<u64> {
    let window = interval.window();
    let inside = lane.items[lane.items_around(window)].iter();
    let mut gemms = 0;
    for item in inside.filter(|item| item.time_inside(window).is_some()) {
        if item.whole_graph {
            return None;
        }
        gemms += u64::from(matches!(item.category, Category::Gemm | Category::Gemv));
    }
    Some(gemms)
}

/// The least GEMMs of an interval: one for each run of linear operators that read the same input, one for the experts of a layer.
fn needed_gemms(theory: &Theory<'_>, phase: RunPhase, interval: &PhaseInterval) -> u64 {
    if phase.is_before_decoder() {
        return 0;
    }
    let mut needed = 0_u64;
    // The width of the input of the last linear operator, and how many read it.
    let mut run: Option<(u64, u64)> = None;
    theory.lower_phase(
        phase,
        interval.work(),
        &mut |operator| match operator.kind {
            Kind::Linear => {
                let width = operator.shape.k;
                let merged =
                    run.filter(|(known, count)| *known == width && *count < MERGED_LINEARS_MAX);
                run = Some((width, merged.map_or(1, |(_, count)| count + 1)));
                if merged.is_none() {
                    needed = needed.saturating_add(operator.call_count());
                }
            }
            Kind::Experts => {
                run = None;
                needed = needed.saturating_add(operator.call_count());
            }
            _ => run = None,
        },
    );
    needed
}
