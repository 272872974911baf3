//! What is in a step, and how long it takes.

use llmprof_units::Nanos;

/// A step as far as its time depends on it: sums over its sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Sequences that have prompt tokens in it.
    pub prefill_sequences: u64,
    /// Their new tokens.
    pub prefill_tokens: u64,
    /// Σ new².
    pub prefill_squared: u64,
    /// Σ new × tokens that were in the KV cache before.
    pub prefill_cached: u64,
    /// Σ tokens that were in the KV cache before.
    pub prefill_context: u64,
    /// Sequences that decode, one new token each.
    pub decode_sequences: u64,
    /// Σ tokens that were in the KV cache before.
    pub decode_context: u64,
}

impl Shape {
    /// Adds a sequence in prefill.
    pub fn add_prefill(&mut self, new: u64, cached: u64) {
        self.prefill_sequences += 1;
        self.prefill_tokens += new;
        self.prefill_squared += new * new;
        self.prefill_cached += new * cached;
        self.prefill_context += cached;
    }

    pub fn tokens(&self) -> u64 {
        self.prefill_tokens + self.decode_sequences
    }

    pub fn sequences(&self) -> u64 {
        self.prefill_sequences + self.decode_sequences
    }

    /// New and cached tokens of all sequences.
    pub fn context(&self) -> u64 {
        self.prefill_context + self.decode_context + self.tokens()
    }
}

/// How long a step takes.
pub trait StepTime {
    /// From the start of a step to the start of the next one; at least 1 ns, so that time passes.
    fn time(&self, shape: &Shape) -> Nanos;
}

impl<F: Fn(&Shape) -> Nanos> StepTime for F {
    fn time(&self, shape: &Shape) -> Nanos {
        self(shape)
    }
}
