//! What an engine has for KV caches beside everything else that it holds, counted as vLLM counts when it starts: of its share of the
//! memory, weights, the most that activations take in a step of full size, and what libraries hold come off; the rest is KV cache.

use std::sync::LazyLock;

use llmprof_theory::{MemoryFit, Model, Workload, WorkloadError, parallel::Parallel};
use llmprof_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::sourced::Sourced;

/// What each is stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EngineMemoryFigures {
    library_bytes: Sourced<u64>,
    graph_bytes: Sourced<u64>,
    sampler_bytes_per_logit: Sourced<u64>,
}

impl EngineMemoryFigures {
    fn shipped_figures() -> &'static Self {
        static FIGURES: LazyLock<EngineMemoryFigures> = LazyLock::new(|| {
            serde_saphyr::from_str(include_str!("../data/engine_memory.yaml"))
                .expect("the shipped file is whole, as tests read it")
        });
        &FIGURES
    }
}

/// What an engine is started with, as far as memory depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EngineLimits {
    pub gpu_memory_utilization: f64,
    pub max_num_batched_tokens: u64,
    pub max_num_seqs: u64,
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self {
            gpu_memory_utilization: 0.9,
            max_num_batched_tokens: 8192,
            max_num_seqs: 256,
        }
    }
}

/// Memory of one rank of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EngineMemory {
    pub weights_bytes: Bytes,
    pub activations_bytes: Bytes,
    /// Memory that CUDA, cuBLAS and NCCL hold for themselves, in bytes.
    pub library_bytes: Bytes,
    /// What the device has; absent where its file does not say.
    pub capacity_bytes: Option<Bytes>,
    /// The share of it that the engine may fill, CUDA graphs left out.
    pub budget_bytes: Option<Bytes>,
}

impl EngineMemory {
    /// Of a rank that holds the weights of `fit`.
    pub(crate) fn new(fit: &MemoryFit, activations: u64, limits: &EngineLimits) -> Self {
        let figures = EngineMemoryFigures::shipped_figures();
        let budget = fit.capacity_bytes.map(|capacity| {
            let share = (capacity.0 as f64 * limits.gpu_memory_utilization) as u64;
            Bytes(share.min(capacity.0.saturating_sub(figures.graph_bytes.value)))
        });
        Self {
            weights_bytes: fit.weights_bytes,
            activations_bytes: Bytes(activations),
            library_bytes: Bytes(figures.library_bytes.value),
            capacity_bytes: fit.capacity_bytes,
            budget_bytes: budget,
        }
    }

    /// Weights, activations and libraries: what a rank holds before its KV cache.
    pub fn fixed_bytes(&self) -> Bytes {
        self.weights_bytes + self.activations_bytes + self.library_bytes
    }

    /// What is left for KV caches: zero where the rest does not fit, absent where the capacity is not known.
    pub fn kv_bytes(&self) -> Option<Bytes> {
        let left = |budget: Bytes| Bytes(budget.0.saturating_sub(self.fixed_bytes().0));
        self.budget_bytes.map(left)
    }

    /// Whether `kv` bytes of KV cache fit in addition; `None` if the budget is unknown.
    pub fn fits(&self, kv: Bytes) -> Option<bool> {
        let needed = self.fixed_bytes().0.saturating_add(kv.0);
        self.budget_bytes.map(|budget| needed <= budget.0)
    }
}

/// The most that activations of a rank take in a step of full size: inside a layer, or while every sequence is sampled, which each
/// tensor-parallel rank does with all logits.
pub(crate) fn step_activations(
    rank: &Model,
    parallel: Parallel,
    workload: &Workload,
    limits: &EngineLimits,
) -> Result<u64, WorkloadError> {
    let full = Workload {
        batch: 1,
        prompt: limits.max_num_batched_tokens.max(1),
        new_tokens: 1,
        cached: 0,
        chunk: None,
        images: llmprof_theory::Images::default(),
        ..*workload
    };
    let layers = rank.count_memory(&full)?.activations_peak;
    let Some(decoder) = &rank.decoder else {
        return Ok(layers);
    };
    let dtype = rank.number_formats(&workload.precision).activations;
    let hidden = full.prompt.saturating_mul(decoder.hidden);
    let vocabulary = decoder.head.linear.outputs.saturating_mul(parallel.tensor);
    let logits = limits.max_num_seqs.saturating_mul(vocabulary);
    let per_logit = &EngineMemoryFigures::shipped_figures().sampler_bytes_per_logit;
    let sampling = logits.saturating_mul(per_logit.value);
    Ok(layers.max(
        dtype
            .bytes_for(hidden)
            .unwrap_or(u64::MAX)
            .saturating_add(sampling),
    ))
}
