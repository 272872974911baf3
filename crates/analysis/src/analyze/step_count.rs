//! Whether a trace holds as many steps as the workload says.

use llmprof_record::issue::Issue;
use llmprof_theory::{Model, Workload};
use llmprof_units::Nanos;

use crate::analyze::phase_intervals::TracePhase;
use crate::steps::StepPatterns;
use llmprof_record::run::RunPhase;

/// Says where decode is counted with the workload's steps, since no range shows any, but the pattern of launches shows
/// another number of them.
///
/// A pattern may also be a layer: as many as all layers of the workload's steps are no contradiction. Nor are a few steps that
/// are unlike the others.
pub(crate) fn issue(
    found: &[TracePhase],
    patterns: Option<&StepPatterns>,
    model: &Model,
    workload: &Workload,
) -> Option<Issue> {
    let assumed = workload.decode_steps();
    let layers = u64::from(model.decoder.as_ref()?.layer_count());
    let is_other = |shown: u64| {
        shown > 0
            && shown.abs_diff(assumed) > (assumed / 20).max(1)
            && shown != assumed.saturating_mul(layers)
    };
    let patterns = &patterns?.patterns;
    let decode = found.iter().filter(|phase| phase.phase == RunPhase::Decode);
    let shown = decode
        .flat_map(|phase| &phase.intervals)
        .filter(|interval| {
            let counted: u64 = interval.passes.iter().map(|pass| pass.steps).sum();
            interval.steps.is_empty() && counted == assumed
        })
        .filter_map(|interval| {
            let inside = |start: &&Nanos| (interval.start..interval.end).contains(&start.0);
            let steps = patterns
                .iter()
                .map(|pattern| pattern.start_ns.iter().filter(inside).count() as u64);
            steps.max()
        })
        .find(|&shown| is_other(shown))?;
    Some(
        Issue::warning("run.other_steps")
            .with("steps", assumed)
            .with("shown", shown)
            .with("new_tokens", shown + 1),
    )
}
