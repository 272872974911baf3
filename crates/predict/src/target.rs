//! What a device would have to deliver to meet a target.

use llmprof_units::{Bytes, BytesPerSecond, Flops, FlopsPerSecond, Nanos};
use serde::{Deserialize, Serialize};

use super::{PhasePrediction, Prediction};

/// Times that a user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PredictionTarget {
    /// Longest time to the first token.
    pub ttft_ns: Option<Nanos>,
    /// Longest time per output token.
    pub tpot_ns: Option<Nanos>,
}

/// The rates that a target needs, and whether the prediction meets it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Need {
    pub target_ns: Nanos,
    pub predicted_ns: Nanos,
    /// The part of the device; less than the predicted time where the host takes longer.
    pub device_ns: Nanos,
    /// Whether the predicted time is within the target.
    pub met: bool,
    /// Operations ÷ target: the rate that any software must sustain.
    pub flops_per_s: FlopsPerSecond,
    /// Minimum DRAM bytes ÷ target: the bandwidth that any software must sustain.
    pub bytes_per_s: BytesPerSecond,
}

impl Need {
    /// Of `predicted_ns` for these phases, which is what tables say, too.
    fn for_target(predicted_ns: Nanos, phases: &[PhasePrediction], target: Nanos) -> Option<Self> {
        let host_waits = phases.iter().any(|phase| phase.device_ns < phase.time_ns);
        let device_ns: Nanos = phases.iter().map(|phase| phase.device_ns).sum();
        let flops: Flops = phases.iter().map(|phase| phase.flops).sum();
        let bytes: Bytes = phases.iter().map(|phase| phase.min_dram_bytes).sum();
        Some(Self {
            target_ns: target,
            predicted_ns,
            device_ns: if host_waits { device_ns } else { predicted_ns },
            met: predicted_ns <= target,
            flops_per_s: flops.per(target)?,
            bytes_per_s: bytes.per(target)?,
        })
    }
}

impl Prediction {
    /// What the target for the first token needs; `None` without a (positive) target.
    pub fn ttft_need(&self, target: &PredictionTarget) -> Option<Need> {
        let phases: Vec<_> = self.vision.into_iter().chain([self.prefill]).collect();
        Need::for_target(self.ttft_ns, &phases, target.ttft_ns?)
    }

    /// What the target per output token needs, its rates those of the first decode step; `None` without a (positive) target.
    pub fn tpot_need(&self, target: &PredictionTarget) -> Option<Need> {
        let predicted_ns = self.tpot_ns.unwrap_or(self.decode_step.time_ns);
        Need::for_target(predicted_ns, &[self.decode_step], target.tpot_ns?)
    }
}
