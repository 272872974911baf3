//! Kinds of collectives, and how much of a message crosses the links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The operation that a collective does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CollectiveKind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    Barrier,
    /// Point-to-point, or an exchange that a library builds of it and does not name.
    SendReceive,
    Other,
}

/// Parts of names, without `_`, in the order in which they are asked: `reducescatter` before `reduce`.
const NAME_PARTS: [(&str, CollectiveKind); 17] = [
    ("allreduce", CollectiveKind::AllReduce),
    ("crossdevicereduce", CollectiveKind::AllReduce),
    ("quickreduce", CollectiveKind::AllReduce),
    ("allgather", CollectiveKind::AllGather),
    ("reducescatter", CollectiveKind::ReduceScatter),
    ("alltoall", CollectiveKind::AllToAll),
    ("all2all", CollectiveKind::AllToAll),
    ("dispatch", CollectiveKind::AllToAll),
    ("combine", CollectiveKind::AllToAll),
    ("sendrecv", CollectiveKind::SendReceive),
    ("broadcast", CollectiveKind::Broadcast),
    ("barrier", CollectiveKind::Barrier),
    ("scatter", CollectiveKind::Scatter),
    ("gather", CollectiveKind::Gather),
    ("reduce", CollectiveKind::Reduce),
    ("send", CollectiveKind::SendReceive),
    ("recv", CollectiveKind::SendReceive),
];

impl CollectiveKind {
    /// Reads it from the name of a kernel or of a framework's call.
    pub(super) fn from_event_name(name: &str) -> Self {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        let name: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        let known = NAME_PARTS.iter().find(|(part, _)| name.contains(part));
        known.map_or(Self::Other, |(_, kind)| *kind)
    }

    /// The kind that has this name in tables.
    pub(super) fn from_table_name(name: &str) -> Self {
        let is_named = |kind: &Self| kind.name() == name;
        NAME_PARTS
            .iter()
            .map(|(_, kind)| *kind)
            .find(is_named)
            .unwrap_or(Self::Other)
    }

    /// The name in tables: as frameworks write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Barrier => "barrier",
            Self::SendReceive => "send/receive",
            Self::Other => "other",
        }
    }

    /// Whether no rank can end before every rank has begun, so that the ends of all ranks are one moment.
    pub(super) fn ends_together(self) -> bool {
        matches!(
            self,
            Self::AllReduce
                | Self::AllGather
                | Self::ReduceScatter
                | Self::AllToAll
                | Self::Barrier
        )
    }

    /// Bytes that cross one rank's links for `given` and `got` bytes a rank, which makes kinds and group sizes comparable:
    /// the bus bandwidth of nccl-tests (doc/PERFORMANCE.md). Nothing for kinds that it does not define.
    pub(super) fn bus_bytes(self, given: Option<f64>, got: Option<f64>, ranks: u64) -> Option<f64> {
        if ranks < 2 {
            return None;
        }
        let n = ranks as f64;
        let others = (n - 1.0) / n;
        match self {
            Self::AllReduce => given.or(got).map(|bytes| 2.0 * others * bytes),
            Self::AllGather => got
                .or(given.map(|bytes| n * bytes))
                .map(|bytes| others * bytes),
            Self::ReduceScatter => given
                .or(got.map(|bytes| n * bytes))
                .map(|bytes| others * bytes),
            Self::AllToAll => given.or(got).map(|bytes| others * bytes),
            Self::Broadcast | Self::Reduce => given.or(got),
            Self::Gather | Self::Scatter | Self::Barrier | Self::SendReceive | Self::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_and_calls() {
        for (name, kind) in [
            (
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                CollectiveKind::AllReduce,
            ),
            (
                "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)",
                CollectiveKind::AllReduce,
            ),
            ("_allgather_base", CollectiveKind::AllGather),
            ("nccl:_reduce_scatter_base", CollectiveKind::ReduceScatter),
            ("nccl:all_to_all", CollectiveKind::AllToAll),
            ("all_to_allv", CollectiveKind::AllToAll),
            (
                "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)",
                CollectiveKind::SendReceive,
            ),
            ("gloo:broadcast", CollectiveKind::Broadcast),
            ("nccl:reduce", CollectiveKind::Reduce),
            (
                "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
                CollectiveKind::Other,
            ),
        ] {
            assert_eq!(CollectiveKind::from_event_name(name), kind, "{name}");
        }
    }

    #[test]
    fn bus_bandwidth_factors_of_nccl_tests() {
        let close = |bytes: Option<f64>, expected: f64| {
            assert!(
                (bytes.expect("defined") - expected).abs() < 1e-9,
                "{bytes:?}"
            );
        };
        close(
            CollectiveKind::AllReduce.bus_bytes(Some(800.0), None, 8),
            1400.0,
        );
        // Each rank gives 100 and gets 800, or gives 800 and gets 100.
        close(
            CollectiveKind::AllGather.bus_bytes(Some(100.0), None, 8),
            700.0,
        );
        close(
            CollectiveKind::ReduceScatter.bus_bytes(Some(800.0), Some(100.0), 8),
            700.0,
        );
        close(
            CollectiveKind::AllToAll.bus_bytes(Some(800.0), Some(800.0), 8),
            700.0,
        );
        close(
            CollectiveKind::Broadcast.bus_bytes(Some(800.0), None, 8),
            800.0,
        );
        assert_eq!(CollectiveKind::Barrier.bus_bytes(Some(8.0), None, 8), None);
        assert_eq!(
            CollectiveKind::AllReduce.bus_bytes(Some(8.0), None, 1),
            None
        );
    }
}
