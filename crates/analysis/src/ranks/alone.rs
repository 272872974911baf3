//! The collectives of a rank that was recorded alone: bytes and bus bandwidth by what its framework says of them.

use std::collections::BTreeMap;

use llmprof_record::trace::Trace;
use llmprof_units::{Bytes, BytesPerSecond, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ranks::job::{GroupKind, named_kind};
use crate::ranks::kind::CollectiveKind;
use crate::ranks::work::RankWork;
use crate::timeline::intervals::Union;

/// Calls of one kind of collective among groups of one size and one use.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct OwnCollectives {
    /// What the collective does, read from its name.
    pub kind: CollectiveKind,
    /// Ranks of the group; 0 where not recorded.
    pub group_size: u64,
    /// What the process group is for, where its name says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupKind>,
    /// Calls of this kind with this group size and use on this rank.
    pub calls: u64,
    /// Time with at least one of them running. It contains waiting for ranks that begin later, which one rank does not show.
    pub time_ns: Nanos,
    /// Bytes that this rank gave, or got where only that is recorded; absent where a call has neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// Bytes over the links ÷ time: a lower bound, since the time contains waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_bytes_per_s: Option<BytesPerSecond>,
}

#[derive(Default)]
struct CollectiveSums {
    calls: u64,
    time: Union,
    bytes: u64,
    bus_bytes: f64,
    are_sizes_known: bool,
}

/// The collectives of one rank by kind and group size, those with most time first.
pub(crate) fn own_collectives(trace: &Trace) -> Vec<OwnCollectives> {
    let work = RankWork::from_trace(0, trace, None);
    let groups = work.calls.groups.iter();
    let groups: Vec<Option<GroupKind>> = groups.map(|group| named_kind(&group.name)).collect();
    let mut sums: BTreeMap<(CollectiveKind, u64, Option<GroupKind>), CollectiveSums> =
        BTreeMap::new();
    for call in work.calls.collectives.iter().chain(&work.calls.transfers) {
        let key = (call.kind, call.group_size, groups[call.group as usize]);
        let sum = sums.entry(key).or_insert(CollectiveSums {
            are_sizes_known: true,
            ..CollectiveSums::default()
        });
        sum.calls += 1;
        sum.time.add(call.start, call.end);
        let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
        let bus = call
            .kind
            .bus_bytes(bytes(call.given), bytes(call.got), call.group_size);
        match call.given.or(call.got).zip(bus) {
            Some((own, bus)) => {
                sum.bytes = sum.bytes.saturating_add(own);
                sum.bus_bytes += bus;
            }
            None => sum.are_sizes_known = false,
        }
    }
    let mut rows: Vec<OwnCollectives> = sums
        .into_iter()
        .map(|((kind, group_size, group), sum)| {
            let time = Nanos(sum.time.length());
            let seconds = time.seconds();
            let is_known = sum.are_sizes_known && sum.bytes > 0 && seconds > 0.0;
            OwnCollectives {
                kind,
                group_size,
                group,
                calls: sum.calls,
                time_ns: time,
                bytes: is_known.then_some(Bytes(sum.bytes)),
                bus_bytes_per_s: is_known.then(|| BytesPerSecond(sum.bus_bytes / seconds)),
            }
        })
        .collect();
    rows.sort_by_key(|row| {
        let time = std::cmp::Reverse(row.time_ns);
        (time, row.kind, row.group_size, row.group)
    });
    rows
}
