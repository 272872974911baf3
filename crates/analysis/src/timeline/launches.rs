//! Which call of the API launched which device event.

use llmprof_record::trace::{HostKind, StrId, Trace};
use rustc_hash::FxHashMap;

use crate::timeline::device_events::{DeviceEvent, DeviceEvents};

/// Calls of the CUDA API by the correlation id that their device events carry.
pub(crate) struct Launches {
    calls: FxHashMap<u32, u32>,
}

impl Launches {
    /// Reads the calls of a trace.
    pub(crate) fn from_trace(trace: &Trace) -> Self {
        let hosts = &trace.hosts;
        let (kind, correlation) = (&hosts.kind[..], &hosts.correlation[..]);
        let mut calls = FxHashMap::default();
        for row in 0..hosts.len() {
            if correlation[row] != 0 && is_api(kind[row]) {
                // Outer rows come first: a runtime call before the driver call inside it.
                calls.entry(correlation[row]).or_insert(row as u32);
            }
        }
        Self { calls }
    }

    /// The row in [`Trace::hosts`] of the call that launched `event`.
    pub(crate) fn call(&self, event: &DeviceEvent) -> Option<u32> {
        if event.correlation == 0 {
            return None;
        }
        self.calls.get(&event.correlation).copied()
    }
}

/// For every device event, the row in [`Trace::hosts`] of the call that launched it.
pub(crate) struct EventCalls(Vec<u32>);

impl EventCalls {
    const NONE: u32 = u32::MAX;

    pub(crate) fn from_launches(events: &DeviceEvents, launches: &Launches) -> Self {
        let call = |event| launches.call(event).unwrap_or(Self::NONE);
        Self(events.all().iter().map(call).collect())
    }

    /// The call behind event `index`; `None` where it was not recorded.
    pub(crate) fn call(&self, index: usize) -> Option<u32> {
        Some(self.0[index]).filter(|&call| call != Self::NONE)
    }
}

/// Whether a host slice is a call of the CUDA API.
pub(crate) fn is_api(kind: HostKind) -> bool {
    kind == HostKind::RUNTIME || kind == HostKind::DRIVER
}

/// Parts of names of functions that take or give back memory; the last ones are of CUDA's virtual memory, as in expandable segments.
const MEMORY_CALL_PARTS: [&str; 10] = [
    "Malloc",
    "Free",
    "MemAlloc",
    "HostAlloc",
    "MemCreate",
    "MemMap",
    "MemUnmap",
    "MemRelease",
    "MemSetAccess",
    "MemAddressReserve",
];

/// Whether a name is that of an API function that takes or gives back memory, and not of an operator.
pub(crate) fn is_memory_call(name: &str) -> bool {
    let is_api = name.starts_with("cu") || name.starts_with("hip");
    is_api && !name.contains(':') && ApiKind::from_function(name) == ApiKind::Memory
}

/// Whether a call loads code, as programs do when they start and when a kernel is used for the first time.
pub(crate) fn loads_code(name: &str) -> bool {
    ["ModuleLoad", "LibraryLoad"]
        .iter()
        .any(|part| name.contains(part))
}

/// What a call of the CUDA API is for.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    schemars::JsonSchema,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ApiKind {
    /// A call that starts kernels or graphs.
    Launch,
    /// A call that waits for the device.
    Sync,
    /// Starts a copy or a memory fill.
    Transfer,
    /// Takes or gives back memory.
    Memory,
    /// A call of any other kind.
    Other,
}

impl ApiKind {
    /// Reads it from the name of the function.
    pub(crate) fn from_function(name: &str) -> Self {
        let has = |part: &str| name.contains(part);
        // A copy that is not asynchronous waits for the device too: `cudaMemcpy`, `hipMemcpyWithStream`.
        let waits = has("Memcpy") && !has("Async") && !has("Graph");
        if has("Synchronize") || waits {
            Self::Sync
        } else if has("Launch") {
            Self::Launch
        } else if has("Memcpy") || has("Memset") {
            Self::Transfer
        } else if MEMORY_CALL_PARTS.into_iter().any(has) {
            Self::Memory
        } else {
            Self::Other
        }
    }
}

/// The kind of every API function in a trace, each name read once.
#[derive(Default)]
pub(crate) struct ApiKinds(FxHashMap<StrId, ApiKind>);

impl ApiKinds {
    pub(crate) fn get(&mut self, trace: &Trace, name: StrId) -> ApiKind {
        *self
            .0
            .entry(name)
            .or_insert_with(|| ApiKind::from_function(trace.text(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_by_their_names() {
        for (name, kind) in [
            ("cudaMemcpy", ApiKind::Sync),
            ("hipMemcpyWithStream", ApiKind::Sync),
            ("cuMemcpyDtoH_v2", ApiKind::Sync),
            ("hipMemcpyDtoH", ApiKind::Sync),
            ("cudaMemcpyAsync", ApiKind::Transfer),
            ("cuMemcpyHtoDAsync_v2", ApiKind::Transfer),
            ("cudaGraphAddMemcpyNode", ApiKind::Transfer),
            ("cudaMemset", ApiKind::Transfer),
            ("hipStreamSynchronize", ApiKind::Sync),
            ("cudaGraphLaunch", ApiKind::Launch),
            ("cudaHostAlloc", ApiKind::Memory),
            ("hipFree", ApiKind::Memory),
            ("cuMemSetAccess", ApiKind::Memory),
            ("cudaEventRecord", ApiKind::Other),
        ] {
            assert_eq!(ApiKind::from_function(name), kind, "{name}");
        }
        assert!(is_memory_call("hipFree") && is_memory_call("cuMemFree_v2"));
        assert!(!is_memory_call("custom::FreeBlocks") && !is_memory_call("cudaStreamCreate"));
    }
}
