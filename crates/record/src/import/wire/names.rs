//! Names for CUPTI's numbers, as Kineto spells them.

use crate::trace::{CopyKind, MemoryKind, SyncKind};

/// Decodes CUPTI's `CUpti_ActivityMemcpyKind`, with the name that a copy of it has.
pub(super) fn copy_kind(code: u8) -> (CopyKind, &'static str) {
    match code {
        1 => (CopyKind::HOST_TO_DEVICE, "HtoD"),
        2 => (CopyKind::DEVICE_TO_HOST, "DtoH"),
        3 => (CopyKind::ARRAY, "HtoA"),
        4 => (CopyKind::ARRAY, "AtoH"),
        5 => (CopyKind::ARRAY, "AtoA"),
        6 => (CopyKind::ARRAY, "AtoD"),
        7 => (CopyKind::ARRAY, "DtoA"),
        8 => (CopyKind::DEVICE_TO_DEVICE, "DtoD"),
        9 => (CopyKind::HOST_TO_HOST, "HtoH"),
        10 => (CopyKind::PEER_TO_PEER, "PtoP"),
        _ => (CopyKind::UNKNOWN, "unknown"),
    }
}

/// `CUpti_ActivityMemoryKind`; static memory counts with the rest of its kind.
pub(super) fn memory_kind(code: u8) -> (MemoryKind, &'static str) {
    match code {
        1 => (MemoryKind::PAGEABLE, "Pageable"),
        2 => (MemoryKind::PINNED, "Pinned"),
        3 | 6 => (MemoryKind::DEVICE, "Device"),
        4 => (MemoryKind::ARRAY, "Array"),
        5 | 7 => (MemoryKind::MANAGED, "Managed"),
        _ => (MemoryKind::UNKNOWN, "Unknown"),
    }
}

/// Decodes CUPTI's `CUpti_ActivitySynchronizationType`, with the name that it has.
pub(super) fn sync_kind(code: u32) -> (SyncKind, &'static str) {
    match code {
        1 => (SyncKind::EVENT, "Event Synchronize"),
        2 => (SyncKind::STREAM_WAIT, "Stream Wait Event"),
        3 => (SyncKind::STREAM, "Stream Synchronize"),
        4 => (SyncKind::CONTEXT, "Context Synchronize"),
        _ => (SyncKind::UNKNOWN, "Synchronize"),
    }
}

/// Name of a value of CUPTI's `CUpti_ActivityOverheadKind`.
pub(super) fn overhead_name(code: u32) -> &'static str {
    match (code >> 16, code & 0xffff) {
        (0, 1) => "Driver Compiler",
        (1, _) => "Buffer Flush",
        (2, _) => "Instrumentation",
        (3, _) => "Resource",
        (4, _) => "Runtime Triggered Module Loading",
        (5, _) => "Lazy Function Loading",
        (6, _) => "Command Buffer Full",
        (7, _) => "Activity Buffer Request",
        (8, _) => "UVM Activity Init",
        _ => "Overhead",
    }
}

/// A call without the version that CUPTI adds to its name: `cudaLaunchKernel_v7000`.
pub(super) fn unversioned_call(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((name, version))
            if version.len() >= 4 && version.bytes().all(|digit| digit.is_ascii_digit()) =>
        {
            name
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_the_runtime_go_and_those_of_the_driver_stay() {
        assert_eq!(
            unversioned_call("cudaLaunchKernel_v7000"),
            "cudaLaunchKernel"
        );
        assert_eq!(
            unversioned_call("cudaMemcpyAsync_ptsz_v7000"),
            "cudaMemcpyAsync_ptsz"
        );
        assert_eq!(unversioned_call("cuMemcpyHtoD_v2"), "cuMemcpyHtoD_v2");
        assert_eq!(unversioned_call(""), "");
    }
}
