//! Telemetry of a run: sampled from its start to its end, averaged over the phases of the passes without capture.

use std::time::Duration;

use llmprof_analysis::run::{
    Energy, GpuPhase, HostTelemetry, MeasuredPass, MeasuredRun, PassKind, PhaseTelemetry,
    ProcessorCounters, RunPhase,
};
use llmprof_capture::{
    counters::Counters,
    telemetry::{GpuSample, GpuSeries, Gpus, Sample, Sampler, Samples, Settings, nvml},
};
use llmprof_record::{
    issue::Issue,
    plan::{Place, Plan},
    store::RunDir,
};
use llmprof_report::view::Series;
use llmprof_units::{Basis, Hertz, Joules, Nanos};

use super::{halt::Halt, processors};
use crate::telemetry::{curves, table};

/// A run under observation; nothing is observed where telemetry is off.
pub(super) struct Watch {
    sampler: Option<Sampler>,
}

/// Counters of the processor, while a pass runs.
pub(super) struct Counting {
    counters: Counters,
    issue: Option<Issue>,
}

/// What they counted.
pub(super) struct Counted {
    values: ProcessorCounters,
    issue: Option<Issue>,
}

impl Counting {
    pub(super) fn read(mut self) -> Counted {
        let values = self.counters.read();
        Counted {
            values: ProcessorCounters {
                cycles: values.cycles,
                instructions: values.instructions,
                cache_references: values.cache_references,
                cache_misses: values.cache_misses,
                counted_share: values.counted_share,
            },
            issue: self.issue,
        }
    }
}

impl Watch {
    /// Begins to sample.
    pub(super) fn start(plan: &Plan) -> Result<Self, Halt> {
        let telemetry = &plan.pipeline.telemetry;
        let gpus = match (&telemetry.devices, plan.device) {
            // A model on the CPU leaves GPUs alone; that there is none is no news then.
            (None, Place::Cpu) => Gpus::None,
            (devices, _) => Gpus::requested(devices.as_deref()),
        };
        let settings = Settings {
            period: Duration::from_secs_f64(1.0 / telemetry.hz.max(f64::MIN_POSITIVE)),
            gpus,
            nvml_library: None,
        };
        let sampler = telemetry
            .enable
            .then(|| Sampler::start_with(settings))
            .transpose()
            .map_err(|error| Halt::Failed(error.to_string()))?;
        Ok(Self { sampler })
    }

    /// Watches the worker's process too.
    pub(super) fn follow(&self, pid: u32) {
        if let Some(sampler) = &self.sampler {
            sampler.watch(pid);
        }
    }

    /// Counts what the worker's threads do from now on. `None` where telemetry is off.
    pub(super) fn count(&self, pid: u32) -> Option<Counting> {
        self.sampler.as_ref()?;
        let (counters, issue) = Counters::attach(pid);
        Some(Counting { counters, issue })
    }

    /// Ends sampling, puts what was seen into the run and its directory, and gives the curves of the page.
    pub(super) fn stop(
        self,
        run: &mut MeasuredRun,
        counted: Option<Counted>,
        store: &RunDir,
    ) -> Result<Vec<Series>, Halt> {
        let Some(sampler) = self.sampler else {
            return Ok(Vec::new());
        };
        let samples = sampler
            .stop()
            .map_err(|error| Halt::Failed(error.to_string()))?;
        run.issues.extend(samples.issues.iter().cloned());
        let mut facts = facts(&samples, run);
        if let Some(counted) = counted {
            run.issues.extend(counted.issue);
            facts.counters =
                Some(counted.values).filter(|values| *values != ProcessorCounters::default());
        }
        run.telemetry = Some(facts);
        store.write(table::FILE, table::csv(&samples))?;
        if let Some(text) = nvml::csv(&samples) {
            store.write("nvml.csv", text)?;
        }
        throttling(&samples, run);
        Ok(curves::of(&samples, run))
    }
}

fn facts(samples: &Samples, run: &MeasuredRun) -> HostTelemetry {
    let phases = [
        RunPhase::Vision,
        RunPhase::Prefill,
        RunPhase::Decode,
        RunPhase::Mixed,
    ];
    HostTelemetry {
        period_ns: samples.period_ns,
        samples: samples.rows.len() as u64,
        cost_ns: samples.cost_ns,
        peak_worker_rss_bytes: samples.peak_worker_rss(),
        phases: phases
            .into_iter()
            .filter_map(|phase| phase_facts(samples, run, phase))
            .collect(),
        processors: processors::during_plain(samples, run),
        counters: None,
    }
}

/// The passes without capture.
pub(super) fn plain(run: &MeasuredRun) -> impl Iterator<Item = &MeasuredPass> {
    run.passes
        .iter()
        .filter(|pass| pass.kind == PassKind::Plain)
}

/// One phase over all passes without capture.
fn phase_facts(samples: &Samples, run: &MeasuredRun, phase: RunPhase) -> Option<PhaseTelemetry> {
    let spans: Vec<(Nanos, Nanos)> = plain(run)
        .flat_map(|pass| &pass.phases)
        .filter(|span| span.phase == phase)
        .map(|span| (Nanos(span.start_ns), Nanos(span.end_ns)))
        .collect();
    let time_ns = spans
        .iter()
        .fold(Nanos(0), |sum, &(start, end)| sum + (end - start));
    if time_ns.0 <= 0 {
        return None;
    }
    let mean = |rate: fn(&Sample) -> Option<f64>| {
        weighted(&spans, |start, end| samples.mean_between(start, end, rate))
    };
    let requests = plain(run).flat_map(|pass| &pass.requests);
    let tokens = requests
        .map(|request| match phase {
            RunPhase::Prefill => request.output_tokens.min(1),
            RunPhase::Decode => request.output_tokens.saturating_sub(1),
            RunPhase::Mixed => request.output_tokens,
            RunPhase::Vision | RunPhase::Load | RunPhase::Other => 0,
        })
        .sum();
    Some(PhaseTelemetry {
        phase,
        time_ns,
        tokens,
        cpu_percent: mean(|sample| sample.cpu_percent),
        worker_cores: mean(|sample| sample.worker_cores),
        frequency_hz: mean(|sample| Some(sample.frequency_hz?.0)).map(Hertz),
        energy: energy(samples, &spans),
        gpus: samples
            .gpus
            .iter()
            .map(|gpu| gpu_facts(gpu, &spans))
            .collect(),
    })
}

/// A mean over several stretches, each weighted by its length.
pub(super) fn weighted(
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
fn energy(samples: &Samples, spans: &[(Nanos, Nanos)]) -> Option<Energy> {
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

/// NVML's utilization is of a time before the reading: 1/6 s to 1 s, which the driver chooses. In a shorter stretch it tells of
/// what ran before.
const UTILIZATION_WINDOW: Nanos = Nanos(1_000_000_000);

fn gpu_facts(gpu: &GpuSeries, spans: &[(Nanos, Nanos)]) -> GpuPhase {
    let mean = |value: fn(&GpuSample) -> Option<f64>| {
        weighted(spans, |start, end| gpu.mean_between(start, end, value))
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
            weighted(&long, |start, end| {
                gpu.mean_between(start, end, |row| row.gpu_percent)
            })
        },
        power_w: mean(|row| Some(row.power_instant_w.or(row.power_w)?.0)),
        sm_clock_mhz: mean(|row| Some(row.sm_clock_hz?.0 / 1e6)),
        temperature_c: most(|row| row.temperature_c),
        memory_bytes: most(|row| Some(row.memory_used_bytes?.0 as f64)).map(|bytes| bytes as u64),
        throttled_share: weighted(spans, |start, end| {
            Some(gpu.throttled_between(start, end)?.share)
        }),
        throttle_reasons: reasons,
    }
}

/// Tells each pass for which part of its time the worst GPU was held back.
fn throttling(samples: &Samples, run: &mut MeasuredRun) {
    for pass in &mut run.passes {
        let start = pass.phases.iter().map(|span| span.start_ns).min();
        let end = pass.phases.iter().map(|span| span.end_ns).max();
        if let (Some(start), Some(end)) = (start, end) {
            let shares = samples
                .gpus
                .iter()
                .filter_map(|gpu| Some(gpu.throttled_between(Nanos(start), Nanos(end))?.share));
            pass.throttled_share = shares.reduce(f64::max);
        }
    }
}

#[cfg(test)]
mod tests {
    use llmprof_units::Watts;

    use super::*;

    /// As an H200 tells of a tenth of a second with work: utilization comes when it is over, and the mean of
    /// the last second hardly moves.
    #[test]
    fn short_stretches_have_the_power_of_the_moment_and_no_utilization() {
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
}
