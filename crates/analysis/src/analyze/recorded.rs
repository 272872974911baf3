//! How much of each phase was recorded, where only slices were.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::run::{RunPhase, RunRecord};
use llmprof_record::trace::Trace;
use llmprof_units::Nanos;

use crate::analyze::phase_intervals::{PhaseInterval, TracePhase, run_phase};
use crate::labels::{STEP, ranges_of};
use crate::latency::plain_wall;
use crate::phase_facts::RecordedPart;
use crate::phases::Phases;
use crate::thresholds::SAMPLED_STEPS_MIN;

/// The part of a phase; nothing where all of it was recorded. `is_judged` says which intervals are not left out.
pub(super) fn recorded_part(
    trace: &Trace,
    phases: &Phases,
    phase: &TracePhase,
    is_judged: impl Fn(usize) -> bool,
) -> Option<RecordedPart> {
    let own = Some((phase.phase, phase.label.clone()));
    let of = spans_by_name(phases)
        .filter(|(name, _)| run_phase(phases, name) == own)
        .map(|(_, span)| span)
        .fold(0, i64::saturating_add);
    let recorded = total_length(phase.intervals.iter());
    let judged = || {
        let all = phase.intervals.iter().enumerate();
        all.filter(|(number, _)| is_judged(*number))
            .map(|(_, one)| one)
    };
    let steps: usize = judged().map(|one| one.steps.len()).sum();
    let steps = (phase.phase == RunPhase::Decode && steps > 0).then_some(steps as u64);
    (recorded < of).then(|| RecordedPart {
        steps,
        of_steps: steps.and(Some(ranges_of(trace, STEP).len() as u64).filter(|&all| all > 0)),
        time_ns: Nanos(total_length(judged())),
        of_ns: Nanos(of),
    })
}

/// An issue where the part has too few steps.
pub(super) fn too_small(part: &RecordedPart, name: &str) -> Option<Issue> {
    let steps = part.steps.filter(|steps| *steps < SAMPLED_STEPS_MIN)?;
    let issue = Issue::warning(IssueCode::RunFewSteps).with("phase", name);
    let issue = issue.with("steps", steps);
    Some(match part.of_steps {
        Some(all) => issue.with("of_steps", all),
        None => issue,
    })
}

fn total_length<'s>(intervals: impl Iterator<Item = &'s PhaseInterval>) -> i64 {
    intervals
        .map(PhaseInterval::length)
        .fold(0, i64::saturating_add)
}

/// The names of phases with their time in all; nothing where all of the time was recorded.
fn spans_by_name(phases: &Phases) -> impl Iterator<Item = (&str, i64)> {
    let spans = phases.spans.iter().flatten();
    let named = phases.names.iter().zip(spans);
    named.map(|(name, span)| (name.as_str(), *span))
}

/// Names the phases that slices show nothing of, or not enough to compare it with anything.
pub(super) fn unrecorded_phases(phases: &Phases, trace_phases: &[TracePhase]) -> Vec<Issue> {
    let issue = |(number, (name, span)): (usize, (&str, i64))| {
        let (phase, label) =
            run_phase(phases, name).filter(|(phase, _)| *phase != RunPhase::Load)?;
        let is_found = |known: &TracePhase| known.phase == phase && known.label == label;
        if span == 0 || trace_phases.iter().any(is_found) {
            return None;
        }
        let windows = phases.windows.iter().filter(|window| window.name == number);
        let time = windows
            .map(|window| window.end.saturating_sub(window.start))
            .fold(0, i64::saturating_add);
        let issue = Issue::warning(IssueCode::RunUnrecordedPhase).with("phase", name);
        Some(if time > 0 {
            issue.with("share", time as f64 / span as f64)
        } else {
            issue
        })
    };
    spans_by_name(phases)
        .enumerate()
        .filter_map(issue)
        .collect()
}

/// Seconds that phases without any record take in passes without capture. A gain in other phases leaves this part of the run as
/// it is.
pub(super) fn unrecorded_seconds(trace_phases: &[TracePhase], record: &RunRecord) -> f64 {
    [
        RunPhase::Vision,
        RunPhase::Encoder,
        RunPhase::Prefill,
        RunPhase::Decode,
        RunPhase::Mixed,
    ]
    .into_iter()
    .filter(|phase| !trace_phases.iter().any(|known| known.phase == *phase))
    .filter_map(|phase| plain_wall(record, phase))
    .map(Nanos::seconds)
    .sum()
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Range, RangeKind, TraceBuilder};

    use super::*;
    use crate::analyze::phase_intervals::{leave_out_parts, phase_intervals};
    use crate::trace::{Said, Structure};

    /// Prefill and six steps of decode, of which some time was recorded.
    fn trace(slices: &[(i64, i64)]) -> Trace {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        let mut range = |name: &str, (start, end): (i64, i64), kind: RangeKind| {
            let name = builder.intern(name);
            builder.ranges.push(Range {
                start,
                duration: end - start,
                name,
                kind,
                thread,
                ..Range::default()
            });
        };
        range("prefill", (0, 100), RangeKind::NVTX);
        range("decode", (100, 165), RangeKind::NVTX);
        for step in 0..6 {
            let start = 100 + 11 * step;
            range(STEP, (start, start + 10), RangeKind::NVTX);
        }
        for &slice in slices {
            range("slice", slice, RangeKind::CAPTURE);
        }
        let metadata = &mut builder.metadata;
        metadata.insert("slices".to_owned(), "true".to_owned());
        builder.finish()
    }

    /// The phases that were found, with the steps of the part that was recorded, and the issues.
    #[expect(clippy::type_complexity, reason = "a test reads it at once")]
    fn judged(
        slices: &[(i64, i64)],
    ) -> (
        Vec<(&'static str, Option<(Option<u64>, Option<u64>)>)>,
        Vec<Issue>,
    ) {
        let trace = trace(slices);
        let structure = Structure::from_trace(&trace, &Said::default());
        let mut phases = phase_intervals(&trace, &structure);
        leave_out_parts(&mut phases, true, true, &mut Vec::new());
        let mut issues = unrecorded_phases(&structure.phases, &phases);
        let parts = phases.iter().map(|phase| {
            let part = recorded_part(&trace, &structure.phases, phase, |_| true);
            issues.extend(part.and_then(|part| too_small(&part, phase.phase.name())));
            let steps = part.map(|part| (part.steps, part.of_steps));
            (phase.phase.name(), steps)
        });
        let parts = parts.collect();
        (parts, issues)
    }

    #[test]
    fn steps_inside_slices_are_counted_and_the_rest_is_named() {
        let (parts, issues) = judged(&[(105, 130), (131, 170)]);
        // The first step is cut; the others lie whole inside of slices, but for the third, which both hold a part of.
        assert_eq!(parts, [("decode", Some((Some(4), Some(6))))]);
        let prefill = Issue::warning(IssueCode::RunUnrecordedPhase).with("phase", "prefill");
        assert_eq!(issues, std::slice::from_ref(&prefill));
        let (parts, issues) = judged(&[(50, 111)]);
        assert_eq!(parts, [("decode", Some((Some(1), Some(6))))]);
        let few = Issue::warning(IssueCode::RunFewSteps).with("phase", "decode");
        let few = few.with("steps", 1).with("of_steps", 6);
        assert_eq!(issues, [prefill.with("share", 0.5), few]);
    }

    #[test]
    fn what_was_recorded_whole_is_no_issue() {
        let (parts, issues) = judged(&[(0, 200)]);
        assert_eq!(parts, [("prefill", None), ("decode", None)]);
        assert!(issues.is_empty(), "{issues:?}");
    }
}
