//! Who used the processors while passes were measured.

use llmprof_analysis::run::{MeasuredRun, ProcessorUse, RunPhase};
use llmprof_capture::telemetry::{Sample, Samples};
use llmprof_units::Nanos;

use super::watch::{plain, weighted};

/// The processors over all passes without capture.
pub(super) fn during_plain(samples: &Samples, run: &MeasuredRun) -> Option<ProcessorUse> {
    let spans: Vec<(Nanos, Nanos)> = plain(run)
        .flat_map(|pass| &pass.phases)
        .filter(|span| span.phase != RunPhase::Load)
        .map(|span| (Nanos(span.start_ns), Nanos(span.end_ns)))
        .collect();
    let mean = |value: &dyn Fn(&Sample) -> Option<f64>| {
        weighted(&spans, |start, end| samples.mean_between(start, end, value))
    };
    let contended = |sample: &Sample| {
        let contended = of_sample(sample)?.is_contended();
        Some(f64::from(u8::from(contended)))
    };
    let time = spans.iter().map(|&(start, end)| end - start);
    Some(ProcessorUse {
        time_ns: time.fold(Nanos(0), |sum, span| sum + span),
        processors: mean(&|sample| Some(of_sample(sample)?.processors))?,
        busy: mean(&|sample| Some(of_sample(sample)?.busy))?,
        worker: mean(&|sample| Some(of_sample(sample)?.worker))?,
        stolen: mean(&|sample| Some(of_sample(sample)?.stolen))?,
        waiting: mean(&|sample| of_sample(sample)?.waiting),
        throttled: mean(&|sample| of_sample(sample)?.throttled),
        contended_share: mean(&contended)?,
    })
}

/// What one sample tells; `None` where it lacks any part that is not optional, so that all means are of the same time.
fn of_sample(sample: &Sample) -> Option<ProcessorUse> {
    let processors = f64::from(sample.usable_cores?);
    Some(ProcessorUse {
        time_ns: Nanos(0),
        processors,
        busy: sample.usable_cores_busy?,
        worker: sample.worker_cores?,
        stolen: sample.steal_percent? / 100.0 * processors,
        waiting: sample.worker_waiting,
        throttled: sample.quota_throttled,
        contended_share: 0.0,
    })
}

#[cfg(test)]
mod tests {
    use llmprof_analysis::run::{MeasuredPass, PassKind, PhaseSpan};

    use super::*;

    /// Other programs begin when half of a plain pass is over; what ran before and after does not count.
    #[test]
    fn processors_are_those_of_the_passes_without_capture() {
        let ms = |time: i64| Nanos(time * 1_000_000);
        let row = |time, busy, worker, waiting| Sample {
            time_ns: ms(time),
            steal_percent: Some(0.0),
            usable_cores: Some(4),
            usable_cores_busy: Some(busy),
            worker_cores: worker,
            worker_waiting: waiting,
            ..Sample::default()
        };
        let mut samples = Samples {
            rows: vec![
                row(0, 4.0, None, None),
                row(100, 4.0, Some(1.0), Some(3.0)),
                row(200, 2.0, Some(2.0), Some(0.0)),
                row(300, 4.0, Some(1.0), Some(1.0)),
                row(400, 4.0, Some(0.0), Some(2.0)),
            ],
            ..Samples::default()
        };
        let pass = |kind, start, end| MeasuredPass {
            kind,
            phases: vec![PhaseSpan {
                phase: RunPhase::Decode,
                start_ns: ms(start).0,
                end_ns: ms(end).0,
                passes: Vec::new(),
            }],
            ..MeasuredPass::default()
        };
        let run = MeasuredRun {
            passes: vec![
                pass(PassKind::WarmUp, 0, 100),
                pass(PassKind::Plain, 100, 300),
                pass(PassKind::Captured, 300, 400),
            ],
            ..MeasuredRun::default()
        };
        let found = during_plain(&samples, &run).unwrap();
        let expected = ProcessorUse {
            time_ns: ms(200),
            processors: 4.0,
            busy: 3.0,
            worker: 1.5,
            stolen: 0.0,
            waiting: Some(0.5),
            throttled: None,
            contended_share: 0.5,
        };
        assert_eq!(found, expected);
        assert_eq!(found.lost_to_others(), 0.5);
        // A machine that tells nothing of its processors has no figure.
        for row in &mut samples.rows {
            row.usable_cores_busy = None;
        }
        assert_eq!(during_plain(&samples, &run), None);
    }
}
