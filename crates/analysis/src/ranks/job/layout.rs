//! How a job is divided, by its process groups: which ranks exchange what.

use std::collections::{BTreeMap, BTreeSet};

use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::JobRanks;
use crate::ranks::kind::CollectiveKind;

/// What groups of one shape are for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum GroupKind {
    /// One group holds all ranks of the job.
    World,
    Tensor,
    Pipeline,
    Data,
    Expert,
    Context,
    /// The names of the groups and what they send do not tell.
    Unknown,
}

/// Groups of one kind, size and distance between members.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct GroupSet {
    /// What the process groups are for.
    pub kind: GroupKind,
    /// Whether the framework's name of the groups says so; otherwise it follows from their members and what they send.
    pub is_named: bool,
    /// Members of each group, and how many such groups sent something.
    pub size: u64,
    /// Number of groups of this kind and size that sent something.
    pub groups: u64,
    /// From one member to the next; absent where it varies.
    pub stride: Option<u64>,
    /// The members of the first group that were imported.
    pub first: Vec<u32>,
    /// What they send, and how often on all ranks.
    pub kinds: Vec<CollectiveKind>,
    /// Collective calls of these groups on all ranks.
    pub calls: u64,
    /// Mean time of a rank in them, waiting included.
    pub time_ns: Nanos,
}

/// One group, as its members saw it.
#[derive(Default)]
struct SeenGroup {
    name: String,
    size: u64,
    members: BTreeSet<u32>,
    calls: BTreeMap<CollectiveKind, u64>,
    time: i64,
}

/// The process groups of a job, the largest first.
pub(super) fn find_groups(job: &JobRanks<'_>) -> Vec<GroupSet> {
    let mut seen: BTreeMap<(&str, &str), SeenGroup> = BTreeMap::new();
    for calls in &job.calls {
        for call in &calls.collectives {
            let group = &calls.groups[call.group as usize];
            let entry = seen.entry((&group.name, &group.ranks)).or_default();
            entry.name.clone_from(&group.name);
            entry.size = entry.size.max(call.group_size);
            entry.members.insert(calls.rank);
            *entry.calls.entry(call.kind).or_default() += 1;
            entry.time = entry.time.saturating_add(call.end - call.start);
        }
    }
    let world = job
        .summaries
        .iter()
        .filter_map(|summary| summary.world_size)
        .max()
        .map_or(job.summaries.len() as u64, u64::from);
    let mut sets: BTreeMap<(Option<GroupKind>, u64, Option<u64>), Vec<SeenGroup>> = BTreeMap::new();
    for group in seen.into_values() {
        let size = group.size.max(group.members.len() as u64);
        let kind = if size == world {
            Some(GroupKind::World)
        } else {
            named_kind(&group.name)
        };
        let key = (kind, size, member_stride(&group.members));
        sets.entry(key).or_default().push(group);
    }
    let has_contiguous = sets
        .keys()
        .any(|(_, size, stride)| *stride == Some(1) && *size < world);
    let mut sets: Vec<GroupSet> = sets
        .into_iter()
        .map(|((named, size, stride), groups)| {
            let mut calls: BTreeMap<CollectiveKind, u64> = BTreeMap::new();
            for (kind, count) in groups.iter().flat_map(|group| &group.calls) {
                *calls.entry(*kind).or_default() += count;
            }
            let members: usize = groups.iter().map(|group| group.members.len()).sum();
            let time: i64 = groups.iter().map(|group| group.time).sum();
            GroupSet {
                kind: named.unwrap_or_else(|| infer_kind(stride, has_contiguous, &calls)),
                is_named: named.is_some(),
                size,
                groups: groups.len() as u64,
                stride,
                first: groups
                    .first()
                    .map(|group| group.members.iter().copied().collect())
                    .unwrap_or_default(),
                calls: calls.values().sum(),
                kinds: calls.into_keys().collect(),
                time_ns: Nanos(time / (members as i64).max(1)),
            }
        })
        .collect();
    sets.sort_by_key(|set| (std::cmp::Reverse(set.size), set.kind, set.stride));
    sets
}

/// The distance between neighbouring members; `None` if it varies.
fn member_stride(members: &BTreeSet<u32>) -> Option<u64> {
    let members: Vec<u32> = members.iter().copied().collect();
    let first = u64::from(members.get(1)?.checked_sub(members[0])?);
    let is_even = members
        .windows(2)
        .all(|pair| u64::from(pair[1] - pair[0]) == first);
    is_even.then_some(first)
}

/// Words in the names that frameworks give their groups (Megatron, DeepSpeed, DeviceMesh, vLLM).
const GROUP_NAME_WORDS: [(&str, GroupKind); 15] = [
    ("tensor", GroupKind::Tensor),
    ("tp", GroupKind::Tensor),
    ("pipeline", GroupKind::Pipeline),
    ("pipe", GroupKind::Pipeline),
    ("pp", GroupKind::Pipeline),
    ("expert", GroupKind::Expert),
    ("ep", GroupKind::Expert),
    ("context", GroupKind::Context),
    ("cp", GroupKind::Context),
    ("data", GroupKind::Data),
    ("dp", GroupKind::Data),
    ("fsdp", GroupKind::Data),
    ("ddp", GroupKind::Data),
    ("hsdp", GroupKind::Data),
    ("replicate", GroupKind::Data),
];

/// By the first word of a name that says it: `mesh_tp`, `TENSOR_MODEL_PARALLEL_GROUP`, `tp:0`.
pub(in crate::ranks) fn named_kind(name: &str) -> Option<GroupKind> {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphabetic());
    words.find_map(|word| {
        let known = GROUP_NAME_WORDS.iter().find(|(text, _)| *text == word);
        known.map(|(_, kind)| *kind)
    })
}

/// By what is sent, where that has one use: all-to-all among experts, point-to-point between stages. Neighbours that reduce
/// while others reduce across them are tensor parallel, and the others data parallel.
fn infer_kind(
    stride: Option<u64>,
    has_contiguous: bool,
    calls: &BTreeMap<CollectiveKind, u64>,
) -> GroupKind {
    let all: u64 = calls.values().sum();
    let mostly = |kinds: &[CollectiveKind]| {
        let some: u64 = kinds.iter().filter_map(|kind| calls.get(kind)).sum();
        some * 2 > all
    };
    let reduces = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
    ];
    match stride {
        _ if mostly(&[CollectiveKind::SendReceive]) => GroupKind::Pipeline,
        _ if mostly(&[CollectiveKind::AllToAll]) => GroupKind::Expert,
        Some(stride) if stride > 1 && has_contiguous && mostly(&reduces) => GroupKind::Data,
        _ => GroupKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_groups_say_what_they_are_for() {
        for (name, kind) in [
            ("TENSOR_MODEL_PARALLEL_GROUP", Some(GroupKind::Tensor)),
            ("mesh_tp", Some(GroupKind::Tensor)),
            ("PIPELINE_MODEL_PARALLEL_GROUP", Some(GroupKind::Pipeline)),
            ("DATA_PARALLEL_GROUP_WITH_CP", Some(GroupKind::Data)),
            ("mesh_dp_shard", Some(GroupKind::Data)),
            ("ep:0", Some(GroupKind::Expert)),
            ("7 mesh_tp", Some(GroupKind::Tensor)),
            ("12 fsdp", Some(GroupKind::Data)),
            ("default_pg", None),
            ("7", None),
            ("steps", None),
        ] {
            assert_eq!(named_kind(name), kind, "{name}");
        }
    }

    #[test]
    fn strides_worked_by_hand() {
        let stride_of = |list: &[u32]| member_stride(&list.iter().copied().collect());
        assert_eq!(stride_of(&[0, 8, 16]), Some(8));
        assert_eq!(stride_of(&[4, 5]), Some(1));
        assert_eq!(stride_of(&[0, 1, 3]), None);
        assert_eq!(stride_of(&[9]), None);
    }
}
