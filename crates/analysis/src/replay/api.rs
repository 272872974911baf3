//! What calls of the CUDA and HIP APIs do to the timeline, by their names.

use llmprof_record::trace::{StrId, Trace};
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEffect {
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

impl CallEffect {
    pub(crate) fn from_name(name: &str) -> Self {
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

/// The kinds of API functions in a trace, each name read once.
#[derive(Debug, Default)]
pub(super) struct CallEffects(FxHashMap<StrId, CallEffect>);

impl CallEffects {
    pub(super) fn read_effect(&mut self, trace: &Trace, name: StrId) -> CallEffect {
        let read = || CallEffect::from_name(trace.text(name));
        *self.0.entry(name).or_insert_with(read)
    }

    pub(super) fn effect_of(&self, trace: &Trace, name: StrId) -> CallEffect {
        let known = self.0.get(&name).copied();
        known.unwrap_or_else(|| CallEffect::from_name(trace.text(name)))
    }
}
