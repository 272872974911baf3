//! Kernels of models that no family describes, as torch's meta device shows them.

use llmprof_units::Bytes;
use serde::{Deserialize, Serialize};

use super::Kernel;

/// A kernel, and how often a step launches it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracedKernel {
    pub kernel: Kernel,
    pub launches: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracedStep {
    pub kernels: Vec<TracedKernel>,
    /// Values that only a device knows and that were taken as true: whether a mask has no padding.
    pub assumed: u64,
}

/// What was seen of a model for one batch and prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracedModel {
    /// Version of the library that built it.
    pub transformers: String,
    pub parameters: u64,
    pub weight_bytes: Bytes,
    /// KV cache and states after the prompt.
    pub cache_bytes: Bytes,
    /// The prompt, by the encoder where there is one.
    pub prefill: TracedStep,
    /// Decode steps, one for each context that was asked for.
    pub decode: Vec<TracedStep>,
}

impl TracedStep {
    pub fn matrix_flops(&self) -> f64 {
        self.sum_over_launches(Kernel::matrix_flops)
    }

    /// Bytes of inputs and outputs, each once for each kernel.
    pub fn min_traffic_bytes(&self) -> f64 {
        self.sum_over_launches(Kernel::min_traffic_bytes)
    }

    pub fn launch_count(&self) -> u64 {
        self.kernels.iter().map(|kernel| kernel.launches).sum()
    }

    fn sum_over_launches(&self, of: fn(&Kernel) -> f64) -> f64 {
        self.kernels
            .iter()
            .map(|one| of(&one.kernel) * one.launches as f64)
            .sum()
    }
}
