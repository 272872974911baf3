//! What sequences take of a device's memory, and how many KV blocks an engine has for them.

use llmprof_predict::{EngineLimits, EngineMemory, PredictError, parallel::ParallelModel};
use llmprof_theory::{Workload, device::Device};
use llmprof_units::Bytes;

/// Prompts by which it is found: long ones, so that a sliding window counts as it does where memory is short.
const PROBE_PROMPT_TOKENS: [u64; 2] = [1024, 2048];

/// Memory of an engine and of one of its sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SequenceMemory {
    /// Bytes of each token.
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
