//! What XLA's profiler (JAX, TensorFlow) calls devices and their rows, in its Chrome JSON and in XPlane files.
//!
//! A GPU has a row for each stream, a TPU one for its ops. Other rows of a device repeat the same time by module, framework op or
//! source line; of these the modules are kept, as ranges of the device.

use crate::trace::{
    AcceleratorKind, Copy, CopyKind, HostKind, Kernel, MemoryKind, Memset, Range, RangeKind, StrId,
    TraceBuilder,
};

/// What a row of a device shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Stream(u32),
    /// Ops of a device without streams. An op may hold others: a loop lasts as long as its body.
    Ops,
    /// Ranges: compiled programs, and transfers from their start to the op that waits for them.
    Ranges,
    Repeated,
}

impl Lane {
    /// What a row with this name shows, on a device that has streams or none.
    pub(super) fn from_name(row: &str, has_streams: bool) -> Self {
        match stream_number(row) {
            Some(stream) => Self::Stream(stream),
            None if row == "XLA Ops" && !has_streams => Self::Ops,
            None if matches!(row, "XLA Modules" | "Async XLA Ops") => Self::Ranges,
            None => Self::Repeated,
        }
    }
}

/// The number and kind of `/device:GPU:0`; later versions add the model of the chip after it.
pub(super) fn parse_device(name: &str) -> Option<(u32, AcceleratorKind)> {
    let device = name.strip_prefix("/device:")?;
    let (kind, number) = device.split_once(':')?;
    let number = number.split_whitespace().next()?.parse().ok()?;
    let kind = match kind {
        "GPU" => AcceleratorKind::Gpu,
        "TPU" => AcceleratorKind::Tpu,
        _ => AcceleratorKind::Other,
    };
    Some((number, kind))
}

/// The number of `Stream #22(Compute,MemcpyD2D)`.
pub(super) fn stream_number(row: &str) -> Option<u32> {
    let number = row.strip_prefix("Stream #")?;
    number.split('(').next()?.trim().parse().ok()
}

/// What an event of the host is. XLA names Python functions by file and line, `$core.py:660 bind`; what it runs on the CPU itself has
/// the op of the compiled program, and everything else is its own bookkeeping.
pub(super) fn host_kind(name: &[u8], is_op: bool) -> HostKind {
    if is_op {
        HostKind::OPERATOR
    } else if name.starts_with(b"$") {
        HostKind::PYTHON
    } else {
        HostKind::OTHER
    }
}

/// Something that a device did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) start: i64,
    pub(super) duration: i64,
    pub(super) name: StrId,
    pub(super) device: u32,
    pub(super) stream: u32,
    pub(super) correlation: u32,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) registers: u32,
    pub(super) static_shared: u32,
    pub(super) dynamic_shared: u32,
    pub(super) occupancy: Option<f32>,
    pub(super) bytes: u64,
}

/// Puts work into the table of copies, memsets or kernels, by its name.
pub(super) fn add_work(builder: &mut TraceBuilder, work: &Work) {
    let Work {
        start,
        duration,
        name,
        device,
        stream,
        correlation,
        bytes,
        ..
    } = *work;
    let text = builder.strings.get(name);
    if let Some(direction) = text.strip_prefix("Memcpy") {
        let (kind, source, target) = copy_ends(direction);
        builder.copies.push(Copy {
            start,
            duration,
            name,
            kind,
            source,
            target,
            device,
            stream,
            correlation,
            bytes,
            ..Copy::default()
        });
    } else if text.starts_with("Memset") {
        builder.memsets.push(Memset {
            start,
            duration,
            name,
            device,
            stream,
            correlation,
            bytes,
            ..Memset::default()
        });
    } else {
        builder.kernels.push(Kernel {
            start,
            duration,
            name,
            device,
            stream,
            correlation,
            grid: work.grid,
            block: work.block,
            registers: work.registers,
            static_shared: work.static_shared,
            dynamic_shared: work.dynamic_shared,
            occupancy: work.occupancy.unwrap_or(f32::NAN),
            ..Kernel::default()
        });
    }
}

fn copy_ends(direction: &str) -> (CopyKind, MemoryKind, MemoryKind) {
    // Which kind of host memory it was is not recorded.
    let (host, device) = (MemoryKind::UNKNOWN, MemoryKind::DEVICE);
    match direction {
        "H2D" => (CopyKind::HOST_TO_DEVICE, host, device),
        "D2H" => (CopyKind::DEVICE_TO_HOST, device, host),
        "D2D" => (CopyKind::DEVICE_TO_DEVICE, device, device),
        "P2P" => (CopyKind::PEER_TO_PEER, device, device),
        _ => (CopyKind::UNKNOWN, host, host),
    }
}

pub(super) fn add_range(builder: &mut TraceBuilder, work: &Work) {
    builder.ranges.push(Range {
        start: work.start,
        duration: work.duration,
        name: work.name,
        kind: RangeKind::DEVICE_ANNOTATION,
        device: work.device,
        stream: work.stream,
        ..Range::default()
    });
}

/// Adds the ops of one device. An op that holds others becomes a range: its time is theirs, and counting both would count it twice.
pub(super) fn add_ops(builder: &mut TraceBuilder, mut ops: Vec<Work>) {
    ops.sort_by_key(|op| (op.start, std::cmp::Reverse(op.duration)));
    let mut holds_others = vec![false; ops.len()];
    let mut open: Vec<usize> = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        let end = |index: usize| ops[index].start.saturating_add(ops[index].duration);
        while open.last().is_some_and(|&outer| end(outer) <= op.start) {
            open.pop();
        }
        // An op without a duration may lie at the edge of any other.
        if op.duration > 0
            && let Some(&outer) = open.last()
            && end(index) <= end(outer)
        {
            holds_others[outer] = true;
        }
        open.push(index);
    }
    for (op, is_range) in ops.iter().zip(holds_others) {
        if is_range {
            add_range(builder, op);
        } else {
            add_work(builder, op);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_streams_are_read_from_names() {
        assert_eq!(
            parse_device("/device:GPU:3"),
            Some((3, AcceleratorKind::Gpu))
        );
        assert_eq!(
            parse_device("/device:TPU:0 (pid 3)"),
            Some((0, AcceleratorKind::Tpu))
        );
        assert_eq!(parse_device("/device:CUSTOM:Megascale Trace"), None);
        assert_eq!(parse_device("/host:CPU"), None);
        assert_eq!(stream_number("Stream #22(Compute,MemcpyD2D)"), Some(22));
        assert_eq!(stream_number("XLA Modules"), None);
    }

    #[test]
    fn a_loop_is_a_range_around_the_ops_of_its_body() {
        let mut builder = TraceBuilder::default();
        let op = |builder: &mut TraceBuilder, name: &str, start, duration| Work {
            start,
            duration,
            name: builder.intern(name),
            ..Work::default()
        };
        let ops = vec![
            op(&mut builder, "body.1", 10, 40),
            op(&mut builder, "while", 10, 100),
            op(&mut builder, "body.2", 50, 60),
            op(&mut builder, "edge", 110, 0),
            op(&mut builder, "after", 110, 5),
        ];
        add_ops(&mut builder, ops);
        let trace = builder.finish();
        let names = |ids: &[StrId]| ids.iter().map(|&id| trace.text(id)).collect::<Vec<_>>();
        assert_eq!(names(&trace.ranges.name), ["while"]);
        assert_eq!(
            names(&trace.kernels.name),
            ["body.1", "body.2", "edge", "after"]
        );
    }
}
