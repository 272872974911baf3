//! The beginnings of CUPTI's activity records and of what it passes to callbacks, as far as we read them.
//!
//! NVIDIA appends to these structures: between CUDA 12.0 and 13.4 the kernel record grew from `CUpti_ActivityKernel9`
//! (208 bytes) to `CUpti_ActivityKernel13` (248 bytes), and every field below stayed where it was. So one set of
//! prefixes serves all of [`is_supported`](super::is_supported) versions; `tests/layouts.txt` holds the offsets that the
//! headers of each version give, and a test compares. All of the records are packed to 8 bytes.

// CUpti_ActivityKind
pub(crate) mod kind {
    pub(crate) const MEMCPY: u32 = 1;
    pub(crate) const MEMSET: u32 = 2;
    pub(crate) const DRIVER: u32 = 4;
    pub(crate) const RUNTIME: u32 = 5;
    pub(crate) const KERNEL: u32 = 10;
    pub(crate) const OVERHEAD: u32 = 17;
    pub(crate) const MEMCPY_PEER: u32 = 22;
    pub(crate) const SYNCHRONIZATION: u32 = 38;
}

/// What every record begins with.
#[repr(C)]
pub(crate) struct Activity {
    pub(crate) kind: u32,
}

// CUpti_ActivityKernel9
#[repr(C)]
pub(crate) struct Kernel {
    pub(crate) kind: u32,
    cache_config: u8,
    shared_memory_config: u8,
    pub(crate) registers_per_thread: u16,
    partitioned_global_cache: [u32; 2],
    pub(crate) start: u64,
    pub(crate) end: u64,
    completed: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) grid: [i32; 3],
    pub(crate) block: [i32; 3],
    pub(crate) static_shared: i32,
    pub(crate) dynamic_shared: i32,
    local_memory_per_thread: u32,
    local_memory_total: u32,
    pub(crate) correlation: u32,
    grid_id: i64,
    pub(crate) name: *const std::ffi::c_char,
    reserved: *const std::ffi::c_void,
    queued: u64,
    submitted: u64,
    launch_type: u8,
    is_shared_memory_carveout_requested: u8,
    shared_memory_carveout_requested: u8,
    padding: u8,
    shared_memory_executed: u32,
    pub(crate) graph_node: u64,
    shmem_limit_config: u32,
    pub(crate) graph: u32,
}

// CUpti_ActivityMemcpy5
#[repr(C)]
pub(crate) struct Memcpy {
    pub(crate) kind: u32,
    pub(crate) copy_kind: u8,
    pub(crate) source_kind: u8,
    pub(crate) target_kind: u8,
    flags: u8,
    pub(crate) bytes: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) correlation: u32,
    runtime_correlation: u32,
    padding: u32,
    reserved: *const std::ffi::c_void,
    pub(crate) graph_node: u64,
    pub(crate) graph: u32,
}

/// `CUpti_ActivityMemcpyPtoP4` (12.0) and later: a copy between devices.
#[repr(C)]
pub(crate) struct MemcpyPeer {
    pub(crate) kind: u32,
    pub(crate) copy_kind: u8,
    pub(crate) source_kind: u8,
    pub(crate) target_kind: u8,
    flags: u8,
    pub(crate) bytes: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    source_device: u32,
    source_context: u32,
    target_device: u32,
    target_context: u32,
    pub(crate) correlation: u32,
    reserved: *const std::ffi::c_void,
    pub(crate) graph_node: u64,
    pub(crate) graph: u32,
}

// CUpti_ActivityMemset4
#[repr(C)]
pub(crate) struct Memset {
    pub(crate) kind: u32,
    value: u32,
    pub(crate) bytes: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) correlation: u32,
    flags: u16,
    pub(crate) memory_kind: u16,
    padding: u32,
    reserved: *const std::ffi::c_void,
    pub(crate) graph_node: u64,
    pub(crate) graph: u32,
}

// CUpti_ActivitySynchronization
#[repr(C)]
pub(crate) struct Synchronization {
    pub(crate) kind: u32,
    pub(crate) wait_kind: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) correlation: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    event: u32,
}

/// `CUpti_ActivityAPI`: a call of the runtime or the driver.
#[repr(C)]
pub(crate) struct Api {
    pub(crate) kind: u32,
    pub(crate) callback: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    process: u32,
    pub(crate) thread: u32,
    pub(crate) correlation: u32,
    pub(crate) status: u32,
}

/// `CUpti_CallbackData`, which callbacks of calls are given.
#[repr(C)]
pub(crate) struct Callback {
    // CUpti_ApiCallbackSite
    pub(crate) site: u32,
}

impl Callback {
    /// The call is about to return; otherwise it has just begun.
    pub(crate) const EXIT: u32 = 1;
}

// CUpti_ActivityOverhead
#[repr(C)]
pub(crate) struct Overhead {
    pub(crate) kind: u32,
    pub(crate) cause: u32,
    /// `CUpti_ActivityObjectKind`; [`Overhead::THREAD`] for a thread.
    pub(crate) object_kind: u32,
    process: u32,
    pub(crate) thread: u32,
    object_rest: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Overhead {
    pub(crate) const THREAD: u32 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::mem::offset_of;

    /// `version kind field offset size`, written by `tests/layouts.sh` from NVIDIA's headers.
    const TABLE: &str = include_str!("../../tests/layouts.txt");

    macro_rules! ours {
        ($($record:literal $field:literal = $struct:ident . $($ours:ident)+ : $size:expr;)*) => {
            vec![$( (($record, $field), (offset_of!($struct, $($ours)+), $size)), )*]
        };
    }

    /// Where our fields lie and how long they are, by record and NVIDIA's name of the field.
    fn our_fields() -> HashMap<(&'static str, &'static str), (usize, usize)> {
        ours! {
            "kernel" "registersPerThread" = Kernel.registers_per_thread: 2;
            "kernel" "start" = Kernel.start: 8;
            "kernel" "end" = Kernel.end: 8;
            "kernel" "deviceId" = Kernel.device: 4;
            "kernel" "contextId" = Kernel.context: 4;
            "kernel" "streamId" = Kernel.stream: 4;
            "kernel" "gridX" = Kernel.grid: 4;
            "kernel" "blockX" = Kernel.block: 4;
            "kernel" "staticSharedMemory" = Kernel.static_shared: 4;
            "kernel" "dynamicSharedMemory" = Kernel.dynamic_shared: 4;
            "kernel" "correlationId" = Kernel.correlation: 4;
            "kernel" "name" = Kernel.name: 8;
            "kernel" "graphNodeId" = Kernel.graph_node: 8;
            "kernel" "graphId" = Kernel.graph: 4;
            "memcpy" "copyKind" = Memcpy.copy_kind: 1;
            "memcpy" "srcKind" = Memcpy.source_kind: 1;
            "memcpy" "dstKind" = Memcpy.target_kind: 1;
            "memcpy" "bytes" = Memcpy.bytes: 8;
            "memcpy" "start" = Memcpy.start: 8;
            "memcpy" "end" = Memcpy.end: 8;
            "memcpy" "deviceId" = Memcpy.device: 4;
            "memcpy" "contextId" = Memcpy.context: 4;
            "memcpy" "streamId" = Memcpy.stream: 4;
            "memcpy" "correlationId" = Memcpy.correlation: 4;
            "memcpy" "graphNodeId" = Memcpy.graph_node: 8;
            "memcpy" "graphId" = Memcpy.graph: 4;
            "memcpy2" "copyKind" = MemcpyPeer.copy_kind: 1;
            "memcpy2" "srcKind" = MemcpyPeer.source_kind: 1;
            "memcpy2" "dstKind" = MemcpyPeer.target_kind: 1;
            "memcpy2" "bytes" = MemcpyPeer.bytes: 8;
            "memcpy2" "start" = MemcpyPeer.start: 8;
            "memcpy2" "end" = MemcpyPeer.end: 8;
            "memcpy2" "deviceId" = MemcpyPeer.device: 4;
            "memcpy2" "contextId" = MemcpyPeer.context: 4;
            "memcpy2" "streamId" = MemcpyPeer.stream: 4;
            "memcpy2" "correlationId" = MemcpyPeer.correlation: 4;
            "memcpy2" "graphNodeId" = MemcpyPeer.graph_node: 8;
            "memcpy2" "graphId" = MemcpyPeer.graph: 4;
            "memset" "bytes" = Memset.bytes: 8;
            "memset" "start" = Memset.start: 8;
            "memset" "end" = Memset.end: 8;
            "memset" "deviceId" = Memset.device: 4;
            "memset" "contextId" = Memset.context: 4;
            "memset" "streamId" = Memset.stream: 4;
            "memset" "correlationId" = Memset.correlation: 4;
            "memset" "memoryKind" = Memset.memory_kind: 2;
            "memset" "graphNodeId" = Memset.graph_node: 8;
            "memset" "graphId" = Memset.graph: 4;
            "sync" "type" = Synchronization.wait_kind: 4;
            "sync" "start" = Synchronization.start: 8;
            "sync" "end" = Synchronization.end: 8;
            "sync" "correlationId" = Synchronization.correlation: 4;
            "sync" "contextId" = Synchronization.context: 4;
            "sync" "streamId" = Synchronization.stream: 4;
            "api" "cbid" = Api.callback: 4;
            "api" "start" = Api.start: 8;
            "api" "end" = Api.end: 8;
            "api" "threadId" = Api.thread: 4;
            "api" "correlationId" = Api.correlation: 4;
            "api" "returnValue" = Api.status: 4;
            "overhead" "overheadKind" = Overhead.cause: 4;
            "overhead" "objectKind" = Overhead.object_kind: 4;
            "overhead" "objectThread" = Overhead.thread: 4;
            "overhead" "start" = Overhead.start: 8;
            "overhead" "end" = Overhead.end: 8;
            "callback" "callbackSite" = Callback.site: 4;
        }
        .into_iter()
        .collect()
    }

    #[test]
    fn every_field_lies_where_the_headers_of_every_version_say() {
        let ours = our_fields();
        let prefix = |record: &str| match record {
            "kernel" => size_of::<Kernel>(),
            "memcpy" => size_of::<Memcpy>(),
            "memcpy2" => size_of::<MemcpyPeer>(),
            "memset" => size_of::<Memset>(),
            "sync" => size_of::<Synchronization>(),
            "api" => size_of::<Api>(),
            "overhead" => size_of::<Overhead>(),
            "callback" => size_of::<Callback>(),
            other => panic!("{other}"),
        };
        let (mut versions, mut compared) = (std::collections::BTreeSet::new(), 0);
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let [version, record, field, offset, size] = words[..] else {
                panic!("{line}");
            };
            let number = |text: &str| text.parse::<usize>().unwrap();
            versions.insert(version);
            if field == "exit" {
                assert_eq!(Callback::EXIT, offset.parse().unwrap(), "{line}");
                continue;
            }
            if field == "size" {
                assert!(prefix(record) <= number(size), "{line}");
                continue;
            }
            let (at, length) = ours[&(record, field)];
            assert_eq!((at, length), (number(offset), number(size)), "{line}");
            compared += 1;
        }
        assert_eq!(versions.len(), 14, "{versions:?}");
        assert_eq!(compared, versions.len() * ours.len());
    }
}
