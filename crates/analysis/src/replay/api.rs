//! What calls of the CUDA and HIP APIs do to the timeline, by their names.

use llmprof_record::trace::{StrId, Trace};
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Launch,
    /// Copies and memory fills, which wait for the device only if their memory is pageable or they are not asynchronous.
    Transfer,
    SyncDevice,
    SyncStream,
    SyncEvent,
    /// Takes memory from the driver or gives it back, which can wait for the device.
    Memory,
    /// Makes a stream wait for an event.
    StreamWait,
    Other,
}

impl Api {
    pub(crate) fn of(name: &str) -> Self {
        let has = |part: &str| name.contains(part);
        if has("DeviceSynchronize") || has("CtxSynchronize") {
            Self::SyncDevice
        } else if has("StreamSynchronize") {
            Self::SyncStream
        } else if has("EventSynchronize") {
            Self::SyncEvent
        } else if has("StreamWaitEvent") {
            Self::StreamWait
        } else if has("GraphAdd") || has("IsCapturing") || has("Instantiate") {
            Self::Other
        } else if has("Launch") {
            Self::Launch
        } else if has("Memcpy") || has("Memset") {
            Self::Transfer
        } else if has("Malloc") || has("Free") || has("MemAlloc") || has("HostAlloc") {
            Self::Memory
        } else {
            Self::Other
        }
    }

    pub(crate) fn waits_by_itself(self) -> bool {
        matches!(self, Self::SyncDevice | Self::SyncStream | Self::SyncEvent)
    }
}

/// The kind of every API function in a trace, each name read once.
#[derive(Default)]
pub(super) struct Apis(FxHashMap<StrId, Api>);

impl Apis {
    pub(super) fn get(&mut self, trace: &Trace, name: StrId) -> Api {
        let read = || Api::of(trace.text(name));
        *self.0.entry(name).or_insert_with(read)
    }
}
