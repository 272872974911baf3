//! Kernels, copies, memsets, synchronizations, whole graphs and allocations.

use std::collections::HashMap;

use super::Reading;
use super::database::{Cells, Database};
use crate::issue::{Issue, IssueCode};
use crate::kernel_name::GRAPH_EXECUTION;
use crate::trace::{
    Copy, CopyKind, Kernel, MemoryEvent, MemoryKind, MemoryPlace, Memset, StrId, Sync, SyncKind,
    ThreadId,
};

pub(super) fn read(database: &mut Database, reading: &mut Reading) {
    read_kernels(database, reading);
    read_graphs(database, reading);
    read_copies(database, reading);
    read_memsets(database, reading);
    read_syncs(database, reading);
    read_memory(database, reading);
}

/// What all activities of a device begin with.
const PLACE: [&str; 7] = [
    "start",
    "end",
    "deviceId",
    "contextId",
    "streamId",
    "correlationId",
    "globalPid",
];

struct DevicePlace {
    start: i64,
    duration: i64,
    device: u32,
    context: u32,
    stream: u32,
    correlation: u32,
    is_backwards: bool,
}

fn read_place(cells: &mut Cells<'_>, reading: &mut Reading) -> Option<DevicePlace> {
    let (start, end, device) = (cells.int()?, cells.int()?, cells.int()?);
    let (context, stream, correlation, process) =
        (cells.small(), cells.int(), cells.int(), cells.int());
    Some(DevicePlace {
        start,
        duration: end.saturating_sub(start).max(0),
        device: reading.devices.number(process, device)?,
        context,
        stream: stream.map_or(0, |stream| stream as u32),
        correlation: reading.correlations.unique(process, correlation),
        is_backwards: end < start,
    })
}

/// The graph behind a node: its own column where this version has one, else the upper half of the node's id.
fn graph_ids(node: Option<i64>, graph: Option<i64>) -> (u64, u32) {
    let node = node.unwrap_or(0) as u64;
    (
        node,
        graph.map_or((node >> 32) as u32, |graph| graph as u32),
    )
}

fn read_kernels(database: &mut Database, reading: &mut Reading) {
    const TABLE: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
    let mut columns = PLACE.to_vec();
    columns.extend([
        "demangledName",
        "mangledName",
        "shortName",
        "gridX",
        "gridY",
        "gridZ",
        "blockX",
        "blockY",
        "blockZ",
        "registersPerThread",
        "staticSharedMemory",
        "dynamicSharedMemory",
        "graphNodeId",
        "graphId",
    ]);
    let mut backwards = 0;
    let rows = database.scan(TABLE, &columns, 3, |cells| {
        let at = read_place(cells, reading)?;
        backwards += u64::from(at.is_backwards);
        let (demangled, mangled, short) = (cells.int(), cells.int(), cells.int());
        let grid = [cells.small(), cells.small(), cells.small()];
        let block = [cells.small(), cells.small(), cells.small()];
        let (registers, static_shared, dynamic_shared) =
            (cells.small(), cells.small(), cells.small());
        let (graph_node, graph) = graph_ids(cells.int(), cells.int());
        // 0 is no string of a kernel, whatever the table of strings has under it.
        let mut names = [demangled, mangled, short]
            .into_iter()
            .filter(|id| *id != Some(0));
        let name = names
            .find_map(|id| Some(reading.text(id)).filter(|text| *text != StrId::EMPTY))
            .unwrap_or_default();
        let mangled = reading.text(mangled);
        reading.builder.kernels.push(Kernel {
            start: at.start,
            duration: at.duration,
            name,
            mangled,
            device: at.device,
            context: at.context,
            stream: at.stream,
            correlation: at.correlation,
            graph,
            graph_node,
            grid,
            block,
            registers,
            static_shared,
            dynamic_shared,
            occupancy: f32::NAN,
            ..Kernel::default()
        });
        Some(())
    });
    reading.builder.events_read += rows;
    database.lose(
        Issue::warning(IssueCode::NsysEndsBeforeStart),
        TABLE,
        backwards,
    );
}

/// Graphs that were traced as one activity each: a kernel row that stands for all of its nodes.
fn read_graphs(database: &mut Database, reading: &mut Reading) {
    const TABLE: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
    let mut columns = PLACE.to_vec();
    columns.extend(["graphId", "graphExecId"]);
    let (mut whole, mut without_time) = (0, 0);
    let rows = database.scan(TABLE, &columns, 3, |cells| {
        let at = read_place(cells, reading)?;
        let (graph, executable) = (cells.int(), cells.int());
        if at.start == 0 && at.duration == 0 {
            // The driver says so when it could not take the time.
            without_time += 1;
            return Some(());
        }
        whole += 1;
        let graph = graph.or(executable).unwrap_or(0) as u32;
        let name = reading.builder.intern(GRAPH_EXECUTION);
        reading.builder.kernels.push(Kernel {
            start: at.start,
            duration: at.duration,
            name,
            device: at.device,
            context: at.context,
            stream: at.stream,
            correlation: at.correlation,
            graph,
            occupancy: f32::NAN,
            ..Kernel::default()
        });
        Some(())
    });
    reading.builder.events_read += rows;
    database.lose(Issue::info(IssueCode::NsysGraphsWhole), TABLE, whole);
    let issue = Issue::warning(IssueCode::NsysGraphsWithoutTime);
    database.lose(issue, TABLE, without_time);
}

fn read_copies(database: &mut Database, reading: &mut Reading) {
    const TABLE: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
    let kinds = database.labels("ENUM_CUDA_MEMCPY_OPER");
    let memory = database.labels("ENUM_CUDA_MEM_KIND");
    let mut columns = PLACE.to_vec();
    columns.extend([
        "copyKind",
        "bytes",
        "srcKind",
        "dstKind",
        "graphNodeId",
        "graphId",
    ]);
    let mut backwards = 0;
    let rows = database.scan(TABLE, &columns, 3, |cells| {
        let at = read_place(cells, reading)?;
        backwards += u64::from(at.is_backwards);
        let (kind, bytes) = (cells.int(), cells.int());
        let (source, target) = (cells.int(), cells.int());
        let (graph_node, graph) = graph_ids(cells.int(), cells.int());
        let direction = copy_direction(kind, &kinds);
        let name = reading
            .builder
            .intern(&format!("[CUDA memcpy {direction}]"));
        reading.builder.copies.push(Copy {
            start: at.start,
            duration: at.duration,
            name,
            kind: copy_kind(direction),
            source: memory_kind(source, &memory),
            target: memory_kind(target, &memory),
            device: at.device,
            context: at.context,
            stream: at.stream,
            correlation: at.correlation,
            graph,
            graph_node,
            bytes: bytes.unwrap_or(0).max(0) as u64,
            ..Copy::default()
        });
        Some(())
    });
    reading.builder.events_read += rows;
    database.lose(
        Issue::warning(IssueCode::NsysEndsBeforeStart),
        TABLE,
        backwards,
    );
}

/// The tool's words for a copy. Versions without the table of labels have CUPTI's codes.
fn copy_direction(kind: Option<i64>, labels: &HashMap<i64, String>) -> &str {
    let Some(kind) = kind else { return "Unknown" };
    if let Some(label) = labels.get(&kind) {
        return label;
    }
    match kind {
        1 => "Host-to-Device",
        2 => "Device-to-Host",
        8 => "Device-to-Device",
        9 => "Host-to-Host",
        10 => "Peer-to-Peer",
        3..=7 => "Array",
        _ => "Unknown",
    }
}

fn copy_kind(direction: &str) -> CopyKind {
    match direction.trim_start_matches("Unified ") {
        "Host-to-Device" => CopyKind::HOST_TO_DEVICE,
        "Device-to-Host" => CopyKind::DEVICE_TO_HOST,
        "Device-to-Device" => CopyKind::DEVICE_TO_DEVICE,
        "Host-to-Host" => CopyKind::HOST_TO_HOST,
        "Peer-to-Peer" => CopyKind::PEER_TO_PEER,
        other if other.contains("Array") => CopyKind::ARRAY,
        _ => CopyKind::UNKNOWN,
    }
}

/// The kind of memory by its label. The codes changed between versions, so without labels it is not reported.
fn memory_kind(kind: Option<i64>, labels: &HashMap<i64, String>) -> MemoryKind {
    let label = kind
        .and_then(|kind| labels.get(&kind))
        .map_or("", String::as_str);
    match label {
        "Pageable" => MemoryKind::PAGEABLE,
        "Pinned" => MemoryKind::PINNED,
        "Device" | "Device Static" => MemoryKind::DEVICE,
        "Array" => MemoryKind::ARRAY,
        "Managed" | "Managed Static" => MemoryKind::MANAGED,
        _ => MemoryKind::UNKNOWN,
    }
}

fn read_memsets(database: &mut Database, reading: &mut Reading) {
    const TABLE: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
    let memory = database.labels("ENUM_CUDA_MEM_KIND");
    let mut columns = PLACE.to_vec();
    columns.extend(["bytes", "memKind", "graphNodeId", "graphId"]);
    let mut backwards = 0;
    let rows = database.scan(TABLE, &columns, 3, |cells| {
        let at = read_place(cells, reading)?;
        backwards += u64::from(at.is_backwards);
        let (bytes, kind) = (cells.int(), cells.int());
        let (graph_node, graph) = graph_ids(cells.int(), cells.int());
        let name = reading.builder.intern("[CUDA memset]");
        reading.builder.memsets.push(Memset {
            start: at.start,
            duration: at.duration,
            name,
            target: memory_kind(kind, &memory),
            device: at.device,
            context: at.context,
            stream: at.stream,
            correlation: at.correlation,
            graph,
            graph_node,
            bytes: bytes.unwrap_or(0).max(0) as u64,
            ..Memset::default()
        });
        Some(())
    });
    reading.builder.events_read += rows;
    database.lose(
        Issue::warning(IssueCode::NsysEndsBeforeStart),
        TABLE,
        backwards,
    );
}

fn read_syncs(database: &mut Database, reading: &mut Reading) {
    const TABLE: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
    let labels = database.labels("ENUM_CUPTI_SYNC_TYPE");
    let mut columns = PLACE.to_vec();
    columns.push("syncType");
    let rows = database.scan(TABLE, &columns, 3, |cells| {
        let at = read_place(cells, reading)?;
        let code = cells.int().unwrap_or(0);
        let kind = match code {
            1 => SyncKind::EVENT,
            2 => SyncKind::STREAM_WAIT,
            3 => SyncKind::STREAM,
            4 => SyncKind::CONTEXT,
            _ => SyncKind::UNKNOWN,
        };
        let label = labels.get(&code).map_or(kind.name(), String::as_str);
        let name = reading.builder.intern(label);
        reading.builder.syncs.push(Sync {
            start: at.start,
            duration: at.duration,
            name,
            kind,
            device: at.device,
            context: at.context,
            stream: at.stream,
            correlation: at.correlation,
            ..Sync::default()
        });
        Some(())
    });
    reading.builder.events_read += rows;
}

/// Allocations that the driver saw, where the capture asked for them.
fn read_memory(database: &mut Database, reading: &mut Reading) {
    const TABLE: &str = "CUDA_GPU_MEMORY_USAGE_EVENTS";
    let labels = database.labels("ENUM_CUDA_DEV_MEM_EVENT_OPER");
    let columns = [
        "start",
        "bytes",
        "memoryOperationType",
        "deviceId",
        "address",
        "globalPid",
    ];
    let rows = database.scan(TABLE, &columns, 3, |cells| {
        let (time, bytes, operation) = (cells.int()?, cells.int()?, cells.int()?);
        let (device, address, process) = (cells.int().unwrap_or(0), cells.int(), cells.int());
        let label = labels.get(&operation).map_or("", String::as_str);
        let is_free =
            label.to_ascii_lowercase().contains("dealloc") || (label.is_empty() && operation == 1);
        let device = reading.devices.number(process, device)?;
        reading.builder.memory.push(MemoryEvent {
            time,
            bytes: if is_free {
                -bytes.saturating_abs()
            } else {
                bytes
            },
            address: address.unwrap_or(0) as u64,
            thread: ThreadId::NONE,
            place: MemoryPlace::DEVICE,
            device,
            ..MemoryEvent::default()
        });
        Some(())
    });
    reading.builder.events_read += rows;
}
