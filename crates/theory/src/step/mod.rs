//! One step of a server: any sequences with any new and cached tokens, costed as one run through the model.

mod part;

use serde::{Deserialize, Serialize};

pub(crate) use part::{Bound, Reach};
pub use part::{Part, SequenceSums, Sequences};

use crate::{
    error::WorkloadError,
    operator::Phase,
    workload::{AttentionConvention, Logits, Pass},
};

/// The sequences of one step. Linear layers run over all new tokens at once; attention over each sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Step {
    /// Sequences in prefill, chunks included.
    pub prefill: Part,
    /// Sequences that decode. Under speculation each has several new tokens.
    pub decode: Part,
    /// Positions of all sequences whose logits are computed; absent is one per sequence, or as the workload says.
    pub logits: Option<u64>,
}

/// Which sequences of a step an operator serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Both,
    Prefill,
    Decode,
}

/// A step in a [`Lowering`].
#[derive(Clone, Copy)]
pub(crate) struct Batch<'s> {
    pub(crate) step: &'s Step,
    pub(crate) bound: Bound,
}

impl Step {
    /// A step of known sequences: those with one new token after cached ones decode, the others are in prefill.
    pub fn of_sequences(sequences: impl IntoIterator<Item = Sequences>) -> Self {
        let (decode, prefill) = sequences
            .into_iter()
            .partition(|group: &Sequences| group.new == 1 && group.cached > 0);
        Self {
            prefill: Part::Groups(prefill),
            decode: Part::Groups(decode),
            logits: None,
        }
    }

    /// A step in which every sequence decodes.
    pub fn all_decode(part: Part) -> Self {
        Self {
            decode: part,
            ..Self::default()
        }
    }

    /// A step in which every sequence is in prefill.
    pub fn all_prefill(part: Part) -> Self {
        Self {
            prefill: part,
            ..Self::default()
        }
    }

    /// The first step of a pass.
    pub fn first_of(pass: &Pass) -> Self {
        let sequences = Part::Groups(vec![Sequences {
            count: pass.batch,
            new: pass.queries,
            cached: pass.past,
        }]);
        Self {
            logits: Some(pass.batch.saturating_mul(pass.logits)),
            ..match pass.phase {
                Phase::Decode => Self::all_decode(sequences),
                _ => Self::all_prefill(sequences),
            }
        }
    }

    pub fn sequences(&self) -> u64 {
        let decode = self.decode.sequences();
        self.prefill.sequences().saturating_add(decode)
    }

    /// New tokens of all sequences: rows of a linear layer.
    pub fn new_tokens(&self) -> u64 {
        let decode = self.decode.new_tokens();
        self.prefill.new_tokens().saturating_add(decode)
    }

    /// Cached tokens of all sequences; `None` where they are not known.
    pub fn cached_tokens(&self) -> Option<u64> {
        let decode = self.decode.cached_tokens()?;
        Some(self.prefill.cached_tokens()?.saturating_add(decode))
    }

    /// The step of one of `ranks` groups of ranks that the sequences are dealt out to, longest prompts first: of the one that has most.
    #[must_use]
    pub fn busiest_share(&self, ranks: u64) -> Self {
        if ranks <= 1 {
            return self.clone();
        }
        let mut before = 0u64;
        let mut deal = |part: &Part| {
            let mut groups = part.sequence_groups();
            groups.sort_by_key(|group| std::cmp::Reverse(group.new));
            for group in &mut groups {
                let first = before;
                before = before.saturating_add(group.count);
                group.count = before.div_ceil(ranks) - first.div_ceil(ranks);
            }
            groups.retain(|group| group.count > 0);
            Part::Groups(groups)
        };
        Self {
            prefill: deal(&self.prefill),
            decode: deal(&self.decode),
            logits: self.logits.map(|logits| logits.div_ceil(ranks)),
        }
    }

    /// True where some sequences are in prefill and others decode.
    pub fn is_mixed(&self) -> bool {
        !self.prefill.is_empty() && !self.decode.is_empty()
    }

    /// The phase of its operators. A mixed step costs like prefill: its linear layers have many rows.
    pub fn phase(&self) -> Phase {
        if self.prefill.is_empty() {
            Phase::Decode
        } else {
            Phase::Prefill
        }
    }

    /// Refuses sequences without new tokens, and sums that no sequences have.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        for (field, part) in [("prefill", &self.prefill), ("decode", &self.decode)] {
            let good = match part {
                Part::Groups(groups) => groups.iter().all(|group| group.count > 0 && group.new > 0),
                Part::Sums(sums) => sums.is_consistent(),
                Part::Counts { sequences, new } => {
                    new >= sequences && (*sequences > 0 || *new == 0)
                }
            };
            if !good {
                return Err(WorkloadError::Sequences {
                    part: field,
                    found: format!("{part:?}"),
                });
            }
        }
        Ok(())
    }

    /// Positions of all sequences whose logits are computed.
    pub fn logit_positions(&self, logits: Logits) -> u64 {
        let prefill = match logits {
            Logits::Last => self.prefill.sequences(),
            Logits::All => self.prefill.new_tokens(),
        };
        let each = prefill.saturating_add(self.decode.sequences());
        self.logits.unwrap_or(each)
    }

    pub(crate) fn as_pass(&self, logits: Logits) -> Pass {
        Pass {
            phase: self.phase(),
            batch: 1,
            queries: self.new_tokens(),
            past: 0,
            steps: 1,
            logits: self.logit_positions(logits),
        }
    }
}

/// What a layer that keeps a state of each sequence meets in one step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recurrence {
    pub(crate) sequences: u64,
    /// Sequences that have a state already.
    pub(crate) continued: u64,
    pub(crate) new: u64,
    /// Chunks of the new tokens; the last of a sequence need not be full.
    pub(crate) chunks: u64,
    /// Whether a bound stands in for what is not known.
    pub(crate) bounded: bool,
}

impl Batch<'_> {
    /// What the attention of a side meets.
    pub(crate) fn reach(
        &self,
        side: Side,
        convention: AttentionConvention,
        window: Option<u64>,
    ) -> Reach {
        let of = |part: &Part| part.reach(convention, window, self.bound);
        match side {
            Side::Prefill => of(&self.step.prefill),
            Side::Decode => of(&self.step.decode),
            Side::Both => of(&self.step.prefill).combined_with(of(&self.step.decode)),
        }
    }

    /// What a recurrent layer meets of a side, by chunks of `size` tokens.
    pub(crate) fn recurrence(&self, side: Side, size: u64) -> Recurrence {
        let of = |part: &Part, (continued, unsure): (u64, bool)| {
            let (chunks, bounded) = part.chunk_count(size, self.bound);
            Recurrence {
                sequences: part.sequences(),
                continued,
                new: part.new_tokens(),
                chunks,
                bounded: bounded || unsure,
            }
        };
        let Step {
            prefill, decode, ..
        } = self.step;
        let prefill = || of(prefill, prefill.continued_sequences(self.bound));
        // What decodes has a state.
        let decode = || of(decode, (decode.sequences(), false));
        match side {
            Side::Prefill => prefill(),
            Side::Decode => decode(),
            Side::Both => {
                let (one, other) = (prefill(), decode());
                Recurrence {
                    sequences: one.sequences.saturating_add(other.sequences),
                    continued: one.continued.saturating_add(other.continued),
                    new: one.new.saturating_add(other.new),
                    chunks: one.chunks.saturating_add(other.chunks),
                    bounded: one.bounded || other.bounded,
                }
            }
        }
    }

    /// Sequences in prefill with nothing cached; all of them where that is not known.
    pub(crate) fn new_sequences(&self) -> u64 {
        match &self.step.prefill {
            Part::Groups(groups) => groups
                .iter()
                .filter(|group| group.cached == 0)
                .fold(0, |sum, group| sum.saturating_add(group.count)),
            other => other.sequences(),
        }
    }

    /// Distinct positions of the new tokens: rows of a table of positions that are read.
    pub(crate) fn distinct_positions(&self) -> u64 {
        let mut intervals = Vec::new();
        let parts = [&self.step.prefill, &self.step.decode];
        let unknown = parts.map(|part| part.collect_positions(self.bound, &mut intervals));
        intervals.sort_unstable();
        let (mut known, mut covered) = (0u64, 0u64);
        for (start, end) in intervals {
            known = known.saturating_add(end.saturating_sub(start.max(covered)));
            covered = covered.max(end);
        }
        match self.bound {
            Bound::Lower => known.max(unknown[0]).max(unknown[1]),
            Bound::Upper => unknown
                .iter()
                .fold(known, |sum, part| sum.saturating_add(*part)),
        }
    }
}
