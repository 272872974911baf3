//! Runs that were sampled in slices to keep within an overhead budget.

use llmprof_units::{Count, Nanos, Percent, Times};

use crate::analyzed::{Analysis, BetweenSlices, Estimate, PhaseSource, RecordedPart, ScaledTrace};

/// What slices say; nothing where all of the time was recorded.
pub(crate) fn scaled_totals(analysis: &Analysis) -> Option<&ScaledTrace> {
    analysis.timeline.as_ref()?.scaled.as_ref()
}

/// The sentences for the summary.
pub fn lines(analysis: &Analysis) -> Vec<String> {
    let of_slices = |scaled: &ScaledTrace| {
        let mut lines = vec![basis(scaled, &analyzed(analysis, scaled))];
        lines.extend(totals(scaled));
        lines.extend(overhead(analysis));
        lines
    };
    scaled_totals(analysis).map(of_slices).unwrap_or_default()
}

/// What the sample is: how much of the time, and of which steps.
fn basis(scaled: &ScaledTrace, analyzed: &str) -> String {
    let (recorded, whole) = (scaled.recorded_ns, scaled.whole_ns);
    let share = Percent(recorded.0 as f64 / whole.0.max(1) as f64);
    let sample = match (&scaled.step, &scaled.pattern) {
        (Some(step), _) => format!(
            "{} of {} ranges `{step}` recorded whole",
            scaled.sampled, scaled.units
        ),
        (None, Some(pattern)) => format!(
            "{} of about {} steps by launch pattern recorded whole",
            scaled.sampled,
            number(&pattern.steps)
        ),
        (None, None) => format!("{}, scaled by time", Count(scaled.sampled, "slice")),
    };
    format!("Sampled {share} of the recording ({recorded} of {whole}): {sample}{analyzed}.")
}

/// How many of the steps that were recorded whole the tables are of, where those are fewer: `; 24 analyzed, the first is warm-up`.
fn analyzed(analysis: &Analysis, scaled: &ScaledTrace) -> String {
    let traced = analysis
        .phases
        .iter()
        .filter_map(|phase| phase.traced.as_ref());
    let sampled: Vec<_> = traced.filter(|traced| traced.recorded.is_some()).collect();
    let [phase] = sampled.as_slice() else {
        return String::new();
    };
    let left_out = phase.instances.iter().filter(|one| one.left_out).count() as u64;
    let steps = phase.recorded.and_then(|part| part.steps);
    let kept = steps.unwrap_or(phase.instances.len() as u64 - left_out);
    let is_known = scaled.step.is_some() || scaled.pattern.is_some();
    if !is_known || kept >= scaled.sampled {
        return String::new();
    }
    let by_range = analysis
        .timeline
        .as_deref()
        .is_some_and(|timeline| timeline.phase_source == PhaseSource::Annotation);
    let why = if kept + left_out == scaled.sampled {
        ", the first is warm-up"
    } else if by_range {
        ", those whose range was recorded whole"
    } else {
        ""
    };
    format!("; {kept} analyzed{why}")
}

/// Kernels and their time over the whole, and in a step where launch patterns show steps.
fn totals(scaled: &ScaledTrace) -> Vec<String> {
    let whole = match (&scaled.step, &scaled.pattern) {
        (Some(step), _) => format!("all `{step}`"),
        (None, Some(_)) => "the recording, work outside steps included".to_owned(),
        (None, None) => "the whole time".to_owned(),
    };
    let mut lines = vec![format!(
        "Over {whole}: {}, kernel time {} (95 % interval).",
        kernels(&scaled.kernels),
        interval(&scaled.kernel_time_ns)
    )];
    lines.extend(scaled.pattern.as_ref().map(|pattern| {
        format!(
            "Per step: {}, kernel time {}.",
            kernels(&pattern.kernels),
            interval(&pattern.kernel_time_ns)
        )
    }));
    lines
}

/// What recording did to what it recorded, by phase; what is not known where nothing ran unrecorded that could tell.
fn overhead(analysis: &Analysis) -> Vec<String> {
    if analysis.latency.measured_in.is_some() {
        return Vec::new();
    }
    let told = analysis.phases.iter().filter_map(|phase| {
        let steps = phase.traced.as_ref()?.between_slices.as_ref()?;
        Some(format!(
            "Profiling overhead inside slices: {}.",
            between(phase.name(), steps)
        ))
    });
    let mut lines: Vec<String> = told.collect();
    if lines.is_empty() {
        lines.push(format!(
            "Profiling overhead inside slices is unknown: no range marks steps between slices. {RECORDING_SLOWS}, so GPU idle time is \
             an upper bound."
        ));
    }
    lines
}

/// `decode 1.17× (median step 52.2 ms in 24 recorded steps, 44.8 ms in 133 between slices)`.
pub(crate) fn between(phase: &str, steps: &BetweenSlices) -> String {
    format!(
        "{phase} {} (median step {} in {}, {} in {} between slices)",
        Times(steps.ratio()),
        steps.recorded_ns,
        Count(steps.recorded, "recorded step"),
        steps.plain_ns,
        steps.plain
    )
}

/// The row "decode: recorded / not attached" of docs/record.md.
pub(super) const RECORDING_SLOWS: &str = "Recording slowed a program of short kernels (Qwen2.5-0.5B, eager, batch 1) 1.4× on an H200 (docs/record.md)";

/// A time with its interval.
pub(crate) fn interval(estimate: &Estimate) -> String {
    with_ends(estimate, "", |value| {
        Nanos(value.round() as i64).to_string()
    })
}

/// A number with its interval.
pub(crate) fn number(estimate: &Estimate) -> String {
    with_ends(estimate, "", |value| format!("{value:.0}"))
}

fn kernels(estimate: &Estimate) -> String {
    with_ends(estimate, " kernels", |value| format!("{value:.0}"))
}

/// `331 ms (330 ms to 332 ms)`; an interval that rounds to its middle is left out.
fn with_ends(estimate: &Estimate, noun: &str, text: impl Fn(f64) -> String) -> String {
    let [value, low, high] = [estimate.value, estimate.low, estimate.high].map(text);
    if low == high {
        format!("{value}{noun}")
    } else {
        format!("{value}{noun} ({low} to {high})")
    }
}

/// The part of a phase that was recorded: `3 of 9 steps`; without steps, how many of its intervals.
pub(crate) fn part(part: &RecordedPart, intervals: usize) -> String {
    match (part.steps, part.of_steps) {
        (Some(steps), Some(all)) => format!("{steps} of {all} steps"),
        (Some(steps), None) => Count(steps, "whole step").to_string(),
        (None, _) => {
            let share = part.time_ns.0 as f64 / part.of_ns.0.max(1) as f64;
            let intervals = Count(intervals as u64, "whole interval");
            format!("{} of {} in {intervals}", Percent(share), part.of_ns)
        }
    }
}

pub const BASIS: &str = "The run was sampled in slices to keep within its overhead budget. Time between slices was not seen: it \
                         belongs to no phase and is not idle. These are estimates for the whole run with 95 % confidence intervals; \
                         all other tables cover the slices only.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_steps_has_its_interval() {
        let estimate = |value: f64, half: f64| Estimate {
            value,
            low: value - half,
            high: value + half,
        };
        let scaled = ScaledTrace {
            step: Some("decode_step".to_owned()),
            pattern: None,
            units: 80,
            sampled: 20,
            recorded_ns: Nanos(25),
            whole_ns: Nanos(100),
            kernels: estimate(4000.0, 10.0),
            kernel_time_ns: estimate(4e6, 1e6),
            by_kernel: Vec::new(),
        };
        assert_eq!(
            basis(&scaled, ""),
            "Sampled 25.0 % of the recording (25 ns of 100 ns): 20 of 80 ranges `decode_step` recorded whole."
        );
        let time = |ms: i64| Nanos(ms * 1_000_000);
        assert_eq!(
            totals(&scaled),
            [format!(
                "Over all `decode_step`: 4000 kernels (3990 to 4010), kernel time {} ({} to {}) (95 % interval).",
                time(4),
                time(3),
                time(5)
            )]
        );
        assert_eq!(number(&estimate(160_960.0, 0.0)), "160960");
    }

    #[test]
    fn recorded_steps_stand_beside_those_between_slices() {
        let steps = BetweenSlices {
            plain: 133,
            plain_ns: Nanos(40_000_000),
            recorded: 24,
            recorded_ns: Nanos(46_000_000),
        };
        assert_eq!(
            between("decode", &steps),
            "decode 1.15× (median step 46 ms in 24 recorded steps, 40 ms in 133 between slices)"
        );
    }

    #[test]
    fn how_many_steps_there_are_in_all_may_not_be_known() {
        let of = |steps, of_steps| {
            let recorded = RecordedPart {
                steps,
                of_steps,
                time_ns: Nanos(1_000),
                of_ns: Nanos(4_000),
            };
            part(&recorded, 10)
        };
        assert_eq!(of(Some(3), Some(9)), "3 of 9 steps");
        assert_eq!(of(Some(1), None), "1 whole step");
        assert_eq!(of(None, None), "25.0 % of 4 µs in 10 whole intervals");
    }
}
