//! What a serving engine is started with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Settings of the scheduler, under vLLM's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags that an engine is started with"
)]
pub struct Settings {
    /// New tokens of a step at most.
    pub max_num_batched_tokens: u64,
    /// Sequences that run at once at most.
    pub max_num_seqs: u64,
    /// Tokens of a KV block.
    pub block_size: u64,
    /// KV blocks that requests can have.
    pub kv_blocks: u64,
    /// Those that a running sequence holds whatever its length: states of layers without a KV cache.
    #[serde(default)]
    pub sequence_blocks: u64,
    /// Whether a prompt may be split over steps.
    pub chunked_prefill: bool,
    /// Whether blocks of equal content are computed once.
    pub prefix_caching: bool,
    /// Whether a request starts only when its whole prompt has blocks, though only a chunk of it is computed
    /// (`scheduler_reserve_full_isl`).
    pub reserve_full_prompt: bool,
    /// Whether a request starts only when its whole answer has blocks too, so that nothing is ever preempted (TensorRT-LLM's `GUARANTEED_NO_EVICT`).
    pub reserve_answer: bool,
    /// Whether the next step is put together while one runs (`async_scheduling`): a request that comes meanwhile waits for the step after it.
    pub async_scheduling: bool,
    /// Steps that prompts are held back for more to come while others decode (TensorRT-LLM's `batch_wait_timeout_iters`)…
    pub wait_steps: u64,
    /// …unless they and the decoding sequences have so many tokens (its `batch_wait_max_tokens_ratio` of a step).
    pub wait_tokens: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_num_batched_tokens: 8192,
            max_num_seqs: 256,
            block_size: 16,
            kv_blocks: 16_384,
            sequence_blocks: 0,
            chunked_prefill: true,
            prefix_caching: true,
            reserve_full_prompt: true,
            reserve_answer: false,
            async_scheduling: false,
            wait_steps: 0,
            wait_tokens: 0,
        }
    }
}

/// Settings that no engine starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// Decoding sequences alone would not fit a step.
    #[error(
        "max_num_batched_tokens ({tokens}) must be at least max_num_seqs ({sequences}): each running sequence needs a token of a step"
    )]
    FewTokens { tokens: u64, sequences: u64 },
    #[error("{name} is {value}, more than {most}")]
    TooMuch {
        name: &'static str,
        value: u64,
        most: u64,
    },
}

/// Upper limit of every setting: products of two settings stay below 2⁶⁴.
const SETTING_MAX: u64 = 1 << 31;

impl Settings {
    /// What is wrong with it.
    pub fn check_values(&self) -> Result<(), SettingsError> {
        let named = [
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("max_num_seqs", self.max_num_seqs),
            ("block_size", self.block_size),
            ("kv_blocks", self.kv_blocks),
        ];
        for (name, value) in named {
            if value == 0 {
                return Err(SettingsError::Zero(name));
            }
            if value > SETTING_MAX {
                return Err(SettingsError::TooMuch {
                    name,
                    value,
                    most: SETTING_MAX,
                });
            }
        }
        if self.max_num_batched_tokens < self.max_num_seqs {
            return Err(SettingsError::FewTokens {
                tokens: self.max_num_batched_tokens,
                sequences: self.max_num_seqs,
            });
        }
        Ok(())
    }

    /// Number of KV blocks that hold `tokens` tokens.
    pub(crate) fn blocks_for(&self, tokens: u64) -> u64 {
        tokens.div_ceil(self.block_size)
    }

    /// Whether the engine could ever finish such a request.
    pub fn can_serve(&self, prompt: u64, output: u64) -> bool {
        // The last token is sampled, not computed.
        let fits = self.blocks_for(prompt + output - 1) + self.sequence_blocks <= self.kv_blocks;
        // After a preemption, what was generated is computed with the prompt.
        let longest = if self.reserve_answer {
            prompt
        } else {
            prompt + output - 1
        };
        let whole = self.chunked_prefill || longest <= self.max_num_batched_tokens;
        fits && whole
    }
}
