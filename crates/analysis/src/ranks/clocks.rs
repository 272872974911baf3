//! Clocks of ranks, aligned by the ends of collectives.

use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::ranks::matched::Matched;
use crate::ranks::middle::{deviation, median};
use crate::ranks::work::RankWork;

/// Where the clock of one rank stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// The clock of this rank less that of the first, where both say when their zero was.
    pub offset_ns: Nanos,
    /// Half of the collectives agree with the offset to this.
    pub spread_ns: Nanos,
    /// Collectives that it was found by; 0 for the first rank, and for one that shares none.
    pub collectives: u64,
}

/// What is added to the times of each rank, and what it says of its clock.
pub(super) struct Aligned {
    pub(super) shift: Vec<i64>,
    pub(super) clocks: Vec<Clock>,
    /// Ranks that share no collective with the others: their clocks are taken as they are.
    pub(super) alone: Vec<usize>,
}

impl Aligned {
    /// Ranks with one clock.
    pub(super) fn as_is(ranks: usize) -> Self {
        Self {
            shift: vec![0; ranks],
            clocks: vec![Clock::default(); ranks],
            alone: Vec::new(),
        }
    }
}

/// Aligns the ranks one after the other, that with the most collectives in common with those before it first.
pub(super) fn aligned(ranks: &[RankWork<'_>], matched: &[Matched]) -> Aligned {
    let origin = |rank: usize| {
        ranks[rank]
            .trace
            .clock_origin_ns
            .map_or(0, |origin| origin.0)
    };
    let mut result = Aligned {
        // On the clock of the first rank, were all clocks right.
        shift: (0..ranks.len())
            .map(|rank| origin(rank).saturating_sub(origin(0)))
            .collect(),
        clocks: vec![Clock::default(); ranks.len()],
        alone: Vec::new(),
    };
    let mut done = vec![false; ranks.len()];
    done[0] = true;
    while let Some(first) = done.iter().position(|done| !done) {
        let shared = |rank: usize| differences(ranks, matched, &result.shift, &done, rank);
        let waiting = (0..ranks.len()).filter(|&rank| !done[rank]);
        let best = waiting
            .map(|rank| (shared(rank), rank))
            .max_by_key(|(found, rank)| (found.len(), usize::MAX - rank));
        let Some((mut found, rank)) = best.filter(|(found, _)| !found.is_empty()) else {
            result.alone.push(first);
            done[first] = true;
            continue;
        };
        let count = found.len() as u64;
        let (middle, spread) = deviation(&mut found);
        result.shift[rank] = result.shift[rank].saturating_sub(middle);
        result.clocks[rank] = Clock {
            offset_ns: Nanos(middle),
            spread_ns: Nanos(spread),
            collectives: count,
        };
        done[rank] = true;
    }
    result
}

/// How much later than on the aligned ranks the collectives of one rank end by its own clock. Kinds whose ends are not one
/// moment count only where there are no others.
fn differences(
    ranks: &[RankWork<'_>],
    matched: &[Matched],
    shift: &[i64],
    done: &[bool],
    rank: usize,
) -> Vec<i64> {
    let end = |rank: usize, index: usize| {
        ranks[rank].collectives[index]
            .end
            .saturating_add(shift[rank])
    };
    let mut exact = Vec::new();
    let mut rough = Vec::new();
    for matched in matched {
        let Some(&(_, index)) = matched.members.iter().find(|(member, _)| *member == rank) else {
            continue;
        };
        let others = matched.members.iter().filter(|(member, _)| done[*member]);
        let mut ends: Vec<i64> = others.map(|&(rank, index)| end(rank, index)).collect();
        if ends.is_empty() {
            continue;
        }
        let difference = end(rank, index).saturating_sub(median(&mut ends));
        if ranks[rank].collectives[index].kind.ends_together() {
            exact.push(difference);
        } else {
            rough.push(difference);
        }
    }
    if exact.is_empty() { rough } else { exact }
}
