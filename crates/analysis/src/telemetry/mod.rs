//! What the machine did while phases ran: means of samples, energy, throttling, contention.

mod contention;
mod during;

use llmprof_record::run::{PassKind, ProcessorCounters, RunPhase, RunRecord};
use llmprof_units::{Basis, Bytes, Hertz, Joules, Nanos, Watts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::contention::{ProcessorUse, SHARED, STOLEN_FROM, THROTTLED};
pub(crate) use self::contention::{contention_issues, is_contended};
pub use self::during::gpu_facts;
pub(crate) use self::during::throttled_share;

/// What telemetry saw of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct HostTelemetry {
    /// Time between samples, as asked for.
    pub period_ns: Nanos,
    /// How many samples there are.
    pub samples: u64,
    /// Processor time that sampling took.
    pub cost_ns: Nanos,
    /// The most memory of the worker that a sample saw.
    pub peak_worker_rss_bytes: Option<Bytes>,
    /// The phases of the plain passes.
    pub phases: Vec<PhaseTelemetry>,
    /// The processors in the plain passes: what the worker, others and nobody used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<ProcessorUse>,
    /// What the processor counted in the captured pass.
    pub counters: Option<ProcessorCounters>,
}

impl HostTelemetry {
    /// Averages the samples of a record over its phases; `None` without samples.
    pub(crate) fn from_record(record: &RunRecord) -> Option<Self> {
        let samples = record.samples.as_ref()?;
        let phases = [
            RunPhase::Vision,
            RunPhase::Encoder,
            RunPhase::Prefill,
            RunPhase::Decode,
            RunPhase::Mixed,
        ];
        let mut captured = record.passes_of(PassKind::Captured);
        Some(Self {
            period_ns: samples.period_ns,
            samples: samples.rows.len() as u64,
            cost_ns: samples.cost_ns,
            peak_worker_rss_bytes: samples.peak_worker_rss(),
            phases: phases
                .into_iter()
                .filter_map(|phase| during::phase_telemetry(samples, record, phase))
                .collect(),
            processors: during::processor_use(samples, record),
            counters: captured.find_map(|(_, pass)| pass.processor_counters),
        })
    }
}

/// The machine during one phase, over all passes without capture. What was not measured is absent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseTelemetry {
    /// What the model does in the phase.
    pub phase: RunPhase,
    /// Wall time of the phase over all passes without capture.
    pub time_ns: Nanos,
    /// Tokens that came in it: all of a request's first ones in prefill, the others in decode.
    pub tokens: u64,
    /// Share of all CPUs that was busy, in percent.
    pub cpu_percent: Option<f64>,
    /// CPUs that the worker used.
    pub worker_cores: Option<f64>,
    /// Mean clock rate of the CPUs.
    pub frequency_hz: Option<Hertz>,
    /// Energy of processors, memory and GPUs, as far as they were measured.
    pub energy: Option<Energy>,
    /// The GPUs, in the order of their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuPhase>,
}

/// Energy that the machine took in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Energy {
    /// Energy of everything in `covers`.
    pub joules: Joules,
    /// What it covers: `processors`, `GPU 0`.
    pub covers: Vec<String>,
    /// `measured` by counters of energy, or `derived` from power.
    pub basis: Basis,
}

/// One GPU during a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct GpuPhase {
    /// Index of the GPU as the driver numbers it.
    pub index: u32,
    /// Share of the time in which a kernel ran, in percent; absent where intervals of the phase are too short.
    pub utilization_percent: Option<f64>,
    /// Mean power of the GPU in watts.
    pub power_w: Option<f64>,
    /// Mean clock of its processors.
    pub sm_clock_mhz: Option<f64>,
    /// Highest temperature of the GPU in °C.
    pub temperature_c: Option<f64>,
    /// Largest amount of its memory in use.
    pub memory_bytes: Option<Bytes>,
    /// Share of the time below its clock for heat or power, from 0 to 1.
    pub throttled_share: Option<f64>,
    /// Reasons that the driver gave for the lower clock; empty where it was not lowered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttle_reasons: Vec<String>,
}

impl PhaseTelemetry {
    /// Mean power in the phase.
    pub fn power(&self) -> Option<Watts> {
        let seconds = self.time_ns.seconds();
        (seconds > 0.0).then(|| Some(Watts(self.energy.as_ref()?.joules.0 / seconds)))?
    }

    pub fn joules_per_token(&self) -> Option<Joules> {
        (self.tokens > 0)
            .then(|| Some(Joules(self.energy.as_ref()?.joules.0 / self.tokens as f64)))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_and_energy_of_a_token_by_hand() {
        let mut phase = PhaseTelemetry {
            phase: RunPhase::Decode,
            time_ns: Nanos(2_000_000_000),
            tokens: 8,
            cpu_percent: None,
            worker_cores: None,
            frequency_hz: None,
            energy: Some(Energy {
                joules: Joules(100.0),
                covers: vec!["processors".to_owned()],
                basis: Basis::Measured,
            }),
            gpus: Vec::new(),
        };
        assert_eq!(phase.power(), Some(Watts(50.0)));
        assert_eq!(phase.joules_per_token(), Some(Joules(12.5)));
        phase.tokens = 0;
        assert_eq!(phase.joules_per_token(), None);
        phase.energy = None;
        assert_eq!(phase.power(), None);
    }
}
