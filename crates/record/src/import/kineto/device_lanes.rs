//! Devices of XLA's trace viewer (JAX, TensorFlow): their events have no category, but threads of processes such as `/device:GPU:0`.
//!
//! A GPU has a thread for each stream, a TPU one for its ops. Other threads of a device repeat the same time by module, framework op or
//! source line; of these the modules are kept, as ranges of the device.

use crate::trace::{
    Copy, CopyKind, Host, HostKind, Hosts, Kernel, Memset, Range, RangeKind, TraceBuilder,
};

/// What a thread of a device shows.
#[derive(Clone, Copy)]
enum Lane {
    /// Work, with the stream.
    Work(u32),
    Modules,
    Repeated,
}

/// Moves events of such threads from the host to their devices.
pub(super) fn resolve(builder: &mut TraceBuilder) {
    let lanes = lanes(builder);
    if lanes.iter().all(Option::is_none) {
        return;
    }
    let mut kept = Hosts::default();
    for event in std::mem::take(&mut builder.hosts).rows() {
        let lane = lanes.get(event.thread.0 as usize).copied().flatten();
        match lane.filter(|_| event.kind == HostKind::OTHER) {
            Some((device, Lane::Work(stream))) => work(builder, &event, device, stream),
            Some((device, Lane::Modules)) => builder.ranges.push(Range {
                start: event.start,
                duration: event.duration,
                name: event.name,
                kind: RangeKind::DEVICE_ANNOTATION,
                device,
                ..Range::default()
            }),
            Some((_, Lane::Repeated)) => {}
            None => kept.push(event),
        }
    }
    builder.hosts = kept;
}

/// The device and what is shown of it, by thread.
fn lanes(builder: &TraceBuilder) -> Vec<Option<(u32, Lane)>> {
    let threads = builder.thread_rows();
    let names = (0..threads.len()).map(|row| {
        let process = builder.strings.get(threads.process_name[row]);
        (device(process), builder.strings.get(threads.name[row]))
    });
    let has_streams = names
        .clone()
        .any(|(device, name)| device.is_some() && stream(name).is_some());
    names
        .map(|(device, name)| {
            let lane = match stream(name) {
                Some(stream) => Lane::Work(stream),
                None if name == "XLA Ops" && !has_streams => Lane::Work(0),
                None if name == "XLA Modules" => Lane::Modules,
                None => Lane::Repeated,
            };
            Some((device?, lane))
        })
        .collect()
}

/// The number of `/device:GPU:0`; later versions add the model of the chip after it.
fn device(process: &str) -> Option<u32> {
    let device = process.strip_prefix("/device:")?;
    let (_, number) = device.split_once(':')?;
    number.split_whitespace().next()?.parse().ok()
}

/// The number of `Stream #22(Compute,MemcpyD2D)`.
fn stream(thread: &str) -> Option<u32> {
    let number = thread.strip_prefix("Stream #")?;
    number.split('(').next()?.trim().parse().ok()
}

fn work(builder: &mut TraceBuilder, event: &Host, device: u32, stream: u32) {
    let Host {
        start,
        duration,
        name,
        ..
    } = *event;
    let text = builder.strings.get(name);
    let direction = text.strip_prefix("Memcpy").map(|kind| match kind {
        "H2D" => CopyKind::HOST_TO_DEVICE,
        "D2H" => CopyKind::DEVICE_TO_HOST,
        "D2D" => CopyKind::DEVICE_TO_DEVICE,
        "P2P" => CopyKind::PEER_TO_PEER,
        _ => CopyKind::UNKNOWN,
    });
    if let Some(kind) = direction {
        builder.copies.push(Copy {
            start,
            duration,
            name,
            kind,
            device,
            stream,
            ..Copy::default()
        });
    } else if text.starts_with("Memset") {
        builder.memsets.push(Memset {
            start,
            duration,
            name,
            device,
            stream,
            ..Memset::default()
        });
    } else {
        builder.kernels.push(Kernel {
            start,
            duration,
            name,
            device,
            stream,
            occupancy: f32::NAN,
            ..Kernel::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_streams_are_read_from_names() {
        assert_eq!(device("/device:GPU:3"), Some(3));
        assert_eq!(device("/device:TPU:0 (pid 3)"), Some(0));
        assert_eq!(device("/host:CPU"), None);
        assert_eq!(stream("Stream #22(Compute,MemcpyD2D)"), Some(22));
        assert_eq!(stream("XLA Modules"), None);
    }
}
