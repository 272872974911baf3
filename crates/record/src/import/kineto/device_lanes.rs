//! Events without a category, on processes and threads whose names say that they are devices: those of XLA's trace viewer (JAX,
//! TensorFlow) and of Ascend's profiler.

use hashbrown::HashMap;

use super::super::xla::{self, Lane, Work, add_ops, add_range, add_work};
use crate::trace::{
    AcceleratorKind, Copy, DeviceProperties, Host, HostKind, Hosts, Sync, SyncKind, TraceBuilder,
};

/// What is done with the events of a thread.
#[derive(Clone, Copy)]
enum LaneRole {
    Xla(u32, Lane),
    /// Tasks of an Ascend device, with device and stream.
    AscendTasks(u32, u32),
    /// Collectives of an Ascend device.
    AscendCollectives(u32, u32),
    /// Calls of the host into Ascend's runtime.
    AscendCalls,
    /// The same time once more.
    Repeated,
}

/// Device and stream of a process and thread that an Ascend device is drawn as.
pub(super) type AscendThreads = HashMap<(i64, i64), (u32, u32)>;

/// Moves events of such threads from the host to their devices.
pub(super) fn move_device_events(builder: &mut TraceBuilder) -> AscendThreads {
    let rows = rows_by_thread(builder);
    let mut ascend_threads = AscendThreads::new();
    if rows.iter().all(Option::is_none) {
        return ascend_threads;
    }
    let mut kept = Hosts::default();
    let mut ops: HashMap<u32, Vec<Work>> = HashMap::new();
    for mut event in std::mem::take(&mut builder.hosts).rows() {
        let row = rows.get(event.thread.0 as usize).copied().flatten();
        // An op of XLA is the host's own only where no device has its row.
        let may_be_device = |row: &LaneRole| match event.kind {
            HostKind::OTHER => true,
            HostKind::OPERATOR => matches!(row, LaneRole::Xla(..)),
            _ => false,
        };
        match row.filter(may_be_device) {
            Some(
                LaneRole::Xla(device, Lane::Stream(stream))
                | LaneRole::AscendCollectives(device, stream),
            ) => {
                add_work(builder, &device_work(&event, device, stream));
            }
            Some(LaneRole::Xla(device, Lane::Ops)) => {
                ops.entry(device)
                    .or_default()
                    .push(device_work(&event, device, 0));
            }
            Some(LaneRole::Xla(device, Lane::Ranges)) => {
                add_range(builder, &device_work(&event, device, 0));
            }
            Some(LaneRole::Xla(_, Lane::Repeated) | LaneRole::Repeated) => {}
            Some(LaneRole::AscendTasks(device, stream)) => {
                let thread = builder.thread_numbers(event.thread);
                ascend_threads.insert(thread, (device, stream));
                add_task(builder, &event, device, stream);
            }
            Some(LaneRole::AscendCalls) => {
                event.kind = HostKind::RUNTIME;
                kept.push(event);
            }
            None => kept.push(event),
        }
    }
    builder.hosts = kept;
    for (_, ops) in ops {
        add_ops(builder, ops);
    }
    ascend_threads
}

fn device_work(event: &Host, device: u32, stream: u32) -> Work {
    Work {
        start: event.start,
        duration: event.duration,
        name: event.name,
        device,
        stream,
        correlation: event.correlation,
        ..Work::default()
    }
}

/// Waits and records of events are no work; copies are named by their task type.
fn add_task(builder: &mut TraceBuilder, event: &Host, device: u32, stream: u32) {
    let Host {
        start,
        duration,
        name,
        ..
    } = *event;
    let text = builder.strings.get(name).to_ascii_lowercase();
    let begins = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    if begins(&["event_", "notify_", "capture_wait", "capture_record", "ph_"]) {
        let kind = if text.contains("wait") {
            SyncKind::STREAM_WAIT
        } else {
            SyncKind::EVENT
        };
        builder.syncs.push(Sync {
            start,
            duration,
            name,
            kind,
            device,
            stream,
            ..Sync::default()
        });
    } else if begins(&["memcpy", "sdma"]) {
        builder.copies.push(Copy {
            start,
            duration,
            name,
            device,
            stream,
            ..Copy::default()
        });
    } else {
        add_work(builder, &device_work(event, device, stream));
    }
}

/// What the events of each thread are, by its id.
fn rows_by_thread(builder: &mut TraceBuilder) -> Vec<Option<LaneRole>> {
    let threads = builder.thread_rows();
    let text = |id| builder.strings.get(id);
    let names = || {
        (0..threads.len()).map(|row| {
            let process = (threads.process[row], threads.process_label[row]);
            (
                process,
                text(threads.process_name[row]),
                text(threads.name[row]),
            )
        })
    };
    let mut xla_devices: Vec<(u32, AcceleratorKind)> = names()
        .filter_map(|(_, process, _)| xla::parse_device(process))
        .collect();
    xla_devices.sort_unstable();
    xla_devices.dedup();
    let has_streams = names().any(|(_, process, name)| {
        xla::parse_device(process).is_some() && xla::stream_number(name).is_some()
    });
    // Each rank has a process of this name; ranks that were merged into one file are numbered in the order of their processes.
    let mut ascend_devices: Vec<_> = names()
        .filter(|(_, name, _)| *name == "Ascend Hardware")
        .map(|(process, ..)| process)
        .collect();
    ascend_devices.sort_unstable();
    ascend_devices.dedup();
    let is_ascend = !ascend_devices.is_empty();
    // Where the tasks of a collective carry its name, or where it is not known which device's it is, it is not counted again.
    let counts_collectives = ascend_devices.len() == 1
        && !builder.hosts.rows().any(|event| {
            let row = event.thread.0 as usize;
            text(event.name).starts_with("hcom_")
                && text(threads.process_name[row]) == "Ascend Hardware"
        });
    let rows = names()
        .map(|(process, process_name, name)| {
            if let Some((device, _)) = xla::parse_device(process_name) {
                return Some(LaneRole::Xla(device, Lane::from_name(name, has_streams)));
            }
            if !is_ascend {
                return None;
            }
            let device = ascend_devices.iter().position(|known| *known == process);
            match process_name {
                "Ascend Hardware" => {
                    let stream = name.strip_prefix("Stream ")?.trim().parse().ok()?;
                    Some(LaneRole::AscendTasks(device? as u32, stream))
                }
                "CANN" => Some(LaneRole::AscendCalls),
                // Its other threads have the transfers that a collective consists of.
                "HCCL" | "Communication"
                    if counts_collectives && name.contains("Communication") =>
                {
                    Some(LaneRole::AscendCollectives(0, COLLECTIVE_STREAM))
                }
                "HCCL" | "Communication" | "Overlap Analysis" => Some(LaneRole::Repeated),
                _ => None,
            }
        })
        .collect();
    let ascend = (0..ascend_devices.len() as u32).map(|number| (number, AcceleratorKind::Npu));
    let devices: Vec<_> = xla_devices.into_iter().chain(ascend).collect();
    for (id, kind) in devices {
        builder.devices.push(DeviceProperties {
            id,
            kind,
            ..DeviceProperties::default()
        });
    }
    rows
}

/// Says of each device with events what kind it is.
pub(super) fn set_kind(builder: &mut TraceBuilder, kind: AcceleratorKind) {
    let kernels = builder.kernels.device.iter();
    let mut devices: Vec<u32> = kernels
        .chain(builder.copies.device.iter())
        .copied()
        .collect();
    devices.sort_unstable();
    devices.dedup();
    for device in &mut builder.devices {
        device.kind = kind;
    }
    for id in devices {
        if builder.devices.iter().all(|known| known.id != id) {
            builder.devices.push(DeviceProperties {
                id,
                kind,
                ..DeviceProperties::default()
            });
        }
    }
}

/// Collectives of an Ascend device have no stream of their own in the trace; no stream has this number.
const COLLECTIVE_STREAM: u32 = u32::MAX - 1;
