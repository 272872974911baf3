//! What the passes without capture took for the work that a trace holds.

use crate::thresholds::MEDIAN_RATIO_MIN_INTERVALS;
use llmprof_units::Nanos;

use crate::analyze::phase_intervals::PhaseInterval;
use crate::latency::plain_wall;
use crate::phase_facts::BetweenSlices;
use crate::stats::{RepeatSummary, ValueDistribution};
use llmprof_record::run::{MeasuredPass, PassKind, PhaseSpan, RunPhase, RunRecord};

/// What the intervals of a phase took beside those of the same name between slices, whose lengths are `plain`.
pub(crate) fn between_slices(intervals: &[&PhaseInterval], plain: &[i64]) -> Option<BetweenSlices> {
    let is_whole = intervals.iter().all(|one| one.is_whole);
    if !is_whole
        || intervals.len() < MEDIAN_RATIO_MIN_INTERVALS
        || plain.len() < MEDIAN_RATIO_MIN_INTERVALS
    {
        return None;
    }
    let median = |lengths: &mut dyn Iterator<Item = i64>| {
        let lengths: Vec<f64> = lengths.map(|length| length as f64).collect();
        ValueDistribution::from_values(&lengths).map(|lengths| Nanos(lengths.p50.round() as i64))
    };
    let plain_ns = median(&mut plain.iter().copied())?;
    let recorded_ns = median(&mut intervals.iter().map(|one| one.length()))?;
    (plain_ns.0 > 0 && recorded_ns.0 > 0).then_some(BetweenSlices {
        plain: plain.len() as u64,
        plain_ns,
        recorded: intervals.len() as u64,
        recorded_ns,
    })
}

/// The mean time that passes without capture took for what the intervals of a phase hold.
///
/// A pass may have batches that were not captured, and a captured batch may end early or be recorded now and then: where
/// the captured pass is measured, its batches are the first ones of every pass, and decode counts by its steps. Else the
/// phase of a pass ran `repeats` times.
pub(crate) fn plain_time(
    run: &RunRecord,
    captured: Option<usize>,
    phase: RunPhase,
    intervals: &[&PhaseInterval],
    repeats: i64,
) -> Option<Nanos> {
    let captured = captured.map_or(0, |pass| phase_spans(&run.passes[pass], phase).count());
    if captured == 0 {
        let plain = plain_wall(run, phase).filter(|plain| plain.0 > 0 && repeats > 0)?;
        return Some(Nanos(plain.0.saturating_mul(repeats)));
    }
    let recorded = recorded_steps(intervals);
    let times: Vec<f64> = run
        .passes_of(PassKind::Plain)
        .map(|(_, pass)| {
            let batches: Vec<&PhaseSpan> = phase_spans(pass, phase).take(captured).collect();
            let time: i64 = batches.iter().map(|span| span.duration().0).sum();
            let steps = batches.iter().flat_map(|span| &span.passes);
            let steps: u64 = steps.map(|shape| shape.steps).sum();
            match (phase, recorded, steps) {
                (RunPhase::Decode, 1.., 1..) => time as f64 * (recorded as f64 / steps as f64),
                _ => time as f64,
            }
        })
        .filter(|time| *time > 0.0)
        .collect();
    RepeatSummary::from_values(&times).map(|summary| Nanos(summary.mean.round() as i64))
}

fn phase_spans(pass: &MeasuredPass, phase: RunPhase) -> impl Iterator<Item = &PhaseSpan> {
    pass.phases.iter().filter(move |span| span.phase == phase)
}

/// Steps of decode in some intervals.
fn recorded_steps(intervals: &[&PhaseInterval]) -> u64 {
    let counted = intervals.iter().flat_map(|interval| &interval.passes);
    match counted.map(|pass| pass.steps).sum() {
        0 => intervals.iter().map(|one| one.steps.len() as u64).sum(),
        counted => counted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llmprof_record::run::PassShape;

    fn span(phase: RunPhase, start: i64, end: i64, steps: u64) -> PhaseSpan {
        PhaseSpan {
            phase,
            start_ns: Nanos(start),
            end_ns: Nanos(end),
            passes: vec![PassShape {
                batch: 1,
                queries: 1,
                past: 8,
                steps,
                logits: 1,
            }],
        }
    }

    fn pass(kind: PassKind, phases: Vec<PhaseSpan>) -> MeasuredPass {
        MeasuredPass {
            kind,
            phases,
            ..MeasuredPass::default()
        }
    }

    fn interval(steps: usize) -> PhaseInterval {
        PhaseInterval {
            window: 0,
            start: 0,
            end: 1,
            device: None,
            order: 0,
            name: 0,
            steps: vec![1; steps],
            passes: Vec::new(),
            step: None,
            is_assumed: false,
            is_whole: true,
            missing_kernels: 0,
        }
    }

    #[test]
    fn only_the_captured_batches_and_steps_count() {
        let (prefill, decode) = (RunPhase::Prefill, RunPhase::Decode);
        let plain = |first: i64| {
            let spans = vec![
                span(prefill, 0, first, 1),
                span(decode, 100, 100 + 10 * first, 10),
                span(prefill, 5000, 6000, 1),
                span(decode, 6000, 9000, 10),
            ];
            pass(PassKind::Plain, spans)
        };
        let captured = vec![span(prefill, 0, 40, 1), span(decode, 40, 100, 3)];
        let run = RunRecord {
            passes: vec![plain(20), plain(40), pass(PassKind::Captured, captured)],
            ..RunRecord::default()
        };
        let whole = interval(0);
        assert_eq!(
            plain_time(&run, Some(2), prefill, &[&whole], 1),
            Some(Nanos(30))
        );
        // The first batch took 200 and 400 for ten steps; three were recorded, one after the other or each by itself.
        let together = interval(3);
        assert_eq!(
            plain_time(&run, Some(2), decode, &[&together], 1),
            Some(Nanos(90))
        );
        let single = interval(1);
        let apart = [&single, &single];
        assert_eq!(
            plain_time(&run, Some(2), decode, &apart, 1),
            Some(Nanos(60))
        );
    }

    #[test]
    fn steps_between_slices_say_what_recording_costs() {
        let of = |length: i64| PhaseInterval {
            end: length,
            ..interval(1)
        };
        let recorded = [30, 28, 90, 32, 29, 40].map(of);
        let recorded: Vec<&PhaseInterval> = recorded.iter().collect();
        let between = between_slices(&recorded, &[20, 21, 19, 60, 20, 20, 22]).unwrap();
        assert_eq!((between.plain, between.plain_ns), (7, Nanos(20)));
        assert_eq!((between.recorded, between.recorded_ns), (6, Nanos(31)));
        assert!((between.ratio() - 1.55).abs() < 1e-12);
        // Too few of either.
        assert_eq!(between_slices(&recorded, &[20, 21, 19, 20, 20]), None);
        assert_eq!(between_slices(&recorded[..5], &[20; 9]), None);
    }

    #[test]
    fn without_a_measured_captured_pass_phases_are_counted() {
        let decode = RunPhase::Decode;
        let run = RunRecord {
            passes: vec![pass(PassKind::Plain, vec![span(decode, 0, 50, 10)])],
            ..RunRecord::default()
        };
        let interval = interval(0);
        assert_eq!(
            plain_time(&run, None, decode, &[&interval], 3),
            Some(Nanos(150))
        );
        assert_eq!(plain_time(&run, None, decode, &[], 0), None);
    }
}
