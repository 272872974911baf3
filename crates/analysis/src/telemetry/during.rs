//! Samples averaged over the phases of the plain passes.

use llmprof_record::run::{MeasuredPass, PassKind, PhaseSpan, RunPhase, RunRecord};
use llmprof_record::samples::{GpuSample, GpuSeries, Sample, Samples};
use llmprof_units::{Basis, Bytes, Hertz, Joules, Nanos};

use super::{Energy, GpuPhase, PhaseTelemetry, ProcessorUse};

fn plain_spans(record: &RunRecord) -> impl Iterator<Item = &PhaseSpan> {
    record
        .passes_of(PassKind::Plain)
        .flat_map(|(_, pass)| &pass.phases)
}

/// The share of a pass in which the worst GPU ran below its clock for heat or power; `None` where no GPU reports it.
pub(crate) fn throttled_share(samples: &Samples, pass: &MeasuredPass) -> Option<f64> {
    let start = pass.phases.iter().map(|span| span.start_ns).min()?;
    let end = pass.phases.iter().map(|span| span.end_ns).max()?;
    let shares = samples
        .gpus
        .iter()
        .filter_map(|gpu| Some(gpu.throttled_between(start, end)?.share));
    shares.reduce(f64::max)
}

/// One phase over all passes without capture.
pub(super) fn phase_telemetry(
    samples: &Samples,
    record: &RunRecord,
    phase: RunPhase,
) -> Option<PhaseTelemetry> {
    let spans: Vec<(Nanos, Nanos)> = plain_spans(record)
        .filter(|span| span.phase == phase)
        .map(|span| (span.start_ns, span.end_ns))
        .collect();
    let time_ns = spans
        .iter()
        .fold(Nanos(0), |sum, &(start, end)| sum + (end - start));
    if time_ns.0 <= 0 {
        return None;
    }
    let mean = |rate: fn(&Sample) -> Option<f64>| {
        weighted_mean(&spans, |start, end| samples.mean_between(start, end, rate))
    };
    let requests = record
        .passes_of(PassKind::Plain)
        .flat_map(|(pass, _)| record.requests_of(pass));
    let tokens = requests
        .map(|request| match phase {
            RunPhase::Prefill => request.output_tokens.min(1),
            RunPhase::Decode => request.output_tokens.saturating_sub(1),
            RunPhase::Mixed => request.output_tokens,
            RunPhase::Vision | RunPhase::Encoder | RunPhase::Load | RunPhase::Other => 0,
        })
        .sum();
    Some(PhaseTelemetry {
        phase,
        time_ns,
        tokens,
        cpu_percent: mean(|sample| sample.cpu_percent),
        worker_cores: mean(|sample| sample.worker_cores),
        frequency_hz: mean(|sample| Some(sample.frequency_hz?.0)).map(Hertz),
        energy: energy_in(samples, &spans),
        gpus: samples
            .gpus
            .iter()
            .map(|gpu| gpu_facts(gpu, &spans))
            .collect(),
    })
}

/// A mean over several intervals, each weighted by its length.
fn weighted_mean(
    spans: &[(Nanos, Nanos)],
    mean: impl Fn(Nanos, Nanos) -> Option<f64>,
) -> Option<f64> {
    let (mut sum, mut weight) = (0.0, 0.0);
    for &(start, end) in spans {
        if let Some(value) = mean(start, end) {
            let length = (end - start).0 as f64;
            sum += value * length;
            weight += length;
        }
    }
    (weight > 0.0).then(|| sum / weight)
}

/// Energy of everything that was measured throughout. It is derived where any part of it is.
fn energy_in(samples: &Samples, spans: &[(Nanos, Nanos)]) -> Option<Energy> {
    let mut total = Energy {
        joules: Joules(0.0),
        covers: Vec::new(),
        basis: Basis::Measured,
    };
    let processors: Option<f64> = spans
        .iter()
        .map(|&(start, end)| Some(samples.energy_between(start, end)?.0))
        .sum();
    if let Some(joules) = processors {
        total.joules.0 += joules;
        total.covers.push("processors".to_owned());
    }
    for gpu in &samples.gpus {
        let parts: Option<Vec<_>> = spans
            .iter()
            .map(|&(start, end)| gpu.energy_between(start, end))
            .collect();
        for part in parts.iter().flatten() {
            total.joules.0 += part.joules.0;
            if part.basis != Basis::Measured {
                total.basis = part.basis;
            }
        }
        if parts.is_some() {
            total.covers.push(format!("GPU {}", gpu.index));
        }
    }
    (!total.covers.is_empty()).then_some(total)
}

/// NVML's utilization covers the 1/6 s to 1 s before the reading, which the driver chooses. A reading in a shorter interval covers time
/// before the interval.
const UTILIZATION_WINDOW: Nanos = Nanos(1_000_000_000);

/// One GPU over some intervals on the clock of its samples.
pub fn gpu_facts(gpu: &GpuSeries, spans: &[(Nanos, Nanos)]) -> GpuPhase {
    let mean = |value: fn(&GpuSample) -> Option<f64>| {
        weighted_mean(spans, |start, end| gpu.mean_between(start, end, value))
    };
    let most = |value: fn(&GpuSample) -> Option<f64>| {
        spans
            .iter()
            .filter_map(|&(start, end)| gpu.max_between(start, end, value))
            .reduce(f64::max)
    };
    let mut reasons: Vec<String> = spans
        .iter()
        .filter_map(|&(start, end)| gpu.throttled_between(start, end))
        .flat_map(|throttling| throttling.reasons)
        .map(|(reason, _)| reason.name().to_owned())
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    GpuPhase {
        index: gpu.index,
        utilization_percent: {
            let long: Vec<_> = spans
                .iter()
                .copied()
                .filter(|&(start, end)| end - start >= UTILIZATION_WINDOW)
                .collect();
            weighted_mean(&long, |start, end| {
                gpu.mean_between(start, end, |row| row.gpu_percent)
            })
        },
        power_w: mean(|row| Some(row.power_instant_w.or(row.power_w)?.0)),
        sm_clock_mhz: mean(|row| Some(row.sm_clock_hz?.0 / 1e6)),
        temperature_c: most(|row| row.temperature_c),
        memory_bytes: most(|row| Some(row.memory_used_bytes?.0 as f64))
            .map(|bytes| Bytes(bytes as u64)),
        throttled_share: weighted_mean(spans, |start, end| {
            Some(gpu.throttled_between(start, end)?.share)
        }),
        throttle_reasons: reasons,
    }
}

/// The processors over all passes without capture.
pub(super) fn processor_use(samples: &Samples, record: &RunRecord) -> Option<ProcessorUse> {
    let spans: Vec<(Nanos, Nanos)> = plain_spans(record)
        .filter(|span| span.phase != RunPhase::Load)
        .map(|span| (span.start_ns, span.end_ns))
        .collect();
    let mean = |value: &dyn Fn(&Sample) -> Option<f64>| {
        weighted_mean(&spans, |start, end| samples.mean_between(start, end, value))
    };
    let contended = |sample: &Sample| {
        let contended = use_in_sample(sample)?.is_contended();
        Some(f64::from(u8::from(contended)))
    };
    let time = spans.iter().map(|&(start, end)| end - start);
    Some(ProcessorUse {
        time_ns: time.fold(Nanos(0), |sum, span| sum + span),
        processors: mean(&|sample| Some(use_in_sample(sample)?.processors))?,
        busy: mean(&|sample| Some(use_in_sample(sample)?.busy))?,
        worker: mean(&|sample| Some(use_in_sample(sample)?.worker))?,
        stolen: mean(&|sample| Some(use_in_sample(sample)?.stolen))?,
        waiting: mean(&|sample| use_in_sample(sample)?.waiting),
        throttled: mean(&|sample| use_in_sample(sample)?.throttled),
        contended_share: mean(&contended)?,
    })
}

/// The processor use in one sample; `None` if it lacks a required part, so that all means are over the same time.
fn use_in_sample(sample: &Sample) -> Option<ProcessorUse> {
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
    use llmprof_units::Watts;

    use super::*;
    use crate::telemetry::{HostTelemetry, SHARED, contention_issues};

    /// As an H200 tells of a tenth of a second with work: utilization comes when it is over, and the mean of
    /// the last second hardly moves.
    #[test]
    fn short_intervals_have_the_power_of_the_moment_and_no_utilization() {
        let ms = |time: i64| Nanos(time * 1_000_000);
        let row = |time, busy, power| GpuSample {
            time_ns: ms(time),
            gpu_percent: Some(busy),
            power_w: Some(Watts(190.0)),
            power_instant_w: Some(Watts(power)),
            ..GpuSample::default()
        };
        let gpu = GpuSeries {
            rows: vec![
                row(0, 0.0, 390.0),
                row(100, 0.0, 390.0),
                row(200, 85.0, 125.0),
                row(1200, 85.0, 125.0),
                row(1300, 0.0, 125.0),
            ],
            ..GpuSeries::default()
        };
        let short = gpu_facts(&gpu, &[(ms(0), ms(100))]);
        assert_eq!(short.utilization_percent, None);
        assert_eq!(short.power_w, Some(390.0));
        let long = gpu_facts(&gpu, &[(ms(0), ms(100)), (ms(200), ms(1200))]);
        assert_eq!(long.utilization_percent, Some(85.0));
    }

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

    fn run(passes: &[(PassKind, i64, i64)]) -> RunRecord {
        let passes = passes.iter().map(|&(kind, start, end)| MeasuredPass {
            kind,
            phases: vec![PhaseSpan {
                phase: RunPhase::Decode,
                start_ns: ms(start),
                end_ns: ms(end),
                passes: Vec::new(),
            }],
            ..MeasuredPass::default()
        });
        RunRecord {
            passes: passes.collect(),
            ..RunRecord::default()
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
        let used = processor_use(&samples, &run).unwrap();
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
        assert_eq!(used, expected);
        assert_eq!(used.lost_to_others(), 0.5);
        // A machine that tells nothing of its processors has no figure.
        for row in &mut samples.rows {
            row.usable_cores_busy = None;
        }
        assert_eq!(processor_use(&samples, &run), None);
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
            run.samples = Some(samples(2, rows));
            let telemetry = HostTelemetry::from_record(&run);
            contention_issues(telemetry.as_ref())
                .iter()
                .any(|issue| issue.code == SHARED)
        };
        assert!(!is_told(&alone));
        assert!(is_told(&beside));
    }
}
