//! What removing a cause saves.

use llmprof_units::{Nanos, Percent};

use crate::analyzed::{Analysis, Cause, Conclusion, PhaseGain};

/// A ratio from here on says less than the two times it is made of.
pub(crate) const RATIO_MAX: f64 = 10.0;

/// Phases differ from their replay by at most this for gains to be stated, as the analysis has it.
const REPLAY_ERROR_MAX: f64 = 0.03;

/// Below this part of a phase the profiler's cost is not worth a line.
const PROFILER_SHARE_MIN: f64 = 0.02;

pub(crate) fn gain(cause: &Cause) -> String {
    if cause.gains.is_empty() && cause.kind.is_seen_once() {
        return "No gain is stated: it happened once, and the trace does not show whether it comes again."
            .to_owned();
    }
    if cause.gains.is_empty() {
        return "No gain is stated: the replay does not come within 3 % of the recorded phase."
            .to_owned();
    }
    let phases: Vec<String> = cause
        .gains
        .iter()
        .map(|gain| of_phase(gain, cause.gains.len() > 1))
        .collect();
    let mut text = format!("Removing it saves {}.", phases.join("; "));
    if !cause.same_time_as.is_empty() {
        text += " Part of the same time as ";
        text += &cause.same_time_as.join(", ").replace('_', " ");
        text.push('.');
    }
    let hidden: Vec<&str> = cause
        .gains
        .iter()
        .filter(|gain| gain.host_bound_by_profiler)
        .map(PhaseGain::phase_name)
        .collect();
    if !hidden.is_empty() {
        let phases = hidden.join(" and ");
        text += &format!(
            " Only without the profiler: in the recorded {phases} its cost takes as long."
        );
    }
    text
}

/// `8.47 ms of 19.2 ms a step (44.1 %, range 8.0–8.5)`.
fn of_phase(gain: &PhaseGain, is_named: bool) -> String {
    let unit = if gain.steps > 1 {
        format!(" a {}", gain.unit_name())
    } else {
        String::new()
    };
    let name = if is_named {
        format!(" in {}", gain.phase_name())
    } else {
        String::new()
    };
    let differs = gain.recorded_ns.0 - gain.now_ns.0 > gain.now_ns.0 / 20;
    let basis = if differs { " without the profiler" } else { "" };
    if gain.saved_ns.0 <= 0 {
        return format!(
            "up to {} ms of {} ms{unit}{name}{basis} (how much, the trace does not show)",
            ms(gain.high_ns),
            ms(gain.now_ns),
        );
    }
    let ratio = gain.now_ns.0 as f64 / (gain.now_ns.0 - gain.saved_ns.0).max(1) as f64;
    let ratio = if ratio < RATIO_MAX {
        format!(", {ratio:.2}×")
    } else {
        String::new()
    };
    format!(
        "{} ms of {} ms{unit}{name}{basis} ({}{ratio}, range {}–{} ms)",
        ms(gain.saved_ns),
        ms(gain.now_ns),
        Percent(gain.share()),
        ms(gain.low_ns),
        ms(gain.high_ns)
    )
}

/// Three significant digits.
fn ms(time: Nanos) -> String {
    let value = time.0 as f64 / 1e6;
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// What phases take without the profiler, where findings are stated of that and it is not what was recorded.
pub(crate) fn unprofiled_times(analysis: &Analysis) -> Option<String> {
    let gains = || {
        let causes = analysis
            .findings
            .iter()
            .filter_map(|finding| match &finding.conclusion {
                Some(Conclusion::Cause { cause }) => Some(cause),
                _ => None,
            });
        causes.flat_map(|cause| &cause.gains)
    };
    let phases = analysis.replays.iter().filter(|phase| {
        let is_stated =
            gains().any(|gain| (gain.phase, &gain.label) == (phase.phase, &phase.label));
        let profiler_share = 1.0 - phase.plain_ns.0 as f64 / phase.recorded_ns.0.max(1) as f64;
        is_stated && profiler_share.abs() > PROFILER_SHARE_MIN
    });
    let phases: Vec<String> = phases
        .map(|phase| {
            let name = phase.label.as_deref().unwrap_or(phase.phase.name());
            let times = match phase.steps {
                0 | 1 => String::new(),
                steps => format!("{steps} × "),
            };
            let (plain, recorded) = (ms(phase.plain_ns), ms(phase.recorded_ns));
            format!("{name} {times}{plain} ms (recorded: {times}{recorded} ms)")
        })
        .collect();
    (!phases.is_empty()).then(|| {
        format!(
            "Findings are about the time from the first host op of a phase to the end of its GPU work, without the profiler's cost: {}.",
            phases.join(", ")
        )
    })
}

/// How the replay stands to the recording, and what all causes together are worth.
pub(crate) fn replay_notes(analysis: &Analysis) -> Vec<String> {
    let phases = analysis.replays.iter();
    phases
        .map(|phase| {
            let name = phase.label.as_deref().unwrap_or(phase.phase.name());
            let unit = if phase.steps > 1 { " a step" } else { "" };
            let refused = if phase.error.abs() > REPLAY_ERROR_MAX {
                ": above 3 %, so no gain is stated for this phase"
            } else {
                ""
            };
            format!(
                "{name}: {} ms{unit} from its first host op to the end of its GPU work; the replay is off by {:+.1} %{refused}. \
                 Without the profiler's cost, which gains are stated of: {} ms; with all findings removed {} ms.",
                ms(phase.recorded_ns),
                // Adding zero takes the sign from a rounded -0.0.
                (1000.0 * phase.error).round() / 10.0 + 0.0,
                ms(phase.plain_ns),
                ms(phase.without_causes_ns)
            )
        })
        .collect()
}
