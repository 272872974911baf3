//! What is known of the sequences on one side of a step, and the sums that attention needs of them.

use serde::{Deserialize, Serialize};

use crate::{
    count::saturating_product,
    operator::Phase,
    workload::{AttentionConvention, Pass},
};

/// Equal sequences of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sequences {
    /// Number of sequences that have these token counts.
    pub count: u64,
    /// Tokens of each that go through the model in this step.
    pub new: u64,
    /// Tokens of each that are in the KV cache before it.
    pub cached: u64,
}

/// Sums over sequences, as the detailed labels of vLLM and SGLang give them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SequenceSums {
    /// Number of sequences that the sums cover.
    pub sequences: u64,
    /// Sum of new tokens; vLLM's label calls it `sq`.
    pub new: u64,
    /// Σ new and cached tokens (`sk`).
    pub total: u64,
    /// Sum of squared new tokens; vLLM's label calls it `sqsq`.
    pub new_squared: u64,
    /// Σ new × (new + cached) (`sqsk`).
    pub new_total: u64,
}

impl SequenceSums {
    /// Whether some sequences of at least one new token have these sums, as far as inequalities tell.
    pub fn is_consistent(&self) -> bool {
        let wide = u128::from;
        let Self {
            sequences,
            new,
            total,
            new_squared,
            new_total,
        } = *self;
        if sequences == 0 {
            return *self == Self::default();
        }
        let cached = wide(total).saturating_sub(wide(new));
        let products = wide(new_total).saturating_sub(wide(new_squared));
        // The longest that one sequence can be, the others having one new token each.
        let longest = wide(new).saturating_sub(wide(sequences) - 1);
        new >= sequences
            && total >= new
            && new_total >= new_squared
            // Cauchy: equal lengths have the smallest sum of squares.
            && wide(new_squared) * wide(sequences) >= wide(new) * wide(new)
            && wide(new_squared) < longest * longest + wide(sequences)
            && (new_squared - new).is_multiple_of(2)
            && products >= cached
            && products <= cached * longest
    }

    /// The sequences themselves, where the sums leave no choice.
    fn unique_sequences(&self) -> Option<Sequences> {
        let equal = u128::from(self.new_squared) * u128::from(self.sequences)
            == u128::from(self.new) * u128::from(self.new);
        let is_determined = self.sequences == 1 || (equal && self.total == self.new);
        (is_determined && self.sequences > 0).then(|| Sequences {
            count: self.sequences,
            new: self.new / self.sequences,
            cached: (self.total - self.new) / self.sequences,
        })
    }
}

/// One side of a step: the sequences that are in prefill, or those that decode.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The token counts of every sequence, equal sequences counted together.
    Groups(Vec<Sequences>),
    /// Their sums are known: costs are exact except under a sliding window.
    Sums(SequenceSums),
    /// Only new tokens are known: what reads the cache is bounded from below.
    Counts {
        /// Number of sequences that the new tokens belong to.
        sequences: u64,
        /// New tokens of all of them.
        new: u64,
    },
}

impl Default for Part {
    fn default() -> Self {
        Self::Groups(Vec::new())
    }
}

/// Which end of what the facts allow is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Lower,
    Upper,
}

/// What the attention of some sequences meets, summed over them and over the steps of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) sequences: u64,
    pub(crate) new: u64,
    /// Σ over queries of the keys that a query meets.
    pub(crate) keys: u64,
    /// Cached tokens within the window.
    pub(crate) cached: u64,
    /// Queries of a sequence in one step: the mean, rounded up, where they differ.
    pub(crate) queries: u64,
    /// Keys of a sequence in the first step: the mean, rounded up, where they differ.
    pub(crate) keys_at_first: u64,
    /// Whether a bound stands in for what is not known.
    pub(crate) bounded: bool,
}

impl Reach {
    pub(crate) fn combined_with(self, other: Self) -> Self {
        let sum = |of: fn(&Self) -> u64| of(&self).saturating_add(of(&other));
        Self {
            sequences: sum(|reach| reach.sequences),
            new: sum(|reach| reach.new),
            keys: sum(|reach| reach.keys),
            cached: sum(|reach| reach.cached),
            bounded: self.bounded || other.bounded,
            ..Self::default()
        }
        .with_means()
    }

    fn with_means(self) -> Self {
        let mean = |sum: u64| sum.div_ceil(self.sequences.max(1));
        Self {
            queries: mean(self.new),
            keys_at_first: mean(self.cached.saturating_add(self.new)),
            ..self
        }
    }
}

impl Part {
    pub fn sequences(&self) -> u64 {
        match self {
            Self::Groups(groups) => saturating_total(groups, |group| group.count),
            Self::Sums(sums) => sums.sequences,
            Self::Counts { sequences, .. } => *sequences,
        }
    }

    /// New tokens of all sequences.
    pub fn new_tokens(&self) -> u64 {
        match self {
            Self::Groups(groups) => saturating_total(groups, |group| {
                saturating_product(&[group.count, group.new])
            }),
            Self::Sums(sums) => sums.new,
            Self::Counts { new, .. } => *new,
        }
    }

    /// Cached tokens of all sequences; `None` where they are not known.
    pub fn cached_tokens(&self) -> Option<u64> {
        match self {
            Self::Groups(groups) => Some(saturating_total(groups, |group| {
                saturating_product(&[group.count, group.cached])
            })),
            Self::Sums(sums) => Some(sums.total.saturating_sub(sums.new)),
            Self::Counts { new, .. } => (*new == 0).then_some(0),
        }
    }

    /// Its sequences; as equal as whole numbers allow where only their sums are known, with nothing cached where that is not known.
    pub fn sequence_groups(&self) -> Vec<Sequences> {
        let (sequences, new, cached) = match self {
            Self::Groups(groups) => return groups.clone(),
            Self::Sums(sums) => (
                sums.sequences,
                sums.new,
                sums.total.saturating_sub(sums.new),
            ),
            Self::Counts { sequences, new } => (*sequences, *new, 0),
        };
        let each = cached / sequences.max(1);
        let mut groups = balanced_groups(sequences, new).to_vec();
        for group in &mut groups {
            group.cached = each;
        }
        groups.retain(|group| group.count > 0);
        groups
    }

    /// True where the part has no sequences.
    pub fn is_empty(&self) -> bool {
        self.sequences() == 0
    }

    /// The keys that the attention of these sequences reads.
    pub(crate) fn reach(
        &self,
        convention: AttentionConvention,
        window: Option<u64>,
        bound: Bound,
    ) -> Reach {
        let window = window.unwrap_or(u64::MAX).max(1);
        let (keys, cached, bounded) = match self {
            Self::Groups(groups) => {
                let (keys, cached) = of_groups(groups, convention, window);
                (keys, cached, false)
            }
            Self::Sums(sums) => match sums.unique_sequences() {
                Some(group) => {
                    let (keys, cached) = of_groups(&[group], convention, window);
                    (keys, cached, false)
                }
                None => of_sums(sums, convention, window, bound),
            },
            // Sequences of equal length with nothing cached meet the fewest keys.
            Self::Counts { sequences, new } => {
                let groups = balanced_groups(*sequences, *new);
                (of_groups(&groups, convention, window).0, 0, *new > 0)
            }
        };
        Reach {
            sequences: self.sequences(),
            new: self.new_tokens(),
            keys,
            cached,
            bounded,
            ..Reach::default()
        }
        .with_means()
    }

    /// Chunks of `size` tokens that the new tokens of each sequence make, and whether that is a bound: sums do not tell how full the last ones are.
    pub(crate) fn chunk_count(&self, size: u64, bound: Bound) -> (u64, bool) {
        let exact =
            |group: &Sequences| saturating_product(&[group.count, group.new.div_ceil(size)]);
        match self {
            Self::Groups(groups) => return (saturating_total(groups, exact), false),
            Self::Sums(sums) => {
                if let Some(group) = sums.unique_sequences() {
                    return (exact(&group), false);
                }
            }
            Self::Counts { .. } => {}
        }
        let (sequences, new) = (self.sequences(), self.new_tokens());
        let chunks = match bound {
            Bound::Lower => new.div_ceil(size).max(sequences),
            Bound::Upper => (new.saturating_sub(sequences) / size).saturating_add(sequences),
        };
        (chunks, size > 1 && new > 0)
    }

    /// Sequences with cached tokens, and whether that is a bound.
    pub(crate) fn continued_sequences(&self, bound: Bound) -> (u64, bool) {
        let exact = |group: &Sequences| if group.cached > 0 { group.count } else { 0 };
        let cached = match self {
            Self::Groups(groups) => return (saturating_total(groups, exact), false),
            Self::Sums(sums) => match sums.unique_sequences() {
                Some(group) => return (exact(&group), false),
                None => sums.total.saturating_sub(sums.new),
            },
            Self::Counts { .. } if bound == Bound::Lower => 0,
            Self::Counts { .. } => u64::MAX,
        };
        let continued = match bound {
            Bound::Lower => cached.min(1),
            Bound::Upper => cached.min(self.sequences()),
        };
        let is_all_new = matches!(self, Self::Sums(_)) && cached == 0;
        (continued, !is_all_new && !self.is_empty())
    }

    /// The intervals of the new tokens' positions where they are known, else the least or largest number of distinct
    /// positions.
    pub(crate) fn collect_positions(&self, bound: Bound, intervals: &mut Vec<(u64, u64)>) -> u64 {
        let interval = |group: &Sequences| (group.cached, group.cached.saturating_add(group.new));
        match self {
            Self::Groups(groups) => {
                let used = groups.iter().filter(|group| group.count > 0);
                intervals.extend(used.map(interval));
                return 0;
            }
            Self::Sums(sums) => {
                if let Some(group) = sums.unique_sequences() {
                    intervals.push(interval(&group));
                    return 0;
                }
            }
            Self::Counts { .. } => {}
        }
        match bound {
            Bound::Lower => self.new_tokens().div_ceil(self.sequences().max(1)),
            Bound::Upper => self.new_tokens(),
        }
    }
}

fn saturating_total(groups: &[Sequences], of: impl Fn(&Sequences) -> u64) -> u64 {
    groups
        .iter()
        .fold(0, |sum, group| sum.saturating_add(of(group)))
}

/// Two groups of `new` tokens in `sequences` as equal as whole numbers allow, nothing cached.
fn balanced_groups(sequences: u64, new: u64) -> [Sequences; 2] {
    let group = |count, new| Sequences {
        count,
        new,
        cached: 0,
    };
    let each = new / sequences.max(1);
    let longer = new % sequences.max(1);
    [
        group(longer, each.saturating_add(1)),
        group(sequences - longer.min(sequences), each),
    ]
}

/// Keys met and cached tokens within the window of known sequences.
fn of_groups(groups: &[Sequences], convention: AttentionConvention, window: u64) -> (u64, u64) {
    let mut sums = (0u64, 0u64);
    for group in groups {
        let pass = Pass {
            phase: Phase::Prefill,
            batch: group.count,
            queries: group.new,
            past: group.cached,
            steps: 1,
            logits: 0,
        };
        let keys = pass.keys_sum(convention, Some(window));
        sums.0 = sums
            .0
            .saturating_add(saturating_product(&[group.count, keys]));
        let cached = group.cached.min(window - 1);
        sums.1 = sums
            .1
            .saturating_add(saturating_product(&[group.count, cached]));
    }
    sums
}

/// As [`of_groups`], from sums; the last value tells whether a bound had to be taken.
///
/// With `n` new of `t` tokens, a query at position `p` (from 1) sees `p` keys, so Σ keys = Σ n·t − (Σ n² − Σ n)/2 without a
/// window. Under one each query sees `min(p, w)`, which is concave in `p`: the mean position bounds the sum from above, the
/// chord from position 1 to the last position that any sequence can have bounds it from below.
fn of_sums(
    sums: &SequenceSums,
    convention: AttentionConvention,
    window: u64,
    bound: Bound,
) -> (u64, u64, bool) {
    let wide = u128::from;
    let narrow = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
    let (new, window, back) = (wide(sums.new), wide(window), wide(window - 1));
    let cached = wide(sums.total.saturating_sub(sums.new));
    let products = wide(sums.new_total.saturating_sub(sums.new_squared));
    // The longest that one sequence can be, the others having one token each.
    let longest = wide(sums.total).saturating_sub(wide(sums.sequences.saturating_sub(1)));
    // min(c, back) ≥ c × back ÷ the largest c, which is at most all cached tokens.
    let clipped = |sum: u128, weight: u128| match bound {
        _ if cached <= back => sum,
        Bound::Upper => sum.min(weight * back),
        Bound::Lower => sum.saturating_mul(back).div_ceil(cached),
    };
    let read = clipped(cached, wide(sums.sequences));
    let triangles = wide(sums.new_squared.saturating_sub(sums.new)) / 2;
    let positions = wide(sums.new_total).saturating_sub(triangles);
    let most = positions.min(new * window);
    let keys = match (convention, bound) {
        (AttentionConvention::Full, _) => wide(sums.new_squared) + clipped(products, new),
        (AttentionConvention::Causal, _) if longest <= window => positions,
        (AttentionConvention::Causal, Bound::Upper) => most,
        (AttentionConvention::Causal, Bound::Lower) => {
            let above = positions.saturating_sub(new).saturating_mul(back);
            let chord = new + above.div_ceil((longest - 1).max(1));
            let alone = balanced_groups(sums.sequences, sums.new);
            let alone = wide(of_groups(&alone, convention, narrow(window)).0);
            chord.max(alone).min(most)
        }
    };
    let clips = match convention {
        AttentionConvention::Full => cached > back,
        AttentionConvention::Causal => longest > window || cached > back,
    };
    (narrow(keys), narrow(read), clips)
}
