//! Collectives on the aligned clock: who came last, how long the others waited, how long the transfer took.

use std::collections::BTreeMap;

use llmprof_units::{Bytes, BytesPerSecond, Nanos, stats::whole_median};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ranks::clocks::AlignedClocks;
use crate::ranks::kind::CollectiveKind;
use crate::ranks::matched::{Matched, MatchedBy};
use crate::ranks::work::RankCalls;

/// One rank in a collective, on the aligned clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Index in the list of ranks, not the rank's number.
    pub(super) rank: usize,
    /// Index in [`RankCalls::collectives`] of that rank.
    pub(super) instance: usize,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// A collective on the aligned clock.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    pub(super) kind: CollectiveKind,
    pub(super) by: MatchedBy,
    pub(super) members: Vec<Member>,
    pub(super) group_size: u64,
    /// Whether a rank recorded the size of the group; else it is the number of ranks that show the collective.
    pub(super) is_size_recorded: bool,
    /// When the last rank began, and its index.
    pub(super) last_start: i64,
    pub(super) last: usize,
    pub(super) end: i64,
    /// Means over the ranks, bytes.
    given: Option<f64>,
    got: Option<f64>,
}

impl Meeting {
    /// `None` if some rank ended more than `tolerance` before another began: then they are not one collective.
    pub(super) fn from_matched(
        ranks: &[&RankCalls],
        aligned: &AlignedClocks,
        matched: &Matched,
        tolerance: i64,
    ) -> Option<Self> {
        let members: Vec<Member> = matched
            .members
            .iter()
            .map(|&(rank, index)| {
                let instance = &ranks[rank].collectives[index];
                Member {
                    rank,
                    instance: index,
                    start: aligned.to_common(rank, instance.start),
                    end: aligned.to_common(rank, instance.end),
                }
            })
            .collect();
        let last = members.iter().max_by_key(|member| member.start)?;
        let first_end = members.iter().map(|member| member.end).min()?;
        let instances = || {
            matched
                .members
                .iter()
                .map(|&(rank, index)| &ranks[rank].collectives[index])
        };
        let kind = instances().next()?.kind;
        if kind.ends_together() && first_end.saturating_add(tolerance) < last.start {
            return None;
        }
        let mean = |bytes: Vec<u64>| {
            (!bytes.is_empty()).then(|| bytes.iter().sum::<u64>() as f64 / bytes.len() as f64)
        };
        Some(Self {
            kind,
            by: matched.by,
            group_size: instances()
                .map(|instance| instance.group_size)
                .max()?
                .max(members.len() as u64),
            is_size_recorded: instances().any(|instance| instance.group_size > 0),
            last_start: last.start,
            last: last.rank,
            end: members.iter().map(|member| member.end).max()?,
            given: mean(instances().filter_map(|instance| instance.given).collect()),
            got: mean(instances().filter_map(|instance| instance.got).collect()),
            members,
        })
    }

    /// How long a rank waited for the last one, counted from `from` at the earliest.
    pub(super) fn wait_since(&self, member: &Member, from: i64) -> i64 {
        self.last_start
            .min(member.end)
            .saturating_sub(member.start.max(from))
            .max(0)
    }

    /// From the first to the last start.
    fn skew_ns(&self) -> i64 {
        let first = self.members.iter().map(|member| member.start).min();
        self.last_start
            .saturating_sub(first.unwrap_or(self.last_start))
    }

    pub(super) fn transfer_ns(&self) -> i64 {
        self.end.saturating_sub(self.last_start).max(0)
    }

    /// The message of one rank as nccl-tests state it.
    pub(super) fn message_bytes(&self) -> Option<u64> {
        let size = match self.kind {
            CollectiveKind::AllGather => self
                .got
                .or(self.given.map(|given| given * self.group_size as f64)),
            _ => self.given.or(self.got),
        };
        size.map(|size| size.round() as u64)
    }
}

/// Collectives of one kind and size.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct CollectiveRow {
    /// What the collective does, read from its name.
    pub kind: CollectiveKind,
    /// Number of ranks in the process group.
    pub group_size: u64,
    /// Size of one rank's message; absent where not recorded.
    pub bytes: Option<Bytes>,
    /// Collectives of this kind, group size and message size.
    pub calls: u64,
    /// From the first to the last start: the median, the most, the sum of all calls.
    pub skew_median_ns: Nanos,
    /// Longest time from the first to the last start.
    pub skew_max_ns: Nanos,
    /// Sum of the times from the first to the last start.
    pub skew_total_ns: Nanos,
    /// From the last start to the end: the median and the sum.
    pub transfer_median_ns: Nanos,
    /// Sum of the times from the last start to the end.
    pub transfer_total_ns: Nanos,
    /// Bytes over the links of one rank a second of transfer, by the median call.
    pub bus_bytes_per_s: Option<BytesPerSecond>,
    /// The rank that the others waited for longest: how often it came last, and the skew of those calls.
    pub last_rank: u32,
    /// Calls at which that rank came last.
    pub last_rank_calls: u64,
    /// Sum of the skews of the calls at which that rank came last.
    pub last_rank_skew_ns: Nanos,
}

/// Collectives by kind, group size and message size, the longest skew and transfer first.
///
/// Where ranks of the job are missing, only a recorded group size says how many took part.
pub(super) fn collective_rows(
    meetings: &[Meeting],
    ranks: &[&RankCalls],
    misses_ranks: bool,
) -> Vec<CollectiveRow> {
    let mut groups: BTreeMap<(CollectiveKind, u64, Option<u64>), Vec<&Meeting>> = BTreeMap::new();
    for meeting in meetings {
        let key = (meeting.kind, meeting.group_size, meeting.message_bytes());
        groups.entry(key).or_default().push(meeting);
    }
    let mut rows: Vec<CollectiveRow> = groups
        .into_iter()
        .map(|((kind, group_size, bytes), meetings)| {
            let mut skews: Vec<i64> = meetings.iter().map(|meeting| meeting.skew_ns()).collect();
            let mut transfers: Vec<i64> = meetings
                .iter()
                .map(|meeting| meeting.transfer_ns())
                .collect();
            let mut last: BTreeMap<usize, (i64, u64)> = BTreeMap::new();
            for meeting in &meetings {
                let (skew, calls) = last.entry(meeting.last).or_default();
                *skew = skew.saturating_add(meeting.skew_ns());
                *calls += 1;
            }
            let most = last
                .into_iter()
                .max_by_key(|&(rank, (skew, _))| (skew, usize::MAX - rank));
            let (last_rank, (last_rank_skew, last_rank_calls)) = most.unwrap_or_default();
            let transfer = whole_median(&mut transfers).unwrap_or_default();
            let bus = kind
                .bus_bytes(meetings[0].given, meetings[0].got, group_size)
                .filter(|_| meetings[0].is_size_recorded || !misses_ranks);
            CollectiveRow {
                kind,
                group_size,
                bytes: bytes.map(Bytes),
                calls: meetings.len() as u64,
                skew_max_ns: Nanos(skews.iter().copied().max().unwrap_or(0)),
                skew_total_ns: Nanos(skews.iter().sum()),
                skew_median_ns: Nanos(whole_median(&mut skews).unwrap_or_default()),
                transfer_median_ns: Nanos(transfer),
                transfer_total_ns: Nanos(transfers.iter().sum()),
                bus_bytes_per_s: bus
                    .filter(|_| transfer > 0)
                    .map(|bytes| BytesPerSecond(bytes * 1e9 / transfer as f64)),
                last_rank: ranks[last_rank].rank,
                last_rank_calls,
                last_rank_skew_ns: Nanos(last_rank_skew),
            }
        })
        .collect();
    let key =
        |row: &CollectiveRow| std::cmp::Reverse(row.skew_total_ns.0 + row.transfer_total_ns.0);
    rows.sort_by_key(|row| (key(row), row.kind, row.bytes));
    rows
}
