//! One pass through the model, by the shapes of its operators.

use llmprof_theory::Sequences;

/// One pass of all sequences of a batch through the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForwardPass {
    /// When the host looked the tokens up, ns.
    pub(crate) start: i64,
    /// When the next pass began, or the thread's last host event ended.
    pub(crate) end: i64,
    pub(crate) batch: u64,
    /// New tokens of each sequence.
    pub(crate) new: u64,
    /// Tokens of each sequence in the KV cache before the pass.
    pub(crate) cached: u64,
    /// Calls of attention; 0 where the model does not call PyTorch's.
    pub(crate) attentions: u64,
    /// Whether it is the encoder's: the tokens after it are attended to by a decoder that begins with an empty cache.
    pub(crate) is_encoder: bool,
}

impl ForwardPass {
    pub(crate) fn is_decode(&self) -> bool {
        self.new == 1 && self.cached > 0
    }

    pub(crate) fn sequences(&self) -> Sequences {
        Sequences {
            count: self.batch,
            new: self.new,
            cached: self.cached,
        }
    }
}
