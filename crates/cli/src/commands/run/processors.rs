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
    use llmprof_analysis::run::{
        HostTelemetry, MeasuredPass, PassKind, PhaseSpan, analyze_times, contention::SHARED,
    };

    use super::*;

    fn ms(time: i64) -> Nanos {
        Nanos(time * 1_000_000)
    }

    /// A sample every 100 ms: processors busy, those of the worker, its waiting threads.
    fn samples(cores: u32, rows: &[(f64, f64, f64)]) -> Samples {
        let rows = rows
            .iter()
            .zip(0..)
            .map(|(&(busy, worker, waiting), number)| Sample {
                time_ns: ms(100 * number),
                steal_percent: Some(0.0),
                usable_cores: Some(cores),
                usable_cores_busy: Some(busy),
                worker_cores: Some(worker),
                worker_waiting: Some(waiting),
                ..Sample::default()
            });
        Samples {
            rows: rows.collect(),
            ..Samples::default()
        }
    }

    fn run(passes: &[(PassKind, i64, i64)]) -> MeasuredRun {
        let passes = passes.iter().map(|&(kind, start, end)| MeasuredPass {
            kind,
            phases: vec![PhaseSpan {
                phase: RunPhase::Decode,
                start_ns: ms(start).0,
                end_ns: ms(end).0,
                passes: Vec::new(),
            }],
            ..MeasuredPass::default()
        });
        MeasuredRun {
            passes: passes.collect(),
            ..MeasuredRun::default()
        }
    }

    /// Other programs begin when half of a plain pass is over; what ran before and after does not count.
    #[test]
    fn processors_are_those_of_the_passes_without_capture() {
        let mut samples = samples(
            4,
            &[
                (4.0, 1.0, 3.0),
                (4.0, 1.0, 3.0),
                (2.0, 2.0, 0.0),
                (4.0, 1.0, 1.0),
                (4.0, 0.0, 2.0),
            ],
        );
        let run = run(&[
            (PassKind::WarmUp, 0, 100),
            (PassKind::Plain, 100, 300),
            (PassKind::Captured, 300, 400),
        ]);
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

    /// Samples of the native engine on two processors, as they were recorded: alone, and beside a busy loop.
    #[test]
    fn a_recorded_run_is_told_from_one_beside_a_busy_loop() {
        let alone = [
            (1.8947, 1.8982, 0.0256),
            (2.0, 1.9025, 0.0267),
            (1.9, 2.0001, 0.0364),
            (1.9047, 1.7993, 0.0277),
            (2.0, 1.9011, 0.0280),
            (1.8181, 1.7997, 0.0306),
            (1.9047, 1.9995, 0.0301),
            (2.0, 1.9996, 0.0255),
            (1.7894, 1.7005, 0.0307),
            (2.0, 1.9997, 0.0340),
        ];
        let beside = [
            (1.9, 0.8976, 0.9967),
            (1.7894, 0.8022, 0.9725),
            (1.9, 0.9, 0.9726),
            (1.9090, 0.9937, 0.9891),
            (1.8888, 0.9057, 0.9721),
            (2.0, 0.9999, 1.0187),
            (1.9, 0.9, 0.9885),
            (2.0, 1.0, 0.9971),
            (2.0, 0.9926, 1.0367),
        ];
        let is_told = |rows: &[(f64, f64, f64)]| {
            let mut run = run(&[(PassKind::Plain, 20, 750)]);
            run.telemetry = Some(HostTelemetry {
                processors: during_plain(&samples(2, rows), &run),
                ..HostTelemetry::default()
            });
            let issues = analyze_times(&run).issues;
            issues.iter().any(|issue| issue.code == SHARED)
        };
        assert!(!is_told(&alone));
        assert!(is_told(&beside));
    }
}
