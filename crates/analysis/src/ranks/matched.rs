//! Which collectives of several ranks are one.
//!
//! Within a process group by the sequence number that PyTorch gives; where none is recorded, by order: the lists of two ranks
//! are aligned with the shift that makes the kinds and the numbers of steps agree and the ends differ by the most constant amount, since
//! the ends of one collective are one moment and their difference is that of the clocks. Steps that are alike fit as well one step
//! later: where another shift is as good, nothing is matched.

use std::collections::BTreeMap;

use llmprof_record::rank_summary::ProcessGroup;
use llmprof_units::stats::median_deviation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ranks::work::{Instance, RankCalls};
use crate::thresholds::{
    CLOCK_SPREAD_MIN_NS, ORDER_PAIRS_MIN, RANK_LISTS_AGREE_MIN_SHARE, RIVAL_SPREAD_MIN_RATIO,
};

/// How collectives of different ranks were recognized as one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum MatchedBy {
    /// Process group and sequence number.
    Sequence,
    /// The order of the same kinds.
    Order,
}

/// One collective on all ranks that took part.
#[derive(Clone, Debug)]
pub(super) struct Matched {
    /// Indices of ranks and of their instances.
    pub(super) members: Vec<(usize, usize)>,
    pub(super) by: MatchedBy,
}

/// Largest shift between two lists that is tried, to either side.
const SHIFT_MAX: usize = 256;
/// Pairs whose ends are compared for one shift: enough for a median, so that jobs of thousands of ranks stay fast.
const PAIRS_SAMPLED_MAX: usize = 256;

/// Matches the collectives that at least two ranks have.
pub(super) fn match_collectives(ranks: &[&RankCalls]) -> Vec<Matched> {
    // Instances of each group, rank by rank.
    let mut groups: BTreeMap<&ProcessGroup, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    for (rank, calls) in ranks.iter().enumerate() {
        let mut lists = vec![Vec::new(); calls.groups.len()];
        for (index, instance) in calls.collectives.iter().enumerate() {
            lists[instance.group as usize].push(index);
        }
        for (group, list) in calls.groups.iter().zip(lists) {
            if !list.is_empty() {
                groups.entry(group).or_default().insert(rank, list);
            }
        }
    }
    let mut all = Vec::new();
    for lists in groups.values() {
        let mut by_sequence: BTreeMap<i64, Vec<(usize, usize)>> = BTreeMap::new();
        let mut unnumbered: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (&rank, list) in lists {
            for &index in list {
                match ranks[rank].collectives[index].sequence {
                    Some(sequence) => by_sequence.entry(sequence).or_default().push((rank, index)),
                    None => unnumbered.entry(rank).or_default().push(index),
                }
            }
        }
        all.extend(by_sequence.into_values().map(|members| Matched {
            members,
            by: MatchedBy::Sequence,
        }));
        all.extend(by_order(ranks, &unnumbered));
    }
    all.retain(|matched| matched.members.len() > 1);
    all
}

/// Aligns the list of each rank with that of the first.
fn by_order(ranks: &[&RankCalls], lists: &BTreeMap<usize, Vec<usize>>) -> Vec<Matched> {
    let mut lists = lists.iter();
    let Some((&first, reference)) = lists.next() else {
        return Vec::new();
    };
    let mut all: Vec<Matched> = reference
        .iter()
        .map(|&index| Matched {
            members: vec![(first, index)],
            by: MatchedBy::Order,
        })
        .collect();
    let rank_list = |rank: usize, list: &[usize]| RankList {
        calls: ranks[rank],
        instances: list
            .iter()
            .map(|&index| &ranks[rank].collectives[index])
            .collect(),
    };
    let left = rank_list(first, reference);
    for (&rank, list) in lists {
        let right = rank_list(rank, list);
        let Some(shift) = best_shift(&left, &right) else {
            continue;
        };
        for (place, matched) in all.iter_mut().enumerate() {
            let other = usize::try_from(place as i64 + shift).ok();
            if let Some(other) = other.filter(|other| *other < list.len())
                && may_match(left.instances[place], right.instances[other])
            {
                matched.members.push((rank, list[other]));
            }
        }
    }
    all
}

/// Collectives of one process group on one rank.
struct RankList<'a> {
    calls: &'a RankCalls,
    instances: Vec<&'a Instance>,
}

/// Whether two instances may be one collective. Sizes may differ, as those of all-to-all do.
fn may_match(left: &Instance, right: &Instance) -> bool {
    left.kind == right.kind
}

/// How well two lists agree, moved by some places.
#[derive(Clone, Copy)]
struct Fit {
    shift: i64,
    /// Part of the pairs that lie in steps of one number; 1 where steps have none.
    same_step: f64,
    /// The median distance of the end differences from their median, ns.
    spread: i64,
}

/// By how many places the second list is behind the first; `None` if no shift makes them agree, or several do as well.
fn best_shift(left: &RankList<'_>, right: &RankList<'_>) -> Option<i64> {
    let most = SHIFT_MAX.min(left.instances.len().max(right.instances.len())) as i64;
    let mut fits: Vec<Fit> = (-most..=most)
        .filter_map(|shift| fit_at(left, right, shift))
        .collect();
    let same_step = fits.iter().map(|fit| fit.same_step).fold(0.0, f64::max);
    fits.retain(|fit| fit.same_step >= same_step);
    fits.sort_by_key(|fit| (fit.spread, fit.shift.abs()));
    let (best, rivals) = fits.split_first()?;
    let clear = RIVAL_SPREAD_MIN_RATIO.saturating_mul(best.spread.max(CLOCK_SPREAD_MIN_NS));
    let is_clear = rivals.first().is_none_or(|rival| rival.spread >= clear);
    is_clear.then_some(best.shift)
}

/// `None` if the kinds or most steps disagree, or too few overlap.
fn fit_at(left: &RankList<'_>, right: &RankList<'_>, shift: i64) -> Option<Fit> {
    let (lefts, rights) = (&left.instances, &right.instances);
    let pairs: Vec<(&Instance, &Instance)> = lefts
        .iter()
        .enumerate()
        .filter_map(|(place, &left)| {
            let other = usize::try_from(place as i64 + shift).ok()?;
            Some((left, *rights.get(other)?))
        })
        .collect();
    let (shorter, longer) = (lefts.len().min(rights.len()), lefts.len().max(rights.len()));
    // The ends of a few pairs differ by much the same whatever they are: only lists that agree as a whole may be as short.
    let is_whole = shift == 0 && shorter == longer;
    if pairs.len() * 2 < shorter || pairs.is_empty() || pairs.len() < ORDER_PAIRS_MIN && !is_whole {
        return None;
    }
    let agree = pairs
        .iter()
        .filter(|(left, right)| may_match(left, right))
        .count();
    if (agree as f64) < RANK_LISTS_AGREE_MIN_SHARE * pairs.len() as f64 {
        return None;
    }
    let numbered = pairs.iter().filter_map(|(one, other)| {
        let step = left.calls.step_at(one.end)?;
        Some(step == right.calls.step_at(other.end)?)
    });
    let in_step: Vec<bool> = numbered.collect();
    let same = in_step.iter().filter(|same| **same).count();
    if 2 * same < in_step.len() {
        return None;
    }
    let sampled = pairs
        .iter()
        .step_by(pairs.len().div_ceil(PAIRS_SAMPLED_MAX));
    let differences = sampled.map(|(left, right)| right.end.saturating_sub(left.end));
    let mut differences: Vec<i64> = differences.collect();
    let (_, spread) = median_deviation(&mut differences)?;
    Some(Fit {
        shift,
        same_step: if in_step.is_empty() {
            1.0
        } else {
            same as f64 / in_step.len() as f64
        },
        spread,
    })
}
