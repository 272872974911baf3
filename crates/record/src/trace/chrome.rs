//! Export to Chrome's trace JSON, which Perfetto and `chrome://tracing` open.
//!
//! Laid out and named as Kineto does, so that tools which read Kineto's traces read these, our own importer among them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::ids::InputsId;
use super::sync_lanes::sync_lanes;
use super::{FrameId, HostKind, HostWait, RangeKind, StrId, ThreadId, Trace};

impl Trace {
    /// Writes the trace as Chrome JSON. Host calls and device events that share a correlation id are joined by arrows.
    pub fn write_chrome(&self, out: &mut impl Write) -> io::Result<()> {
        let mut writer = ChromeWriter {
            trace: self,
            out,
            any: false,
        };
        writer.header()?;
        writer.names()?;
        writer.device_names()?;
        writer.hosts()?;
        writer.kernels()?;
        writer.copies()?;
        writer.memsets()?;
        writer.syncs()?;
        writer.ranges()?;
        writer.memory()?;
        writer.out.write_all(b"\n  ]")?;
        writer.host_samples()?;
        writer.out.write_all(b"\n}\n")
    }
}

struct ChromeWriter<'t, W> {
    trace: &'t Trace,
    out: &'t mut W,
    any: bool,
}

/// What every slice has, whichever table it is from.
struct ChromeSlice<'s> {
    category: &'s str,
    name: StrId,
    start: i64,
    duration: i64,
}

/// Nanoseconds as microseconds with three decimals.
struct Micros(i64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, nanos) = if self.0 < 0 {
            ("-", self.0.unsigned_abs())
        } else {
            ("", self.0 as u64)
        };
        write!(f, "{sign}{}.{:03}", nanos / 1000, nanos % 1000)
    }
}

impl<W: Write> ChromeWriter<'_, W> {
    fn header(&mut self) -> io::Result<()> {
        write!(
            self.out,
            "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": ["
        )?;
        for (index, device) in self.trace.devices.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(self.out, "{comma}\n    {{\"id\": {}, \"name\": ", device.id)?;
            serde_json::to_writer(&mut *self.out, &device.name)?;
            let (major, minor) = device.compute_capability.unzip();
            let facts = [
                ("totalGlobalMem", device.memory_bytes.map(|bytes| bytes.0)),
                ("computeMajor", major.map(u64::from)),
                ("computeMinor", minor.map(u64::from)),
                ("numSms", device.sm_count.map(u64::from)),
                ("warpSize", device.warp_size.map(u64::from)),
                (
                    "maxThreadsPerBlock",
                    device.max_threads_per_block.map(u64::from),
                ),
                (
                    "maxThreadsPerMultiprocessor",
                    device.max_threads_per_sm.map(u64::from),
                ),
                ("regsPerBlock", device.registers_per_block.map(u64::from)),
                (
                    "regsPerMultiprocessor",
                    device.registers_per_sm.map(u64::from),
                ),
                (
                    "sharedMemPerBlock",
                    device.shared_per_block_bytes.map(|bytes| bytes.0),
                ),
                (
                    "sharedMemPerBlockOptin",
                    device.shared_per_block_optin_bytes.map(|bytes| bytes.0),
                ),
                (
                    "sharedMemPerMultiprocessor",
                    device.shared_per_sm_bytes.map(|bytes| bytes.0),
                ),
            ];
            for (name, fact) in facts {
                if let Some(fact) = fact {
                    write!(self.out, ", \"{name}\": {fact}")?;
                }
            }
            write!(self.out, "}}")?;
        }
        write!(self.out, "\n  ],\n  \"displayTimeUnit\": \"ms\",")?;
        if let Some(origin) = self.trace.clock_origin_ns {
            write!(self.out, "\n  \"baseTimeNanoseconds\": {},", origin.0)?;
        }
        for (name, fact) in &self.trace.metadata {
            // Versions and options have Kineto's own names; its schema version is ours here.
            if name != "schema_version"
                && fact.bytes().all(|byte| byte.is_ascii_digit())
                && !fact.is_empty()
            {
                write!(self.out, "\n  \"{name}\": {fact},")?;
            }
        }
        write!(self.out, "\n  \"traceEvents\": [")
    }

    /// Begins an event; its fields follow, then [`close`](Self::close).
    fn open(&mut self) -> io::Result<()> {
        let comma = if self.any { "," } else { "" };
        self.any = true;
        write!(self.out, "{comma}\n  {{\n    ")
    }

    fn close(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n  }")
    }

    fn string(&mut self, id: StrId) -> io::Result<()> {
        let text = self.trace.text(id);
        serde_json::to_writer(&mut *self.out, text)?;
        Ok(())
    }

    /// `"pid": …, "tid": …` of a host thread.
    fn thread(&mut self, id: ThreadId) -> io::Result<()> {
        let threads = &self.trace.threads;
        let row = id.0 as usize;
        if row >= threads.len() || id == ThreadId::NONE {
            return write!(self.out, "\"pid\": \"\", \"tid\": \"\"");
        }
        let thread = threads.row(row);
        self.out.write_all(b"\"pid\": ")?;
        self.number_or_label(thread.process, thread.process_label)?;
        self.out.write_all(b", \"tid\": ")?;
        self.number_or_label(thread.thread, thread.label)
    }

    fn number_or_label(&mut self, number: i64, label: StrId) -> io::Result<()> {
        if label == StrId::EMPTY {
            write!(self.out, "{number}")
        } else {
            self.string(label)
        }
    }

    fn slice(&mut self, slice: &ChromeSlice<'_>) -> io::Result<()> {
        self.open()?;
        write!(
            self.out,
            "\"ph\": \"X\", \"cat\": \"{}\", \"name\": ",
            slice.category
        )?;
        self.string(slice.name)?;
        write!(
            self.out,
            ", \"ts\": {}, \"dur\": {}, ",
            Micros(slice.start),
            Micros(slice.duration)
        )
    }

    /// Sampled stacks in the two sections that the trace event format has for them.
    fn host_samples(&mut self) -> io::Result<()> {
        let (frames, samples) = (&self.trace.stack_frames, &self.trace.host_samples);
        if samples.is_empty() {
            return Ok(());
        }
        self.out.write_all(b",\n  \"stackFrames\": {")?;
        for row in 1..frames.len() {
            let frame = frames.row(row);
            let comma = if row > 1 { "," } else { "" };
            let (function, file) = (self.trace.text(frame.function), self.trace.text(frame.file));
            let name = match file {
                "" => function.to_owned(),
                file => format!("{function} ({file}:{})", frame.line),
            };
            write!(
                self.out,
                "{comma}\n  \"{row}\": {{\"category\": \"python\", \"name\": "
            )?;
            serde_json::to_writer(&mut *self.out, &name)?;
            if frame.parent != FrameId::NONE {
                write!(self.out, ", \"parent\": \"{}\"", frame.parent.0)?;
            }
            self.out.write_all(b"}")?;
        }
        self.out.write_all(b"\n  },\n  \"samples\": [")?;
        for (row, sample) in samples.rows().enumerate() {
            let comma = if row > 0 { "," } else { "" };
            let state = match sample.wait {
                HostWait::NONE => sample.cpu.name(),
                wait => wait.name(),
            };
            write!(self.out, "{comma}\n  {{\"cpu\": 0, ")?;
            self.thread(sample.thread)?;
            write!(
                self.out,
                ", \"ts\": {}, \"name\": \"{state}\", \"sf\": \"{}\", \"weight\": {}}}",
                Micros(sample.time),
                sample.stack.0,
                sample.period
            )?;
        }
        self.out.write_all(b"\n  ]")
    }

    fn names(&mut self) -> io::Result<()> {
        let trace = self.trace;
        let mut named = None;
        for row in 1..trace.threads.len() {
            let thread = trace.threads.row(row);
            let process = (thread.process, thread.process_label);
            if thread.process_name != StrId::EMPTY && named != Some(process) {
                named = Some(process);
                self.name_event("process_name", row, thread.process_name)?;
            }
            if thread.name != StrId::EMPTY {
                self.name_event("thread_name", row, thread.name)?;
            }
        }
        Ok(())
    }

    /// Names of devices and streams, which stand where a process and its threads do.
    fn device_names(&mut self) -> io::Result<()> {
        let trace = self.trace;
        let mut streams: BTreeSet<(u32, u32)> = BTreeSet::new();
        streams.extend(trace.kernels.rows().map(|row| (row.device, row.stream)));
        streams.extend(trace.copies.rows().map(|row| (row.device, row.stream)));
        streams.extend(trace.memsets.rows().map(|row| (row.device, row.stream)));
        let ranges = trace.ranges.rows();
        let on_device = ranges.filter(|range| range.kind == RangeKind::DEVICE_ANNOTATION);
        streams.extend(on_device.map(|range| (range.device, range.stream)));
        // The number or text that a row has for a thread, and its name.
        let mut rows: BTreeMap<u32, BTreeSet<(String, String)>> = BTreeMap::new();
        for (device, stream) in streams {
            let row = (stream.to_string(), format!("stream {stream}"));
            rows.entry(device).or_default().insert(row);
        }
        for (&device, lane) in trace.syncs.device.iter().zip(sync_lanes(&trace.syncs)) {
            let row = (format!("\"{lane}\""), lane);
            rows.entry(device).or_default().insert(row);
        }
        for (device, rows) in rows {
            let known = trace.devices.iter().find(|known| known.id == device);
            let name = match known.map(|known| known.name.as_str()) {
                Some(name) if !name.is_empty() => format!("GPU {device}: {name}"),
                _ => format!("GPU {device}"),
            };
            let label = format!("GPU {device}");
            self.device_name("process_name", device, "0", "name", &name)?;
            self.device_name("process_labels", device, "0", "labels", &label)?;
            for (row, name) in rows {
                self.device_name("thread_name", device, &row, "name", &name)?;
            }
        }
        Ok(())
    }

    fn device_name(
        &mut self,
        kind: &str,
        device: u32,
        row: &str,
        field: &str,
        name: &str,
    ) -> io::Result<()> {
        self.open()?;
        write!(
            self.out,
            "\"name\": \"{kind}\", \"ph\": \"M\", \"pid\": {device}, \"tid\": {row},\n    \"args\": {{\"{field}\": "
        )?;
        serde_json::to_writer(&mut *self.out, name)?;
        self.out.write_all(b"}")?;
        self.close()
    }

    fn name_event(&mut self, kind: &str, row: usize, name: StrId) -> io::Result<()> {
        self.open()?;
        write!(self.out, "\"name\": \"{kind}\", \"ph\": \"M\", ")?;
        self.thread(ThreadId(row as u32))?;
        self.out.write_all(b",\n    \"args\": {\"name\": ")?;
        self.string(name)?;
        self.out.write_all(b"}")?;
        self.close()
    }

    fn hosts(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for host in trace.hosts.rows() {
            let category = host.kind.name();
            self.slice(&ChromeSlice {
                category,
                name: host.name,
                start: host.start,
                duration: host.duration,
            })?;
            self.thread(host.thread)?;
            self.out.write_all(b",\n    \"args\": {")?;
            let mut fields = ChromeArgs::default();
            fields.put(self.out, "External id", host.external)?;
            fields.put(self.out, "correlation", u64::from(host.correlation))?;
            if host.kind == HostKind::OPERATOR
                && let Some(sequence) = trace.autograd_sequence(host.external)
            {
                fields.comma(self.out)?;
                write!(self.out, "\"Sequence number\": {sequence}")?;
            }
            fields.put(self.out, "Python id", u64::from(host.python_id))?;
            fields.put(self.out, "Python parent id", u64::from(host.python_parent))?;
            if host.inputs != InputsId::NONE {
                fields.comma(self.out)?;
                self.inputs(host.inputs)?;
            }
            self.out.write_all(b"}")?;
            self.close()?;
            let call = matches!(host.kind, HostKind::RUNTIME | HostKind::DRIVER);
            if call && host.correlation != 0 {
                self.open()?;
                write!(self.out, "\"ph\": \"s\", \"id\": {}, ", host.correlation)?;
                self.thread(host.thread)?;
                write!(
                    self.out,
                    ", \"ts\": {}, \"cat\": \"ac2g\", \"name\": \"ac2g\"",
                    Micros(host.start)
                )?;
                self.close()?;
            }
        }
        Ok(())
    }

    /// The four parallel lists of an operator's inputs.
    fn inputs(&mut self, id: InputsId) -> io::Result<()> {
        let trace = self.trace;
        let arguments = || trace.inputs.arguments(id);
        let values: Vec<&str> = arguments()
            .map(|argument| trace.text(argument.value()))
            .collect();
        let dtypes: Vec<&str> = arguments()
            .map(|argument| trace.text(argument.dtype()))
            .collect();
        self.out.write_all(b"\"Concrete Inputs\": ")?;
        serde_json::to_writer(&mut *self.out, &values)?;
        self.out.write_all(b", \"Input type\": ")?;
        serde_json::to_writer(&mut *self.out, &dtypes)?;
        for key in ["Input Strides", "Input Dims"] {
            write!(self.out, ", \"{key}\": [")?;
            for (index, argument) in arguments().enumerate() {
                if index > 0 {
                    self.out.write_all(b", ")?;
                }
                let lists: Vec<&[i64]> = argument
                    .tensors()
                    .map(|tensor| {
                        if key == "Input Dims" {
                            tensor.dims
                        } else {
                            tensor.strides
                        }
                    })
                    .collect();
                match lists[..] {
                    [] => self.out.write_all(b"[]")?,
                    [single] if trace.text(argument.dtype()) != "TensorList" => {
                        serde_json::to_writer(&mut *self.out, single)?;
                    }
                    _ => serde_json::to_writer(&mut *self.out, &lists)?,
                }
            }
            self.out.write_all(b"]")?;
        }
        Ok(())
    }

    fn kernels(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for kernel in trace.kernels.rows() {
            self.slice(&ChromeSlice {
                category: "kernel",
                name: kernel.name,
                start: kernel.start,
                duration: kernel.duration,
            })?;
            self.device(kernel.device, kernel.context, kernel.stream)?;
            let mut fields = ChromeArgs { any: true };
            fields.put(self.out, "External id", kernel.external)?;
            fields.put(self.out, "correlation", u64::from(kernel.correlation))?;
            fields.put(self.out, "graph id", u64::from(kernel.graph))?;
            fields.put(self.out, "graph node id", kernel.graph_node)?;
            fields.put(
                self.out,
                "registers per thread",
                u64::from(kernel.registers),
            )?;
            let shared = u64::from(kernel.static_shared) + u64::from(kernel.dynamic_shared);
            fields.put(self.out, "shared memory", shared)?;
            if kernel.dynamic_shared > 0 {
                fields.put(
                    self.out,
                    "static shared memory",
                    u64::from(kernel.static_shared),
                )?;
                fields.put(
                    self.out,
                    "dynamic shared memory",
                    u64::from(kernel.dynamic_shared),
                )?;
            }
            write!(
                self.out,
                ", \"grid\": {:?}, \"block\": {:?}",
                kernel.grid, kernel.block
            )?;
            if kernel.occupancy.is_finite() {
                write!(
                    self.out,
                    ", \"est. achieved occupancy %\": {}",
                    kernel.occupancy
                )?;
            }
            if kernel.mangled != StrId::EMPTY {
                self.out.write_all(b", \"mangled name\": ")?;
                self.string(kernel.mangled)?;
            }
            self.out.write_all(b"}")?;
            self.close()?;
            self.arrow_end(
                kernel.device,
                kernel.stream,
                kernel.start,
                kernel.correlation,
            )?;
        }
        Ok(())
    }

    fn copies(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for copy in trace.copies.rows() {
            self.slice(&ChromeSlice {
                category: "gpu_memcpy",
                name: copy.name,
                start: copy.start,
                duration: copy.duration,
            })?;
            self.device(copy.device, copy.context, copy.stream)?;
            let mut fields = ChromeArgs { any: true };
            fields.put(self.out, "External id", copy.external)?;
            fields.put(self.out, "correlation", u64::from(copy.correlation))?;
            fields.put(self.out, "graph id", u64::from(copy.graph))?;
            fields.put(self.out, "graph node id", copy.graph_node)?;
            write!(self.out, ", \"bytes\": {}}}", copy.bytes)?;
            self.close()?;
            self.arrow_end(copy.device, copy.stream, copy.start, copy.correlation)?;
        }
        Ok(())
    }

    fn memsets(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for set in trace.memsets.rows() {
            self.slice(&ChromeSlice {
                category: "gpu_memset",
                name: set.name,
                start: set.start,
                duration: set.duration,
            })?;
            self.device(set.device, set.context, set.stream)?;
            let mut fields = ChromeArgs { any: true };
            fields.put(self.out, "External id", set.external)?;
            fields.put(self.out, "correlation", u64::from(set.correlation))?;
            fields.put(self.out, "graph id", u64::from(set.graph))?;
            fields.put(self.out, "graph node id", set.graph_node)?;
            write!(self.out, ", \"bytes\": {}}}", set.bytes)?;
            self.close()?;
            self.arrow_end(set.device, set.stream, set.start, set.correlation)?;
        }
        Ok(())
    }

    fn syncs(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for (sync, lane) in trace.syncs.rows().zip(sync_lanes(&trace.syncs)) {
            self.slice(&ChromeSlice {
                category: "cuda_sync",
                name: sync.name,
                start: sync.start,
                duration: sync.duration,
            })?;
            write!(
                self.out,
                "\"pid\": {0}, \"tid\": \"{lane}\",\n    \"args\": {{\"device\": {0}, \"context\": {1}, \"stream\": {2}",
                sync.device, sync.context, sync.stream
            )?;
            let mut fields = ChromeArgs { any: true };
            fields.put(self.out, "External id", sync.external)?;
            fields.put(self.out, "correlation", u64::from(sync.correlation))?;
            self.out.write_all(b"}")?;
            self.close()?;
        }
        Ok(())
    }

    fn ranges(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for range in trace.ranges.rows() {
            if range.kind == RangeKind::MARK {
                self.open()?;
                write!(self.out, "\"ph\": \"i\", \"s\": \"t\", \"name\": ")?;
                self.string(range.name)?;
                write!(self.out, ", \"ts\": {}, ", Micros(range.start))?;
                self.thread(range.thread)?;
                self.close()?;
                continue;
            }
            let category = if range.kind == RangeKind::CAPTURE {
                "Trace"
            } else {
                range.kind.name()
            };
            self.slice(&ChromeSlice {
                category,
                name: range.name,
                start: range.start,
                duration: range.duration,
            })?;
            if range.kind == RangeKind::DEVICE_ANNOTATION {
                self.device(range.device, 0, range.stream)?;
                ChromeArgs { any: true }.put(self.out, "External id", range.external)?;
            } else {
                self.thread(range.thread)?;
                self.out.write_all(b",\n    \"args\": {")?;
                let mut fields = ChromeArgs::default();
                fields.put(self.out, "External id", range.external)?;
                if range.domain != StrId::EMPTY {
                    fields.comma(self.out)?;
                    self.out.write_all(b"\"domain\": ")?;
                    self.string(range.domain)?;
                }
            }
            self.out.write_all(b"}")?;
            self.close()?;
        }
        Ok(())
    }

    fn memory(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for event in trace.memory.rows() {
            self.open()?;
            write!(
                self.out,
                "\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\", \"ts\": {}, ",
                Micros(event.time)
            )?;
            self.thread(event.thread)?;
            write!(
                self.out,
                ",\n    \"args\": {{\"Total Reserved\": {}, \"Total Allocated\": {}, \"Bytes\": {}, \"Addr\": {}",
                event.reserved, event.allocated, event.bytes, event.address
            )?;
            // c10::DeviceType: 0 is the CPU, 1 CUDA. PyTorch gives the host's memory the device −1.
            match event.place {
                super::MemoryPlace::HOST => {
                    write!(self.out, ", \"Device Type\": 0, \"Device Id\": -1")?;
                }
                super::MemoryPlace::DEVICE => write!(
                    self.out,
                    ", \"Device Type\": 1, \"Device Id\": {}",
                    event.device
                )?,
                _ => {}
            }
            self.out.write_all(b"}")?;
            self.close()?;
        }
        Ok(())
    }

    /// Where a device event is drawn, and the first of its arguments, which are left open.
    fn device(&mut self, device: u32, context: u32, stream: u32) -> io::Result<()> {
        write!(
            self.out,
            "\"pid\": {device}, \"tid\": {stream},\n    \"args\": {{\"device\": {device}, \"context\": {context}, \"stream\": {stream}"
        )
    }

    fn arrow_end(
        &mut self,
        device: u32,
        stream: u32,
        start: i64,
        correlation: u32,
    ) -> io::Result<()> {
        if correlation == 0 {
            return Ok(());
        }
        self.open()?;
        write!(
            self.out,
            "\"ph\": \"f\", \"id\": {correlation}, \"pid\": {device}, \"tid\": {stream}, \"ts\": {}, \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"",
            Micros(start)
        )?;
        self.close()
    }
}

/// The commas between arguments of which the zeros are left out.
#[derive(Default)]
struct ChromeArgs {
    any: bool,
}

impl ChromeArgs {
    fn comma(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.any {
            out.write_all(b", ")?;
        }
        self.any = true;
        Ok(())
    }

    fn put(&mut self, out: &mut impl Write, name: &str, value: u64) -> io::Result<()> {
        if value == 0 {
            return Ok(());
        }
        self.comma(out)?;
        write!(out, "\"{name}\": {value}")
    }
}
