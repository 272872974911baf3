//! Events of the file become rows of tables.

use super::begin_end::{Half, Halves};
use super::cursor::Text;
use super::event::{Args, Event, Id};
use super::flows::Flows;
use super::losses::Losses;
use super::merged_ranks::MergedRanks;
use crate::import::torch_names::is_annotation;
use crate::import::xla;
use crate::trace::{
    AcceleratorKind, AutogradSequence, Copy, CopyKind, Host, HostKind, InputsId, Kernel,
    LaunchedKernel, MemoryEvent, MemoryKind, MemoryPlace, Memset, Range, RangeKind, StrId, Sync,
    SyncKind, ThreadId, TraceBuilder,
};

/// What reading a part of the file gives.
#[derive(Default)]
pub(super) struct Part {
    pub(super) builder: TraceBuilder,
    pub(super) losses: Losses,
    pub(super) halves: Halves,
    pub(super) flows: Flows,
    pub(super) ranks: MergedRanks,
    /// What its device is, where categories say that it is no GPU.
    pub(super) accelerator: Option<AcceleratorKind>,
    /// The lists of inputs of this part by the numbers that its events have for them.
    inputs: Vec<InputsId>,
}

/// An event that has a time, at its place in the file.
pub(super) struct Placed<'e, 'a> {
    pub(super) event: &'e Event<'a>,
    pub(super) start: i64,
    pub(super) duration: i64,
    pub(super) name: StrId,
}

impl Part {
    /// Adds what another part, further on in the file, found.
    pub(super) fn absorb(&mut self, other: Self) {
        let Self {
            builder,
            losses,
            halves,
            flows,
            ranks,
            accelerator,
            inputs: _,
        } = other;
        self.ranks.absorb(ranks);
        self.accelerator = self.accelerator.or(accelerator);
        let numbers = self.builder.absorb(builder);
        self.halves.absorb(halves, &numbers);
        self.losses.merge(&losses);
        self.flows.absorb(flows);
    }

    /// Puts one event into its table; `at` is its byte in the content.
    pub(super) fn add(&mut self, event: &Event<'_>, at: u64) {
        self.builder.events_read += 1;
        match event.phase {
            b'X' => self.slice(event, at),
            b'i' | b'I' | b'R' => self.instant(event, at),
            b'M' => self.metadata(event),
            b's' | b't' | b'f' => self.flows.add(event),
            b'B' | b'E' => self.half(event, at),
            _ => self.losses.unread_phase.add(at),
        }
    }

    fn slice(&mut self, event: &Event<'_>, at: u64) {
        let Some(start) = event.time else {
            self.losses.no_time.add(at);
            return;
        };
        let duration = match event.duration {
            Some(duration) if duration >= 0 => duration,
            Some(_) => {
                self.losses.negative_duration.add(at);
                0
            }
            None => {
                self.losses.no_duration.add(at);
                0
            }
        };
        // An end past the range of the clock would overflow in every sum.
        if start.checked_add(duration).is_none() {
            self.losses.no_time.add(at);
            return;
        }
        if event.name.is_none() {
            self.losses.no_name.add(at);
        }
        let name = self.text(event.name, at);
        let placed = Placed {
            event,
            start,
            duration,
            name,
        };
        // Traces of 2020 and 2021 have categories in capitals.
        match event.category {
            // They, and other vendors' profilers, have PyTorch's annotations among the operators.
            b"cpu_op" | b"Operator" if is_annotation(self.builder.strings.get(name)) => {
                self.range(&placed, RangeKind::ANNOTATION, at);
            }
            b"cpu_op" | b"Operator" => self.host(&placed, HostKind::OPERATOR, at),
            b"python_function" => self.host(&placed, HostKind::PYTHON, at),
            b"cuda_runtime" | b"xpu_runtime" | b"mtia_runtime" | b"Runtime" => {
                self.host(&placed, HostKind::RUNTIME, at);
            }
            b"cuda_driver" => self.host(&placed, HostKind::DRIVER, at),
            // The backend of a vendor outside of PyTorch, whatever its device.
            b"privateuse1_runtime" | b"privateuse1_driver" => {
                self.accelerator.get_or_insert(AcceleratorKind::Other);
                let kind = match event.category {
                    b"privateuse1_driver" => HostKind::DRIVER,
                    _ => HostKind::RUNTIME,
                };
                self.host(&placed, kind, at);
            }
            b"overhead" => self.host(&placed, HostKind::OVERHEAD, at),
            b"kernel" | b"Kernel" => self.kernel(&placed, at),
            b"mtia_ccp_events" => self.mtia_event(&placed, at),
            b"gpu_memcpy" | b"Memcpy" => self.copy(&placed),
            b"gpu_memset" | b"Memset" => self.memset(&placed),
            b"cuda_sync" => self.sync(&placed),
            b"user_annotation" => self.range(&placed, RangeKind::ANNOTATION, at),
            b"gpu_user_annotation" => self.device_range(&placed),
            b"nvtx" => self.range(&placed, RangeKind::NVTX, at),
            b"nvtx_start_end" => self.range(&placed, RangeKind::NVTX_START_END, at),
            b"os_runtime" => self.host(&placed, HostKind::SYSTEM, at),
            b"Trace" => self.range(&placed, RangeKind::CAPTURE, at),
            b"" if event.args.is_xla_step => self.range(&placed, RangeKind::ANNOTATION, at),
            b"" => {
                let name = self.builder.strings.get(name);
                let kind = xla::host_kind(name.as_bytes(), event.args.is_xla_op);
                self.host(&placed, kind, at);
            }
            _ => self.host(&placed, HostKind::OTHER, at),
        }
    }

    fn host(&mut self, placed: &Placed<'_, '_>, kind: HostKind, at: u64) {
        let args = &placed.event.args;
        let thread = self.thread(placed.event, at);
        let inputs = self.inputs(args);
        if args.correlation == 0 && matches!(kind, HostKind::RUNTIME | HostKind::DRIVER) {
            self.flows.wanted = true;
        }
        if args.kernel.is_some() && args.correlation != 0 {
            let kernel = self.text(args.kernel, at);
            let correlation = args.correlation;
            let row = LaunchedKernel {
                correlation,
                kernel,
            };
            self.builder.launched_kernels.push(row);
        }
        if kind == HostKind::OPERATOR {
            let sequence = args.autograd_sequence.and_then(|it| u64::try_from(it).ok());
            if let Some(sequence) = sequence.filter(|_| args.external != 0) {
                self.builder.autograd_sequences.push(AutogradSequence {
                    external: args.external,
                    sequence,
                });
            }
            self.collective(placed, thread, at);
        }
        self.builder.hosts.push(Host {
            start: placed.start,
            duration: placed.duration,
            name: placed.name,
            thread,
            kind,
            correlation: args.correlation,
            external: args.external,
            inputs,
            python_id: args.python_id,
            python_parent: args.python_parent,
        });
    }

    fn inputs(&mut self, args: &Args<'_>) -> InputsId {
        let number = args.inputs_number as usize;
        if let Some(&known) = self.inputs.get(number)
            && known != InputsId::NONE
        {
            return known;
        }
        let id = self.builder.inputs(args.inputs);
        if number > 0 {
            let inputs = &mut self.inputs;
            inputs.resize(inputs.len().max(number + 1), InputsId::NONE);
            inputs[number] = id;
        }
        id
    }

    fn kernel(&mut self, placed: &Placed<'_, '_>, at: u64) {
        let args = &placed.event.args;
        let (device, stream) = self.device_place(placed.event);
        let mangled = self.text(args.mangled, at);
        self.collective(placed, ThreadId::NONE, at);
        // Tools that split shared memory write both parts; the others their sum.
        let split = args.static_shared > 0 || args.dynamic_shared > 0;
        self.builder.kernels.push(Kernel {
            start: placed.start,
            duration: placed.duration,
            name: placed.name,
            mangled,
            device,
            context: args.context,
            stream,
            correlation: args.correlation,
            external: args.external,
            graph: args.graph,
            graph_node: args.graph_node,
            grid: args.grid,
            block: args.block,
            registers: args.registers,
            static_shared: if split {
                args.static_shared
            } else {
                args.shared
            },
            dynamic_shared: args.dynamic_shared,
            occupancy: args.occupancy.unwrap_or(f32::NAN),
        });
    }

    /// What an MTIA's command processor did: waits and transfers beside the work of its cores.
    fn mtia_event(&mut self, placed: &Placed<'_, '_>, at: u64) {
        self.accelerator = Some(AcceleratorKind::Mtia);
        match self.builder.strings.get(placed.name) {
            "event_wait" | "event_record" => self.sync(placed),
            "dma_request" => self.copy(placed),
            _ => self.kernel(placed, at),
        }
    }

    fn copy(&mut self, placed: &Placed<'_, '_>) {
        let args = &placed.event.args;
        let (device, stream) = self.device_place(placed.event);
        let (named, source, target) = copy_ends(self.builder.strings.get(placed.name));
        let kind = match args.direction.as_ref().map(|text| text.raw) {
            Some(b"HOST_TO_DEVICE") => CopyKind::HOST_TO_DEVICE,
            Some(b"DEVICE_TO_HOST") => CopyKind::DEVICE_TO_HOST,
            Some(b"DEVICE_TO_DEVICE") => CopyKind::DEVICE_TO_DEVICE,
            _ => named,
        };
        self.builder.copies.push(Copy {
            start: placed.start,
            duration: placed.duration,
            name: placed.name,
            kind,
            source,
            target,
            device,
            context: args.context,
            stream,
            correlation: args.correlation,
            external: args.external,
            graph: args.graph,
            graph_node: args.graph_node,
            bytes: args.bytes.max(args.size).max(0) as u64,
        });
    }

    fn memset(&mut self, placed: &Placed<'_, '_>) {
        let args = &placed.event.args;
        let (device, stream) = self.device_place(placed.event);
        let target = inside_parentheses(self.builder.strings.get(placed.name))
            .map_or(MemoryKind::UNKNOWN, memory_kind);
        self.builder.memsets.push(Memset {
            start: placed.start,
            duration: placed.duration,
            name: placed.name,
            target,
            device,
            context: args.context,
            stream,
            correlation: args.correlation,
            external: args.external,
            graph: args.graph,
            graph_node: args.graph_node,
            bytes: args.bytes.max(0) as u64,
        });
    }

    fn sync(&mut self, placed: &Placed<'_, '_>) {
        let args = &placed.event.args;
        let (device, stream) = self.device_place(placed.event);
        let kind = match self.builder.strings.get(placed.name) {
            name if name.starts_with("Stream Wait") || name == "event_wait" => {
                SyncKind::STREAM_WAIT
            }
            name if name.starts_with("Stream") => SyncKind::STREAM,
            name if name.starts_with("Event") => SyncKind::EVENT,
            name if name.starts_with("Context") || name.starts_with("Device") => SyncKind::CONTEXT,
            _ => SyncKind::UNKNOWN,
        };
        self.builder.syncs.push(Sync {
            start: placed.start,
            duration: placed.duration,
            name: placed.name,
            kind,
            device,
            context: args.context,
            stream,
            correlation: args.correlation,
            external: args.external,
        });
    }

    fn range(&mut self, placed: &Placed<'_, '_>, kind: RangeKind, at: u64) {
        let thread = self.thread(placed.event, at);
        let domain = self.text(placed.event.args.domain, at);
        if kind == RangeKind::ANNOTATION {
            self.annotated_collective(placed, thread, at);
        }
        self.builder.ranges.push(Range {
            start: placed.start,
            duration: placed.duration,
            name: placed.name,
            domain,
            thread,
            kind,
            external: placed.event.args.external,
            ..Range::default()
        });
    }

    fn device_range(&mut self, placed: &Placed<'_, '_>) {
        let (device, stream) = self.device_place(placed.event);
        self.builder.ranges.push(Range {
            start: placed.start,
            duration: placed.duration,
            name: placed.name,
            kind: RangeKind::DEVICE_ANNOTATION,
            device,
            stream,
            external: placed.event.args.external,
            ..Range::default()
        });
    }

    fn instant(&mut self, event: &Event<'_>, at: u64) {
        let Some(start) = event.time else {
            self.losses.no_time.add(at);
            return;
        };
        if event.name.is_some_and(|name| name.raw == b"[memory]") {
            let thread = self.thread(event, at);
            let args = &event.args;
            let place = match args.device_type {
                // c10::DeviceType: 0 is the CPU, all others are devices.
                Some(0) => MemoryPlace::HOST,
                Some(_) => MemoryPlace::DEVICE,
                None => MemoryPlace::UNKNOWN,
            };
            let device = args
                .device
                .filter(|_| place != MemoryPlace::HOST)
                .unwrap_or(0);
            self.builder.memory.push(MemoryEvent {
                time: start,
                bytes: args.bytes,
                address: args.address,
                allocated: args.allocated,
                reserved: args.reserved,
                thread,
                place,
                device,
            });
            return;
        }
        let name = self.text(event.name, at);
        self.range(
            &Placed {
                event,
                start,
                duration: 0,
                name,
            },
            RangeKind::MARK,
            at,
        );
    }

    fn half(&mut self, event: &Event<'_>, at: u64) {
        let Some(time) = event.time else {
            self.losses.no_time.add(at);
            return;
        };
        let thread = self.labelled_thread(event);
        let name = self.text(event.name, at);
        self.halves.push(Half {
            thread,
            time,
            begins: event.phase == b'B',
            name,
            at,
        });
    }

    /// `M` events give names to processes and threads; their other facts are for viewers.
    fn metadata(&mut self, event: &Event<'_>) {
        let (Some(kind), Some(name)) = (event.name, event.args.name) else {
            return;
        };
        let (name, _) = name.decode();
        let process = label(event.process);
        let process = process
            .as_ref()
            .map(|&number| number)
            .map_err(AsRef::as_ref);
        match kind.raw {
            b"process_name" => self.builder.name_process(process, name.trim()),
            b"thread_name" => {
                let thread = label(event.thread);
                let thread = thread.as_ref().map(|&number| number).map_err(AsRef::as_ref);
                self.builder.name_thread(process, thread, name.trim());
            }
            _ => {}
        }
    }

    fn thread(&mut self, event: &Event<'_>, at: u64) -> ThreadId {
        if let (Id::Number(process), Id::Number(thread)) = (event.process, event.thread) {
            return self.builder.thread(process, thread);
        }
        if event.process == Id::Missing && event.thread == Id::Missing {
            self.losses.bad_field.add(at);
            return ThreadId::NONE;
        }
        self.labelled_thread(event)
    }

    fn labelled_thread(&mut self, event: &Event<'_>) -> ThreadId {
        let (process, thread) = (label(event.process), label(event.thread));
        self.builder.labelled_thread(
            process
                .as_ref()
                .map(|&number| number)
                .map_err(AsRef::as_ref),
            thread.as_ref().map(|&number| number).map_err(AsRef::as_ref),
        )
    }

    /// Device and stream: from the arguments, else from where the event is drawn, which is the same in Kineto.
    fn device_place(&mut self, event: &Event<'_>) -> (u32, u32) {
        let drawn = |id: Id<'_>| match id {
            Id::Number(number) => u32::try_from(number).unwrap_or(0),
            Id::Missing | Id::Label(_) => 0,
        };
        if event.args.correlation == 0 {
            self.flows.wanted = true;
        }
        let device = event.args.device.unwrap_or_else(|| drawn(event.process));
        (
            match event.rank {
                Some(rank) => self.ranks.number_device(rank, device),
                None => device,
            },
            event.args.stream.unwrap_or_else(|| drawn(event.thread)),
        )
    }

    pub(super) fn text(&mut self, text: Option<Text<'_>>, at: u64) -> StrId {
        let Some(text) = text else {
            return StrId::EMPTY;
        };
        // Nearly every name was seen before; then its bytes need no checking.
        if !text.escaped
            && let Some(id) = self.builder.strings.find(text.raw)
        {
            return id;
        }
        let (decoded, valid) = text.decode();
        if !valid {
            self.losses.not_utf8.add(at);
        }
        self.builder.intern(&decoded)
    }
}

fn label(id: Id<'_>) -> Result<i64, std::borrow::Cow<'_, str>> {
    match id {
        Id::Number(number) => Ok(number),
        Id::Label(text) => Err(text.decode().0),
        Id::Missing => Err(std::borrow::Cow::Borrowed("")),
    }
}

/// Reads `Memcpy HtoD (Pageable -> Device)`.
fn copy_ends(name: &str) -> (CopyKind, MemoryKind, MemoryKind) {
    let kind = name.split(' ').nth(1).unwrap_or_default();
    let kind = CopyKind::ALL
        .iter()
        .find(|known| known.name() == kind)
        .copied()
        .unwrap_or_default();
    let (source, target) = inside_parentheses(name)
        .and_then(|ends| ends.split_once(" -> "))
        .unwrap_or_default();
    (kind, memory_kind(source), memory_kind(target))
}

fn inside_parentheses(name: &str) -> Option<&str> {
    name.split_once('(')?
        .1
        .split_once(')')
        .map(|(inside, _)| inside)
}

fn memory_kind(text: &str) -> MemoryKind {
    MemoryKind::ALL
        .iter()
        .find(|kind| kind.name().eq_ignore_ascii_case(text))
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_say_where_from_and_where_to() {
        assert_eq!(
            copy_ends("Memcpy HtoD (Pageable -> Device)"),
            (
                CopyKind::HOST_TO_DEVICE,
                MemoryKind::PAGEABLE,
                MemoryKind::DEVICE
            )
        );
        assert_eq!(
            copy_ends("Memcpy PtoP (Device -> Device)"),
            (
                CopyKind::PEER_TO_PEER,
                MemoryKind::DEVICE,
                MemoryKind::DEVICE
            )
        );
        assert_eq!(
            copy_ends("copy"),
            (CopyKind::UNKNOWN, MemoryKind::UNKNOWN, MemoryKind::UNKNOWN)
        );
    }
}
