//! A caching allocator's memory: what it holds from the device, what of that is in use, and how both came about.
//!
//! Three sizes of the same thing: *requested* is what the program asked for, *allocated* what the allocator gave for it
//! (rounded up to its blocks), *reserved* what it holds from the device in segments. `allocated ≤ reserved`; the
//! difference is free memory that other programs cannot use.

mod by_site;
mod replay;

use llmprof_units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::by_site::{MemoryChange, SiteHistory, SiteLevels, site_history};
pub(crate) use self::replay::{AllocatorAction, AllocatorEvent, replay_events};
use crate::issue::Issue;

/// The memory of all devices at the time of a snapshot, and before it as far as that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct MemoryHistory {
    /// One entry per device, in the order of their numbers.
    pub devices: Vec<DeviceMemory>,
    /// What could not be read or does not fit together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
}

impl MemoryHistory {
    /// The same without the points of timelines.
    #[must_use]
    pub fn without_timelines(&self) -> Self {
        let mut brief = self.clone();
        for history in brief
            .devices
            .iter_mut()
            .filter_map(|device| device.history.as_mut())
        {
            history.timeline = Vec::new();
            history.by_site = SiteHistory::default();
        }
        brief
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct DeviceMemory {
    /// Index of the device as torch counts.
    pub device: i64,
    /// At the time of the snapshot.
    pub now: MemoryState,
    /// Before it; absent where nothing was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<DeviceHistory>,
}

/// An allocator's memory at one moment, counted from its segments and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct MemoryState {
    /// Segments that it holds from the device.
    pub segments: u64,
    /// Bytes of those segments.
    pub reserved_bytes: Bytes,
    /// Bytes of blocks in use.
    pub allocated_bytes: Bytes,
    /// The same, with blocks that are freed but still awaited by a stream.
    pub active_bytes: Bytes,
    /// What the program asked for.
    pub requested_bytes: Bytes,
    /// Free bytes in segments that are partly in use: they cannot be returned to the device.
    pub inactive_split_bytes: Bytes,
    /// Size of the largest free block.
    pub largest_free_bytes: Bytes,
}

impl MemoryState {
    /// The free share of what is reserved: `1 − allocated ÷ reserved`; `None` where nothing is reserved.
    pub fn fragmentation(&self) -> Option<f64> {
        fragmentation(self.allocated_bytes, self.reserved_bytes)
    }
}

/// `1 − allocated ÷ reserved`.
pub(crate) fn fragmentation(allocated: Bytes, reserved: Bytes) -> Option<f64> {
    (reserved.0 > 0).then(|| 1.0 - allocated.0 as f64 / reserved.0 as f64)
}

/// What was recorded of a device before the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct DeviceHistory {
    /// Allocations in the recorded time.
    pub allocations: u64,
    /// Blocks given back in it.
    pub frees: u64,
    /// Requests that failed for lack of memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out_of_memory: Vec<OutOfMemory>,
    /// The moment with the most allocated memory.
    pub peak: MemoryPoint,
    /// The largest amount of reserved memory in the recorded time.
    pub peak_reserved_bytes: Bytes,
    /// Who held memory at the peak, the most first; what was allocated before the recording has no site.
    pub at_peak: Vec<Holding>,
    /// The largest allocations, by size and site.
    pub largest: Vec<Holding>,
    /// Memory at moments of the recording, in order; empty where it was left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<MemoryPoint>,
    /// What the program asked for over time, by the place that did.
    #[serde(default, skip_serializing_if = "SiteHistory::is_empty")]
    pub by_site: SiteHistory,
}

/// An allocator's memory at one moment of its history.
///
/// A recording holds requested sizes, so `allocated_bytes` is derived: it ends at what the snapshot counts, and every
/// event before moves it by the request rounded up to the allocator's 512 bytes. Where the allocator gave a larger block
/// because it would not split it, that is not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct MemoryPoint {
    /// Unix time of the moment, ns.
    pub time_ns: Nanos,
    /// What the program had asked for.
    pub requested_bytes: Bytes,
    /// What the allocator had given for it.
    pub allocated_bytes: Bytes,
    /// What it held from the device.
    pub reserved_bytes: Bytes,
}

impl MemoryPoint {
    /// The free share of what is reserved.
    pub fn fragmentation(&self) -> Option<f64> {
        fragmentation(self.allocated_bytes, self.reserved_bytes)
    }
}

/// Blocks of one allocation site, or of one size and site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Holding {
    /// Where they were allocated: `transformers/models/qwen2/modeling_qwen2.py:356 forward`; absent where that was not
    /// recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Bytes asked for, together or, in a list of the largest, of each.
    pub bytes: Bytes,
    /// How many blocks; unknown for what was allocated before the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
}

/// A request that failed for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct OutOfMemory {
    /// Unix time of the request, ns.
    pub time_ns: Nanos,
    /// Bytes that the program asked for.
    pub requested_bytes: Bytes,
    /// What the device had left, where that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_free_bytes: Option<Bytes>,
}
