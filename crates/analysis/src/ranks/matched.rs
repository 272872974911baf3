//! Which collectives of several ranks are one.
//!
//! Within a process group by the sequence number that PyTorch gives; where none is recorded, by order: the lists of two ranks
//! are aligned with the shift that makes the kinds agree and the ends differ by the most constant amount, since
//! the ends of one collective are one moment and their difference is that of the clocks.

use std::collections::BTreeMap;

use llmprof_record::rank_summary::ProcessGroup;
use llmprof_units::stats::median_deviation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ranks::work::{Instance, RankCalls};
use crate::row_order::sort_ascending;
use crate::thresholds::RANK_LISTS_AGREE_MIN_SHARE;

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
/// A shift is accepted at once if the ends agree to this.
const CLOSE_SPREAD_NS: i64 = 1_000;

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
    let instance = |rank: usize, index: usize| &ranks[rank].collectives[index];
    for (&rank, list) in lists {
        let left: Vec<&Instance> = reference
            .iter()
            .map(|&index| instance(first, index))
            .collect();
        let right: Vec<&Instance> = list.iter().map(|&index| instance(rank, index)).collect();
        let Some(shift) = best_shift(&left, &right) else {
            continue;
        };
        for (place, matched) in all.iter_mut().enumerate() {
            let other = usize::try_from(place as i64 + shift).ok();
            if let Some(other) = other.filter(|other| *other < list.len())
                && may_match(left[place], right[other])
            {
                matched.members.push((rank, list[other]));
            }
        }
    }
    all
}

/// Whether two instances may be one collective. Sizes may differ, as those of all-to-all do.
fn may_match(left: &Instance, right: &Instance) -> bool {
    left.kind == right.kind
}

/// By how many places the second list is behind the first; `None` if no shift makes them agree.
fn best_shift(left: &[&Instance], right: &[&Instance]) -> Option<i64> {
    let most = SHIFT_MAX.min(left.len().max(right.len())) as i64;
    let mut best: Option<(i64, i64)> = None;
    // The smallest shift first: another must be clearly better.
    let mut shifts: Vec<i64> = (-most..=most).collect();
    sort_ascending(&mut shifts, |shift| shift.abs());
    for shift in shifts {
        let Some(spread) = spread_at(left, right, shift) else {
            continue;
        };
        if best.is_none_or(|(least, _)| spread < least / 2) {
            best = Some((spread, shift));
        }
        if spread <= CLOSE_SPREAD_NS {
            break;
        }
    }
    best.map(|(_, shift)| shift)
}

/// The median distance of the end differences from their median, ns; `None` if the kinds disagree or too few overlap.
fn spread_at(left: &[&Instance], right: &[&Instance], shift: i64) -> Option<i64> {
    let pairs: Vec<(&Instance, &Instance)> = left
        .iter()
        .enumerate()
        .filter_map(|(place, &left)| {
            let other = usize::try_from(place as i64 + shift).ok()?;
            Some((left, *right.get(other)?))
        })
        .collect();
    if pairs.len() * 2 < left.len().min(right.len()) || pairs.is_empty() {
        return None;
    }
    let agree = pairs
        .iter()
        .filter(|(left, right)| may_match(left, right))
        .count();
    if (agree as f64) < RANK_LISTS_AGREE_MIN_SHARE * pairs.len() as f64 {
        return None;
    }
    let differences = pairs
        .iter()
        .map(|(left, right)| right.end.saturating_sub(left.end));
    let mut differences: Vec<i64> = differences.collect();
    median_deviation(&mut differences).map(|(_, spread)| spread)
}
