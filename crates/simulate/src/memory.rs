//! What sequences take of a device's memory.

use llmprof_predict::PredictError;
use llmprof_theory::{MemoryFit, Workload};

/// Prompts by which it is found: long ones, so that a sliding window counts as it does where memory is short.
const PROMPTS: [u64; 2] = [1024, 2048];

/// Memory of one sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SequenceMemory {
    /// Bytes of each token.
    pub token: f64,
    /// Bytes whatever its length: states of layers without a KV cache, and windows that are full.
    pub whole: f64,
    /// Of a workload with one sequence.
    pub fit: MemoryFit,
}

impl SequenceMemory {
    /// By what `fit` says of one sequence in the formats of `base`.
    pub fn of(
        base: &Workload,
        fit: impl Fn(&Workload) -> Result<MemoryFit, PredictError>,
    ) -> Result<Self, PredictError> {
        let [short, long] = PROMPTS.map(|prompt| {
            fit(&Workload {
                batch: 1,
                prompt,
                new_tokens: 1,
                cached: 0,
                chunk: None,
                ..*base
            })
        });
        let (short, long) = (short?, long?);
        let [fewer, more] = PROMPTS.map(|prompt| prompt as f64);
        let token = (long.kv_bytes.0 as f64 - short.kv_bytes.0 as f64) / (more - fewer);
        Ok(Self {
            token,
            whole: (short.kv_bytes.0 as f64 - fewer * token).max(0.0),
            fit: long,
        })
    }

    /// Blocks that a sequence holds whatever its length.
    pub fn sequence_blocks(&self, block_size: u64) -> u64 {
        if self.token > 0.0 {
            (self.whole / (self.token * block_size as f64)).round() as u64
        } else {
            0
        }
    }
}
