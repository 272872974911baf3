//! What sequences take of a device's memory, and how many KV blocks an engine has for them.

use llmprof_predict::{EngineLimits, EngineMemory, PredictError, parallel::ParallelModel};
use llmprof_theory::{Model, WeightFormat, Workload, device::Device};
use llmprof_units::Bytes;

/// Prompts by which it is found: long ones, so that a sliding window counts as it does where memory is short.
const PROBE_PROMPT_TOKENS: [u64; 2] = [1024, 2048];

/// Ranks that are tried for an engine without memory for a sequence.
const TRIED_RANKS: [u64; 3] = [2, 4, 8];

/// A change that gives an engine memory for at least one long sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    /// Tensor parallelism over this many ranks.
    Tensor(u64),
    Fp8Weights,
    LargerDevice,
}

/// The smallest change after which a prompt of a whole step fits.
pub fn smallest_relief(
    model: &Model,
    device: &Device,
    workload: &Workload,
    limits: &EngineLimits,
) -> Relief {
    let fits = |changed: &Workload| {
        let spread = ParallelModel::new(model, device, changed.parallel).ok()?;
        let long = Workload {
            batch: 1,
            prompt: limits.max_num_batched_tokens,
            new_tokens: 1,
            ..*changed
        };
        let (memory, kv) = spread.engine_memory(device, &long, limits).ok()?;
        memory.fits(kv).filter(|&fits| fits)
    };
    let ranks = workload.parallel.tensor;
    for more in TRIED_RANKS.into_iter().filter(|&more| more > ranks) {
        let mut changed = *workload;
        changed.parallel.tensor = more;
        if fits(&changed).is_some() {
            return Relief::Tensor(more);
        }
    }
    let mut narrower = *workload;
    narrower.precision.weights = Some(WeightFormat::Fp8 {
        rows: 0,
        columns: 0,
    });
    let is_wide =
        model.parameter_bytes(&narrower.precision) < model.parameter_bytes(&workload.precision);
    if is_wide && fits(&narrower).is_some() {
        return Relief::Fp8Weights;
    }
    Relief::LargerDevice
}

/// Memory of an engine and of one of its sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SequenceMemory {
    /// KV cache bytes of one more token.
    pub token: f64,
    /// Bytes that do not depend on the sequence length: states of recurrent layers, and full sliding windows.
    pub whole: f64,
    pub engine: EngineMemory,
}

impl SequenceMemory {
    /// Of a model on its devices, in the formats of `base`.
    pub fn of_model(
        spread: &ParallelModel,
        device: &Device,
        base: &Workload,
        limits: &EngineLimits,
    ) -> Result<Self, PredictError> {
        let [short, long] = PROBE_PROMPT_TOKENS.map(|prompt| {
            let one = Workload {
                batch: 1,
                prompt,
                new_tokens: 1,
                cached: 0,
                chunk: None,
                ..*base
            };
            spread.engine_memory(device, &one, limits)
        });
        let ((engine, short), (_, long)) = (short?, long?);
        let [fewer, more] = PROBE_PROMPT_TOKENS.map(|prompt| prompt as f64);
        let bytes = |kv: Bytes| kv.0 as f64;
        let token = (bytes(long) - bytes(short)) / (more - fewer);
        Ok(Self {
            token,
            whole: (bytes(short) - fewer * token).max(0.0),
            engine,
        })
    }

    /// Blocks that a sequence holds regardless of its length.
    pub fn sequence_blocks(&self, block_size: u64) -> u64 {
        if self.token > 0.0 {
            (self.whole / (self.token * block_size as f64)).round() as u64
        } else {
            0
        }
    }

    /// KV blocks of the engine: none where nothing is left beside its weights and activations. `None` where the capacity of the device
    /// is not known, or no block grows with the context.
    pub fn kv_blocks(&self, block_size: u64) -> Option<u64> {
        let left = self.engine.kv_bytes()?.0 as f64;
        (self.token > 0.0).then(|| (left / (self.token * block_size as f64)) as u64)
    }
}
