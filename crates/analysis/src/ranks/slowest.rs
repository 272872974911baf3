//! The rank that the others waited for most, and what it did differently before the collectives at which it came last.

use std::collections::BTreeMap;

use llmprof_units::{Nanos, stats::lower_median};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ranks::parts::{RankPart, RankPiece};
use crate::ranks::skew::{Meeting, Member};
use crate::ranks::work::RankWork;
use crate::row_order::{sort_ascending, sort_descending};
use crate::thresholds::RANK_DIFFERENCE_MIN_SHARE;
use crate::thresholds::RANK_WAITING_MIN_SHARE;
use crate::timeline::intervals::{add_saturating, union_length};

/// The rank that held the others up.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SlowestRank {
    /// Number of the rank; of GPUs of one trace, the device.
    pub rank: u32,
    /// Mean time that the others waited for it.
    pub caused_waiting_ns: Nanos,
    /// Mean time that ranks waited for any other, over all collectives.
    pub all_waiting_ns: Nanos,
    /// Collectives at which it came last, of how many.
    pub last_at: u64,
    /// Collectives that the ranks have in common, whichever rank came last.
    pub collectives: u64,
    /// What took longer on it than on the median of the others, between the collective before and the one at which it came
    /// last; the largest first.
    pub differences: Vec<SlowestDifference>,
}

/// Time that one rank spent on something, compared with the median of the others.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct SlowestDifference {
    /// The kernel, copy or operator; absent for idle time.
    pub name: Option<String>,
    /// Time that this rank spent on it before the collectives at which it came last.
    pub time_ns: Nanos,
    /// Median of the other ranks.
    pub others_ns: Nanos,
    /// Number of its calls on this rank in that time.
    pub calls: u64,
    /// Calls, median of the other ranks.
    pub others_calls: u64,
}

/// Maximum number of differences in the list.
const DIFFERENCES_MAX: usize = 5;

/// Per rank: the mean time that others waited for it in a window, and how often it came last there. `entered` is when the
/// recording of each rank began: at its first collective a rank is late by as much as it entered later, for a reason from before
/// the recording.
pub(super) fn caused_waits(
    meetings: &[Meeting],
    entered: &[i64],
    window: (i64, i64),
) -> Vec<(i64, u64)> {
    let ranks = entered.len();
    let mut caused = vec![(0_i64, 0_u64); ranks];
    // By blamed rank and waiting rank.
    let mut waits: BTreeMap<(usize, usize), Vec<(i64, i64)>> = BTreeMap::new();
    let first = first_meetings(meetings, ranks);
    for (number, meeting) in meetings.iter().enumerate() {
        if !(window.0..=window.1).contains(&meeting.last_start) {
            continue;
        }
        let is_first = first[meeting.last] == Some(number);
        let waited = |member: &Member| {
            let waited = meeting.wait_since(member, window.0);
            let late = entered[meeting.last].saturating_sub(entered[member.rank]);
            if !is_first || late <= 0 {
                return waited;
            }
            let all = meeting.wait_since(member, i64::MIN);
            waited.min(all.saturating_sub(late).max(0))
        };
        let (mut all, last) = (0_i64, meeting.last);
        for member in &meeting.members {
            // Waiting ends with the start of the last rank, or with the rank's own part.
            let (time, end) = (waited(member), meeting.last_start.min(member.end));
            add_saturating(&mut all, time);
            let known = waits.entry((last, member.rank)).or_default();
            known.push((end.saturating_sub(time), end));
        }
        let others = (meeting.members.len() as i64 - 1).max(1);
        add_saturating(&mut caused[last].0, all / others);
        caused[last].1 += 1;
    }
    // A rank that waits at several collectives at once waits once.
    let mut lengths = vec![(0_i64, 0_i64); ranks];
    for ((blamed, _), mut intervals) in waits {
        intervals.sort_unstable();
        let (sum, union) = &mut lengths[blamed];
        for (start, end) in &intervals {
            add_saturating(sum, end.saturating_sub(*start));
        }
        add_saturating(union, union_length(intervals));
    }
    for ((time, _), (sum, union)) in caused.iter_mut().zip(lengths) {
        if union < sum {
            *time = (*time as f64 * union as f64 / sum as f64).round() as i64;
        }
    }
    caused
}

/// `None` if the ranks waited less than `RANK_WAITING_MIN_SHARE` of the window for any single rank.
pub(super) fn find_slowest(
    ranks: &[RankWork<'_>],
    pieces: &[Vec<RankPiece>],
    meetings: &[Meeting],
    entered: &[i64],
    window: (i64, i64),
) -> Option<SlowestRank> {
    let caused = caused_waits(meetings, entered, window);
    let (slow, &(time, last_at)) = caused
        .iter()
        .enumerate()
        .max_by_key(|(rank, (time, _))| (*time, usize::MAX - rank))?;
    let span = window.1.saturating_sub(window.0) as f64;
    if time == 0 || (time as f64) < RANK_WAITING_MIN_SHARE * span {
        return None;
    }
    let before = segments_before(meetings, entered, slow, window.0);
    let spent: Vec<SegmentSpending> = ranks
        .iter()
        .zip(pieces)
        .map(|(work, pieces)| SegmentSpending::in_segments(work, pieces, &before))
        .collect();
    let mut differences = compare_with_others(&spent, slow);
    differences.retain(|row| {
        (row.time_ns.0 - row.others_ns.0) as f64 >= RANK_DIFFERENCE_MIN_SHARE * time as f64
    });
    differences.truncate(DIFFERENCES_MAX);
    Some(SlowestRank {
        rank: ranks[slow].calls.rank,
        caused_waiting_ns: Nanos(time),
        all_waiting_ns: Nanos(caused.iter().map(|(time, _)| time).sum()),
        last_at,
        collectives: caused.iter().map(|(_, calls)| calls).sum(),
        differences,
    })
}

/// The number of the first collective of each rank.
fn first_meetings(meetings: &[Meeting], ranks: usize) -> Vec<Option<usize>> {
    let mut first: Vec<Option<(i64, usize)>> = vec![None; ranks];
    for (number, meeting) in meetings.iter().enumerate() {
        for member in &meeting.members {
            let known = &mut first[member.rank];
            let own = (member.start, number);
            *known = Some(known.map_or(own, |known| known.min(own)));
        }
    }
    let number = |first: Option<(i64, usize)>| first.map(|(_, number)| number);
    first.into_iter().map(number).collect()
}

/// From the end of the collective before to the start of each at which a rank came last. What the rank that entered the recording
/// last did before its first collective, others did before the window.
fn segments_before(
    meetings: &[Meeting],
    entered: &[i64],
    slow: usize,
    begin: i64,
) -> Vec<(i64, i64)> {
    let is_late = entered.iter().any(|other| *other < entered[slow]);
    let takes_part = |meeting: &&Meeting| meeting.members.iter().any(|member| member.rank == slow);
    let mut order: Vec<&Meeting> = meetings.iter().filter(takes_part).collect();
    sort_ascending(&mut order, |meeting| meeting.last_start);
    let mut segments = Vec::new();
    let mut from = begin;
    for meeting in order {
        let is_known = from > begin || !is_late;
        if is_known && meeting.last == slow && meeting.last_start > from {
            segments.push((from, meeting.last_start));
        }
        from = from.max(meeting.end);
    }
    segments
}

/// Time of a rank in some segments, ns: by the names of its work, with calls, and idle.
struct SegmentSpending {
    by_name: BTreeMap<String, (i64, u64)>,
    idle: i64,
}

impl SegmentSpending {
    fn in_segments(work: &RankWork<'_>, pieces: &[RankPiece], segments: &[(i64, i64)]) -> Self {
        let mut by_name: BTreeMap<String, (i64, u64)> = BTreeMap::new();
        let mut intervals = Vec::new();
        let mut order: Vec<&RankPiece> = pieces.iter().collect();
        sort_ascending(&mut order, |piece| piece.start);
        let mut idle = 0;
        let mut latest = i64::MIN;
        // The latest end of all pieces up to each, which finds the first that reaches into a segment.
        let ends: Vec<i64> = order
            .iter()
            .map(|piece| {
                latest = latest.max(piece.end);
                latest
            })
            .collect();
        for &(from, to) in segments {
            intervals.clear();
            let first = ends.partition_point(|end| *end <= from);
            let until = order.partition_point(|piece| piece.start < to).max(first);
            for piece in order[first..until].iter().filter(|piece| piece.end > from) {
                let (start, end) = (piece.start.max(from), piece.end.min(to));
                intervals.push((start, end));
                if matches!(piece.part, RankPart::Compute | RankPart::Copies) {
                    let name = work.trace.text(work.work[piece.work].name);
                    let (time, calls) = by_name.entry(name.to_owned()).or_default();
                    *time = time.saturating_add(end - start);
                    *calls += u64::from(piece.start >= from);
                }
            }
            intervals.sort_unstable();
            idle += (to - from) - union_length(intervals.iter().copied());
        }
        Self { by_name, idle }
    }
}

fn compare_with_others(spent: &[SegmentSpending], slow: usize) -> Vec<SlowestDifference> {
    let others = || {
        spent
            .iter()
            .enumerate()
            .filter(|(rank, _)| *rank != slow)
            .map(|(_, spent)| spent)
    };
    let mut idle: Vec<i64> = others().map(|spent| spent.idle).collect();
    let mut differences = vec![SlowestDifference {
        name: None,
        time_ns: Nanos(spent[slow].idle),
        others_ns: Nanos(lower_median(&mut idle).unwrap_or_default()),
        calls: 0,
        others_calls: 0,
    }];
    for (name, &(time, calls)) in &spent[slow].by_name {
        let by_name =
            |spent: &SegmentSpending| spent.by_name.get(name).copied().unwrap_or_default();
        let mut times: Vec<i64> = others().map(|spent| by_name(spent).0).collect();
        let mut counts: Vec<i64> = others().map(|spent| by_name(spent).1 as i64).collect();
        differences.push(SlowestDifference {
            name: Some(name.clone()),
            time_ns: Nanos(time),
            others_ns: Nanos(lower_median(&mut times).unwrap_or_default()),
            calls,
            others_calls: lower_median(&mut counts).unwrap_or_default() as u64,
        });
    }
    sort_descending(&mut differences, |row| row.time_ns.0 - row.others_ns.0);
    differences
}
