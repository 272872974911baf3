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
    /// Width of the table that the tokens were looked up in: that of a draft model is another one.
    pub(crate) width: u64,
    /// Whether it is the encoder's: the tokens after it are attended to by a decoder that begins with an empty cache.
    pub(crate) is_encoder: bool,
}

impl ForwardPass {
    pub(crate) fn is_decode(&self) -> bool {
        self.new == 1 && self.cached > 0
    }

    /// Width and layers of the model that ran.
    pub(crate) fn model(&self) -> (u64, u64) {
        (self.width, self.attentions)
    }

    /// Tokens of each sequence in the KV cache after the pass.
    pub(super) fn length(&self) -> u64 {
        self.cached.saturating_add(self.new)
    }

    /// Whether a pass that continues a cache reads the prompt: a chunk as long as those before it, the last and shorter one, or the next
    /// prompt of a conversation, after which tokens come one by one. `chunk` is the length of chunks so far.
    pub(super) fn is_part_of_prompt(&self, chunk: Option<u64>, next: Option<&Self>) -> bool {
        let is_read = |next: &Self| next.is_decode() && next.cached == self.length();
        let is_last = |next: &Self| chunk.is_some() && next.cached == 0;
        chunk == Some(self.new) || next.is_some_and(|next| is_read(next) || is_last(next))
    }

    pub(crate) fn sequences(&self) -> Sequences {
        Sequences {
            count: self.batch,
            new: self.new,
            cached: self.cached,
        }
    }
}
