//! Whether a trace holds as many steps as the workload says.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_theory::{Model, Workload};
use llmprof_units::Nanos;

use crate::analyze::phase_intervals::TracePhase;
use crate::steps::StepPatterns;
use llmprof_record::run::RunPhase;

/// Counts decode by the steps that the pattern of launches shows, where no range shows any and the workload says another
/// number. `stated` are the keys that the user set.
///
/// A pattern may also be a layer: as many as all layers of the workload's steps are no contradiction. Nor are a few steps that
/// are unlike the others.
pub(crate) fn follow_patterns(
    trace_phases: &mut [TracePhase],
    patterns: Option<&StepPatterns>,
    model: &Model,
    workload: &Workload,
    stated: &[String],
) -> Option<Issue> {
    let assumed = workload.decode_steps();
    let layers = u64::from(model.decoder.as_ref()?.layer_count());
    let is_other = |shown: u64| {
        shown > 0
            && shown.abs_diff(assumed) > (assumed / 20).max(1)
            && shown != assumed.saturating_mul(layers)
    };
    let patterns = &patterns?.patterns;
    let decode = trace_phases
        .iter_mut()
        .filter(|phase| phase.phase == RunPhase::Decode);
    let mut other = None;
    for interval in decode.flat_map(|phase| &mut phase.intervals) {
        let counted: u64 = interval.passes.iter().map(|pass| pass.steps).sum();
        if !interval.steps.is_empty() || counted != assumed {
            continue;
        }
        let inside = |start: &Nanos| (interval.start..interval.end).contains(&start.0);
        let steps = patterns.iter().map(|pattern| {
            let steps = pattern.start_ns.iter().zip(&pattern.step_ns);
            let own = steps.filter(|(start, _)| inside(start));
            own.map(|(_, length)| length.0).collect::<Vec<i64>>()
        });
        let Some(steps) = steps.max_by_key(Vec::len) else {
            continue;
        };
        let shown = steps.len() as u64;
        if let (true, Some(pass)) = (is_other(shown), interval.passes.first_mut()) {
            pass.steps = shown;
            interval.passes.truncate(1);
            interval.steps = steps;
            other = Some(shown);
        }
    }
    let is_stated = stated.iter().any(|key| key == "infer.max_new_tokens");
    let issue = if is_stated {
        Issue::warning(IssueCode::RunOtherSteps)
    } else {
        Issue::info(IssueCode::RunOtherSteps)
    };
    Some(issue.with("steps", assumed).with("shown", other?))
}
