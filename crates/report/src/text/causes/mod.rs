//! Causes: what was done, what removing it saves, what to change.

mod change;
mod gain;
mod statement;

pub(crate) use self::change::change;
pub(crate) use self::gain::{
    RATIO_MAX, gain, profiled_times, replay_notes, unprofiled_step, unprofiled_times,
};
pub(crate) use self::statement::statement;

#[cfg(test)]
mod tests {
    use llmprof_record::run::RunPhase;
    use llmprof_units::{Bytes, Nanos};

    use super::*;
    use crate::analyzed::{Cause, CauseKind, CausePlace, PhaseGain};

    fn gain_of(phase: RunPhase, steps: u64, saved: f64, now: f64) -> PhaseGain {
        let ms = |value: f64| Nanos((value * 1e6) as i64);
        PhaseGain {
            phase,
            label: None,
            steps,
            now_ns: ms(now),
            recorded_ns: ms(now),
            saved_ns: ms(saved),
            low_ns: ms(saved - 0.5),
            high_ns: ms(saved + 0.5),
            host_bound_by_profiler: false,
        }
    }

    fn copied() -> Cause {
        Cause {
            kind: CauseKind::HostCopies {
                to_device: true,
                bytes: Bytes(64 << 20),
                is_pageable: true,
                is_serialized: false,
                is_input: false,
                gains_by_joining: false,
                copied_ns: Nanos(8_400_000),
                computed_on_host: None,
            },
            count: 1.0,
            place: CausePlace {
                operator: Some("aten::to".to_owned()),
                ..CausePlace::default()
            },
            gains: vec![gain_of(RunPhase::Decode, 6, 8.47, 19.2)],
            same_time_as: Vec::new(),
        }
    }

    #[test]
    fn a_cause_says_what_where_and_how_much() {
        let cause = copied();
        let statement = statement(&cause);
        assert!(statement.starts_with("decode: "), "{statement}");
        for part in ["copied to the GPU", "1× a step", "pageable", "`aten::to`"] {
            assert!(statement.contains(part), "{part}: {statement}");
        }
        assert_eq!(
            gain(&cause),
            "Removing it saves 8.47 ms of 19.2 ms a step (44.1 %, 1.79×, range 7.97–8.97 ms)."
        );
        assert!(change(&cause).contains("pinned"));
    }

    /// The phase is stated as recorded elsewhere.
    #[test]
    fn a_time_without_the_profiler_says_so() {
        let mut cause = copied();
        cause.gains[0].recorded_ns = Nanos(27_000_000);
        let stated = "saves 8.47 ms of 19.2 ms a step without the profiler (44.1 %";
        assert!(gain(&cause).contains(stated), "{}", gain(&cause));
    }

    /// A ratio of ten and more says less than the time that is left.
    #[test]
    fn large_ratios_are_not_stated() {
        let cause = Cause {
            gains: vec![gain_of(RunPhase::Decode, 6, 281.0, 295.0)],
            ..copied()
        };
        assert!(!gain(&cause).contains('×'), "{}", gain(&cause));
    }

    /// The time of the alternative is not known.
    #[test]
    fn a_gain_that_begins_at_nothing_is_an_upper_bound() {
        let mut cause = copied();
        cause.gains[0].saved_ns = Nanos(0);
        cause.gains[0].low_ns = Nanos(0);
        assert_eq!(
            gain(&cause),
            "Removing it saves up to 8.97 ms of 19.2 ms a step (how much, the trace does not show)."
        );
    }

    #[test]
    fn a_gain_with_a_wide_range_is_stated_as_one() {
        let mut cause = copied();
        cause.gains[0].low_ns = Nanos(4_000_000);
        cause.gains[0].high_ns = Nanos(9_000_000);
        assert_eq!(
            gain(&cause),
            "Removing it saves 4.00–9.00 ms of 19.2 ms a step (most likely 8.47 ms)."
        );
    }

    #[test]
    fn a_cause_without_a_gain_says_why() {
        let cause = Cause {
            gains: Vec::new(),
            ..copied()
        };
        assert!(gain(&cause).contains("within 3 %"), "{}", gain(&cause));
    }
}
