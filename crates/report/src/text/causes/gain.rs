//! What removing a cause saves.

use llmprof_units::{Nanos, Percent};

use crate::analyzed::{Analysis, Cause, CauseKind, Conclusion, PhaseAnalysis, PhaseGain};

/// A ratio from here on says less than the two times it is made of.
pub(crate) const RATIO_MAX: f64 = 10.0;

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
    if matches!(cause.kind, CauseKind::WorkBeyondModel { .. }) {
        return "No gain is stated: the trace does not show what uses the result.".to_owned();
    }
    if matches!(cause.kind, CauseKind::DevicesInTurn { .. }) {
        return "No gain is stated: the trace does not show whether one GPU needs what another computes."
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
        text += &cause
            .same_time_as
            .join(", ")
            // Programs without tokens compute again, too.
            .replace("recomputed_tokens", "recomputed positions")
            .replace('_', " ");
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
            " Only without the profiler: while it recorded, its cost on the host limited {phases}."
        );
    }
    text
}

/// `8.47 ms of 19.2 ms a step (44.1 %, 1.79×, range 8.02–8.51 ms)`
fn of_phase(gain: &PhaseGain, is_named: bool) -> String {
    let of = if gain.steps > 1 {
        format!(" a {}", gain.unit_name())
    } else {
        String::new()
    };
    let name = if is_named {
        format!(" in {}", gain.phase_name())
    } else {
        String::new()
    };
    let unit = Unit::of(gain.now_ns);
    let differs = unit.number(gain.recorded_ns) != unit.number(gain.now_ns);
    let basis = if differs { " without the profiler" } else { "" };
    let whole = format!("{}{of}{name}{basis}", unit.time(gain.now_ns));
    if gain.saved_ns.0 <= 0 {
        return format!(
            "up to {} of {whole} (how much, the trace does not show)",
            unit.time(gain.high_ns),
        );
    }
    let (low, high) = (unit.number(gain.low_ns), unit.time(gain.high_ns));
    if gain.is_range() {
        return format!(
            "{low}–{high} of {whole} (most likely {})",
            unit.time(gain.saved_ns),
        );
    }
    let ratio = gain.now_ns.0 as f64 / (gain.now_ns.0 - gain.saved_ns.0).max(1) as f64;
    let ratio = if ratio < RATIO_MAX {
        format!(", {ratio:.2}×")
    } else {
        String::new()
    };
    // A range that rounds to one value says nothing.
    let range = if low == unit.number(gain.high_ns) {
        String::new()
    } else {
        format!(", range {low}–{high}")
    };
    format!(
        "{} of {whole} ({}{ratio}{range})",
        unit.time(gain.saved_ns),
        Percent(gain.share()),
    )
}

/// What a phase and its parts are written in, so that neither rounds to the other: µs for phases below 1 ms.
#[derive(Clone, Copy)]
enum Unit {
    Milliseconds,
    Microseconds,
}

impl Unit {
    fn of(whole: Nanos) -> Self {
        if whole.0 < 1_000_000 {
            Self::Microseconds
        } else {
            Self::Milliseconds
        }
    }

    fn time(self, time: Nanos) -> String {
        let unit = match self {
            Self::Milliseconds => "ms",
            Self::Microseconds => "µs",
        };
        format!("{} {unit}", self.number(time))
    }

    /// Three significant digits.
    fn number(self, time: Nanos) -> String {
        let value = match self {
            Self::Milliseconds => time.0 as f64 / 1e6,
            Self::Microseconds => time.0 as f64 / 1e3,
        };
        if value >= 100.0 {
            format!("{value:.0}")
        } else if value >= 10.0 {
            format!("{value:.1}")
        } else {
            format!("{value:.2}")
        }
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
        let unit = Unit::of(phase.recorded_ns);
        is_stated && unit.number(phase.plain_ns) != unit.number(phase.recorded_ns)
    });
    let phases: Vec<String> = phases
        .map(|phase| {
            let name = phase.label.as_deref().unwrap_or(phase.phase.name());
            let times = match phase.steps {
                0 | 1 => String::new(),
                steps => format!("{steps} × "),
            };
            let unit = Unit::of(phase.recorded_ns);
            let profiler_share = 1.0 - phase.plain_ns.0 as f64 / phase.recorded_ns.0.max(1) as f64;
            // What is subtracted is known to two digits: of a small part the rest has more.
            let plain = if profiler_share.abs() > PROFILER_SHARE_MIN {
                about(phase.plain_ns)
            } else {
                unit.time(phase.plain_ns)
            };
            let recorded = unit.time(phase.recorded_ns);
            format!("{name} {times}about {plain} (recorded: {times}{recorded})")
        })
        .collect();
    (!phases.is_empty()).then(|| {
        format!(
            "Findings are about the time from the first host op of a phase to the end of its GPU work, without the profiler's cost: {}.",
            phases.join(", ")
        )
    })
}

/// A step of a phase without the profiler's cost, where a replay shows it and it is worth a word.
pub(crate) fn unprofiled_step(analysis: &Analysis, phase: &PhaseAnalysis) -> Option<Nanos> {
    let mut replays = analysis.replays.iter();
    let replay =
        replays.find(|replay| replay.phase == phase.phase && replay.label == phase.label)?;
    let profiler_share = 1.0 - replay.plain_ns.0 as f64 / replay.recorded_ns.0.max(1) as f64;
    (replay.is_sound() && profiler_share > PROFILER_SHARE_MIN).then_some(replay.plain_ns)
}

/// Phases of the host that findings have as they were profiled, beside the lines above with the times of plain passes.
pub(crate) fn profiled_times(analysis: &Analysis) -> Option<String> {
    let has_finding = |phase: &PhaseAnalysis| {
        let mut findings = analysis.findings.iter();
        findings.any(|finding| finding.phase == Some(phase.phase) && finding.conclusion.is_some())
    };
    let phases = analysis
        .phases
        .iter()
        .filter(|phase| phase.device().is_none() && has_finding(phase));
    let times: Vec<String> = phases
        .filter_map(|phase| {
            let ratio = phase.capture_ratio?;
            let is_told = (ratio - 1.0).abs() > PROFILER_SHARE_MIN;
            is_told.then(|| {
                format!(
                    "{} {} ({ratio:.2}× plain passes)",
                    phase.name(),
                    phase.waterfall.wall_ns
                )
            })
        })
        .collect();
    (!times.is_empty()).then(|| {
        format!(
            "Findings are about the profiled pass: {}.",
            times.join(", ")
        )
    })
}

/// Two significant digits: the profiler's cost is subtracted with an average per event, and the host was slower while it was recorded.
fn about(time: Nanos) -> String {
    let digits = time.0.max(1).ilog10().saturating_sub(1);
    let step = 10_i64.pow(digits);
    let rounded = Nanos((time.0 + step / 2) / step * step);
    let unit = Unit::of(rounded);
    let value = match unit {
        Unit::Milliseconds => rounded.0 as f64 / 1e6,
        Unit::Microseconds => rounded.0 as f64 / 1e3,
    };
    let decimals = usize::from(value < 10.0);
    let name = match unit {
        Unit::Milliseconds => "ms",
        Unit::Microseconds => "µs",
    };
    format!("{value:.decimals$} {name}")
}

/// How the replay stands to the recording, and what all causes together are worth.
pub(crate) fn replay_notes(analysis: &Analysis) -> Vec<String> {
    let phases = analysis.replays.iter();
    phases
        .map(|phase| {
            let name = phase.label.as_deref().unwrap_or(phase.phase.name());
            let unit = if phase.steps > 1 { " a step" } else { "" };
            let refused = if phase.is_sound() {
                ""
            } else {
                ": above 3 %, so no gain is stated for this phase"
            };
            let replayed = phase.replayed_steps.map_or_else(String::new, |replayed| {
                format!(
                    "{replayed} of its {} steps, spread over the phase, were replayed and stand for all. ",
                    phase.steps
                )
            });
            let digits = Unit::of(phase.recorded_ns);
            format!(
                "{name}: {replayed}{}{unit} from its first host op to the end of its GPU work; the replay is off by {:+.1} %{refused}. \
                 Without the profiler's cost, which gains are stated of: {}; with all findings removed {}.",
                digits.time(phase.recorded_ns),
                // Adding zero takes the sign from a rounded -0.0.
                (1000.0 * phase.error).round() / 10.0 + 0.0,
                digits.time(phase.plain_ns),
                digits.time(phase.without_causes_ns)
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use llmprof_record::run::RunPhase;

    use super::*;

    fn sample(saved_ns: i64, now_ns: i64, low_ns: i64, high_ns: i64) -> PhaseGain {
        PhaseGain {
            phase: RunPhase::Decode,
            label: None,
            steps: 4,
            now_ns: Nanos(now_ns),
            recorded_ns: Nanos(now_ns),
            saved_ns: Nanos(saved_ns),
            low_ns: Nanos(low_ns),
            high_ns: Nanos(high_ns),
            host_bound_by_profiler: false,
        }
    }

    /// 15 of 20 µs are 75 %, and would be 0.01 of 0.02 ms.
    #[test]
    fn times_and_percentage_say_the_same() {
        assert_eq!(
            of_phase(&sample(15_000, 20_000, 14_600, 15_200), false),
            "15.0 µs of 20.0 µs a step (75.0 %, 4.00×, range 14.6–15.2 µs)"
        );
        assert_eq!(
            of_phase(
                &sample(339_000_000, 453_000_000, 339_000_000, 339_050_000),
                false
            ),
            "339 ms of 453 ms a step (74.8 %, 3.97×)"
        );
    }

    /// Times that are printed unlike have their bases beside them.
    #[test]
    fn a_time_that_differs_from_the_recorded_one_has_its_base() {
        let mut gain = sample(281_000_000, 293_000_000, 281_000_000, 281_000_000);
        gain.recorded_ns = Nanos(298_000_000);
        let text = of_phase(&gain, false);
        assert!(
            text.contains("of 293 ms a step without the profiler"),
            "{text}"
        );
        gain.recorded_ns = Nanos(293_200_000);
        assert!(!of_phase(&gain, false).contains("profiler"));
    }

    #[test]
    fn times_without_the_profiler_have_the_digits_that_are_known() {
        let times = [7_751_000, 96_480_000, 128_400_000, 84_900, 995_000];
        let text = times.map(|time| about(Nanos(time)));
        assert_eq!(text, ["7.8 ms", "96 ms", "130 ms", "85 µs", "1.0 ms"]);
    }
}
