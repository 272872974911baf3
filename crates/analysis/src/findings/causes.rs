//! Causes as findings.

use llmprof_units::Nanos;

use crate::causes::{Cause, Diagnosis, PhaseGain};
use crate::findings::conclusion::{Conclusion, Derivation};
use crate::findings::finding::{Confidence, Finding, Gain, GainOf};

/// The causes of a trace as findings, with gains of all replayed phases together.
pub(crate) fn cause_findings(diagnosis: &Diagnosis) -> Vec<Finding> {
    let phases = diagnosis.phases.iter();
    let run: i64 = phases
        .map(|phase| phase.plain_ns.0.saturating_mul(phase.steps as i64))
        .sum();
    let causes = diagnosis.causes.iter();
    causes.map(|cause| cause_finding(cause, run)).collect()
}

fn cause_finding(cause: &Cause, run: i64) -> Finding {
    let first = cause.gains.first();
    let saved: i64 = cause.gains.iter().map(PhaseGain::total_saved).sum();
    // An upper bound alone is no gain to expect.
    let gain = first
        .filter(|first| first.saved_ns.0 > 0)
        .map(|first| Gain {
            of: GainOf::Run,
            factor: run as f64 / (run - saved).max(1) as f64,
            phase_factor: Some(
                first.now_ns.0 as f64 / (first.now_ns.0 - first.saved_ns.0).max(1) as f64,
            ),
            saved_ns: Some(Nanos(saved)),
            derivation: Derivation::Replayed {
                now_ns: first.now_ns,
                after_ns: Nanos(first.now_ns.0 - first.saved_ns.0),
            },
            is_bound: false,
        });
    let conclusion = Conclusion::Cause {
        cause: Box::new(cause.clone()),
    };
    Finding {
        phase: first.map(|gain| gain.phase),
        label: first.and_then(|gain| gain.label.clone()),
        confidence: if gain.is_some() && is_measured(cause) {
            Confidence::High
        } else {
            Confidence::Medium
        },
        gain,
        ..Finding::of_run(conclusion)
    }
}

/// Whether a gain follows from recorded times: not from the time of kernels that did not run, nor with a range that is wide.
fn is_measured(cause: &Cause) -> bool {
    !cause.kind.assumes_new_times() && !cause.gains.iter().any(PhaseGain::is_range)
}
