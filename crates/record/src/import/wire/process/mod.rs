//! One process.

mod edges;
mod events;
mod graphs;
mod numbers;

use llmprof_units::{Bytes, Nanos};
use std::collections::HashMap;

use llmprof_wire::{
    Attached, Call, Capture, Cost, Device, End, Header, HeaderError, Overhead, Reader, Record,
    Refused,
};

use edges::Edges;
use graphs::Node;
pub(super) use numbers::Numbers;

use super::names;
use super::ranges::OpenRanges;
use crate::issue::{Issue, IssueCode};
use crate::trace::{
    AcceleratorKind, DeviceProperties, Host, HostKind, Range, RangeKind, StrId, ThreadId,
    TraceBuilder,
};

/// Reads one file into `builder`.
pub(super) fn read(
    bytes: &[u8],
    builder: &mut TraceBuilder,
    numbers: &mut Numbers,
) -> Result<(), HeaderError> {
    let (header, mut records) = Reader::new(bytes)?;
    let mut process = Process::new(header, builder, numbers);
    for record in records.by_ref() {
        process.take(record);
    }
    process.finish(records.end());
    Ok(())
}

struct Process<'a> {
    builder: &'a mut TraceBuilder,
    numbers: &'a mut Numbers,
    id: i64,
    texts: HashMap<u32, Name>,
    devices: HashMap<u32, u32>,
    ranges: OpenRanges,
    nodes: HashMap<u64, Node>,
    edges: Edges,
    /// When the current recording began, and its slice; `None` while recording is off.
    recording: Option<(i64, u8)>,
    was_recorded: bool,
    /// The highest correlation number before CUPTI last left the process.
    earlier_correlations: u32,
    last: i64,
    has_cuda: bool,
    is_ended: bool,
    most: Numbers,
    unnamed: u64,
    too_many: u64,
    unknown: u64,
    backwards: u64,
    past_edge: u64,
    used_nodes: std::collections::BTreeSet<u64>,
}

/// A text, and as the name of a kernel.
#[derive(Clone, Copy, Default)]
struct Name {
    text: StrId,
    /// Its demangled spelling, once it was asked for.
    kernel: Option<StrId>,
}

impl<'a> Process<'a> {
    fn new(header: Header, builder: &'a mut TraceBuilder, numbers: &'a mut Numbers) -> Self {
        builder
            .clock_origin_ns
            .get_or_insert(Nanos(header.unix_offset));
        let id = i64::from(header.process);
        Self {
            builder,
            numbers,
            id,
            texts: HashMap::new(),
            devices: HashMap::new(),
            ranges: OpenRanges::new(id),
            nodes: HashMap::new(),
            edges: Edges::default(),
            recording: None,
            was_recorded: false,
            earlier_correlations: 0,
            last: header.time,
            has_cuda: false,
            is_ended: false,
            most: Numbers::default(),
            unnamed: 0,
            too_many: 0,
            unknown: 0,
            backwards: 0,
            past_edge: 0,
            used_nodes: std::collections::BTreeSet::new(),
        }
    }

    fn take(&mut self, record: Record<'_>) {
        match record {
            Record::Text(text) => {
                let id = self.builder.intern(&String::from_utf8_lossy(text.text));
                // A number may be given again, after texts were dropped.
                self.texts.insert(
                    text.id,
                    Name {
                        text: id,
                        kernel: None,
                    },
                );
            }
            Record::Attached(attached) => self.attached(&attached),
            Record::Device(device) => self.device(&device),
            Record::Kernel(kernel) => self.kernel(&kernel),
            Record::Copy(copy) => self.copy(&copy),
            Record::Memset(memset) => self.memset(&memset),
            Record::Sync(sync) => self.sync(&sync),
            Record::Call(call) => self.call(&call),
            Record::Overhead(overhead) => self.overhead(&overhead),
            Record::Push(push) => {
                self.see(push.time);
                self.ranges.push(push, self.builder);
            }
            Record::Pop(pop) => {
                self.see(pop.time);
                self.ranges.pop(pop, self.builder);
            }
            Record::RangeStart(start) => {
                self.see(start.time);
                self.ranges.start(start, self.builder);
            }
            Record::RangeEnd(end) => {
                self.see(end.time);
                self.ranges.end(end, self.builder);
            }
            Record::Mark(mark) => {
                self.see(mark.time);
                self.ranges.mark(mark, self.builder);
            }
            Record::Domain(domain) => {
                let name = self.builder.intern(&String::from_utf8_lossy(domain.text));
                self.ranges.name_domain(domain.id, name);
            }
            Record::ThreadName(name) => {
                let text = String::from_utf8_lossy(name.text);
                self.builder
                    .name_thread(Ok(self.id), Ok(i64::from(name.thread)), &text);
            }
            Record::GraphNode(node) => self.graph_node(&node),
            Record::Capture(capture) => self.capture(capture),
            Record::Loss(loss) => {
                let why = String::from_utf8_lossy(loss.text);
                self.issue(
                    Issue::error(IssueCode::WireDropped).with("why", why),
                    loss.count,
                );
            }
            Record::Refused(refused) => self.refused(&refused),
            Record::Kept(kept) => {
                let why = String::from_utf8_lossy(kept.text);
                let for_graphs = [
                    llmprof_wire::KEPT_GRAPHS_CAPTURED,
                    llmprof_wire::KEPT_GRAPHS_FOUND,
                ];
                let code = if for_graphs.contains(&&*why) {
                    IssueCode::CuptiKeptForGraphs
                } else {
                    IssueCode::CuptiKept
                };
                let issue = Issue::info(code).with("process", self.id).with("why", why);
                self.builder.issues.push(issue);
                self.note("cupti_stays");
            }
            Record::Attachment(attachment) => {
                self.see(attachment.time);
                if attachment.on == 0 {
                    self.renumber();
                } else {
                    self.note("cupti_returns");
                }
            }
            Record::Checkpoint(checkpoint) => {
                self.see(checkpoint.time);
            }
            Record::Cost(cost) => self.cost(&cost),
            Record::Ended(ended) => {
                self.see(ended.time);
                self.is_ended = true;
            }
            Record::Sampler(_)
            | Record::StackFrame(_)
            | Record::HostSample(_)
            | Record::Unknown(_) => self.unknown += 1,
        }
    }

    /// Says something of the whole recording.
    fn note(&mut self, what: &str) {
        let metadata = &mut self.builder.metadata;
        metadata.insert(what.to_owned(), "true".to_owned());
    }

    fn see(&mut self, time: i64) {
        self.last = self.last.max(time);
    }

    fn issue(&mut self, issue: Issue, count: u64) {
        if count > 0 {
            self.builder.issues.push(issue.counting(count));
        }
    }

    fn attached(&mut self, attached: &Attached<'_>) {
        self.has_cuda = true;
        let name = String::from_utf8_lossy(attached.text);
        self.builder.name_process(Ok(self.id), &name);
        let metadata = &mut self.builder.metadata;
        metadata.insert("cupti_version".to_owned(), attached.cupti.to_string());
        if attached.driver > 0 {
            let (major, minor) = (attached.driver / 1000, attached.driver % 1000 / 10);
            metadata.insert("cuda_driver_version".to_owned(), format!("{major}.{minor}"));
        }
        let calls = if attached.all_calls == 1 {
            "all"
        } else {
            "launch"
        };
        metadata.insert("calls".to_owned(), calls.to_owned());
    }

    fn refused(&mut self, refused: &Refused<'_>) {
        let why = String::from_utf8_lossy(refused.text);
        let issue = if self.was_recorded {
            Issue::warning(IssueCode::CuptiNotAgain)
        } else {
            Issue::error(IssueCode::CuptiRefused)
        };
        let issue = issue.with("process", self.id).with("why", why);
        let issue = issue.with("status", refused.status);
        self.builder.issues.push(issue);
    }

    fn cost(&mut self, cost: &Cost) {
        if cost.launch_cost_samples > 0 {
            let metadata = &mut self.builder.metadata;
            metadata.insert("launch_cost_ns".to_owned(), cost.launch_cost.to_string());
        }
    }

    fn device(&mut self, device: &Device<'_>) {
        let number = self.numbers.device(device);
        self.devices.insert(device.id, number);
        let some = |value: u32| (value > 0).then_some(value);
        let large = |value: u32| (value > 0).then_some(u64::from(value));
        let bytes = |value: u32| large(value).map(Bytes);
        self.builder.devices.push(DeviceProperties {
            id: number,
            name: String::from_utf8_lossy(device.text).into_owned(),
            kind: AcceleratorKind::Gpu,
            memory_bytes: (device.memory_bytes > 0).then_some(Bytes(device.memory_bytes)),
            compute_capability: some(device.major).map(|major| (major, device.minor)),
            sm_count: some(device.sm_count),
            warp_size: some(device.warp_size),
            max_threads_per_block: some(device.threads_per_block),
            max_threads_per_sm: some(device.threads_per_sm),
            max_blocks_per_sm: some(device.blocks_per_sm),
            registers_per_sm: some(device.registers_per_sm),
            registers_per_block: some(device.registers_per_block),
            shared_per_sm_bytes: bytes(device.shared_per_sm),
            shared_per_block_bytes: bytes(device.shared_per_block),
            shared_per_block_optin_bytes: bytes(device.shared_per_block_optin),
            l2_bytes: bytes(device.l2_bytes),
            clock_hz: large(device.clock_khz).map(|khz| khz * 1000),
            memory_clock_hz: large(device.memory_clock_khz).map(|khz| khz * 1000),
            memory_bus_bits: some(device.memory_bus_bits),
            memory_bandwidth_bytes_per_s: None,
        });
    }

    fn call(&mut self, call: &Call) {
        self.see(call.end);
        self.builder.events_read += 1;
        self.backwards += u64::from(call.end < call.start);
        let kind = match call.domain {
            1 => HostKind::DRIVER,
            _ => HostKind::RUNTIME,
        };
        let name = self
            .texts
            .get(&call.name)
            .map_or(StrId::EMPTY, |name| name.text);
        let text = self.builder.strings.get(name).to_owned();
        let name = self.builder.intern(names::unversioned_call(&text));
        let host = Host {
            start: call.start,
            duration: call.end.saturating_sub(call.start).max(0),
            name,
            thread: self.builder.thread(self.id, i64::from(call.thread)),
            kind,
            correlation: self.correlation(call.correlation),
            ..Host::default()
        };
        self.builder.hosts.push(host);
    }

    fn overhead(&mut self, overhead: &Overhead) {
        self.see(overhead.end);
        self.builder.events_read += 1;
        let name = self.builder.intern(names::overhead_name(overhead.kind));
        let thread = match overhead.thread {
            0 => self.builder.labelled_thread(Ok(self.id), Err("CUPTI")),
            thread => self.builder.thread(self.id, i64::from(thread)),
        };
        self.builder.hosts.push(Host {
            start: overhead.start,
            duration: overhead.end.saturating_sub(overhead.start).max(0),
            name,
            thread,
            kind: HostKind::OVERHEAD,
            ..Host::default()
        });
    }

    fn capture(&mut self, capture: Capture) {
        self.see(capture.time);
        match (capture.on, self.recording) {
            (1, None) => {
                self.recording = Some((capture.time, capture.slice));
                self.edges.begin(capture.time);
                self.was_recorded = true;
            }
            (0, Some((since, slice))) => {
                self.recording = None;
                self.edges.end(capture.time);
                // Not all of the time was recorded.
                self.note("slices");
                self.captured(since, capture.time, slice);
            }
            _ => {}
        }
    }

    fn captured(&mut self, start: i64, end: i64, slice: u8) {
        let name = match slice {
            0 => "capture",
            1 => "slice",
            _ => "slice of steps",
        };
        let name = self.builder.intern(name);
        self.builder.ranges.push(Range {
            start,
            duration: end.saturating_sub(start).max(0),
            name,
            thread: ThreadId::NONE,
            kind: RangeKind::CAPTURE,
            ..Range::default()
        });
    }

    fn finish(mut self, end: End) {
        let id = self.id;
        match end {
            End::Damaged { at } => {
                self.issue(
                    Issue::error(IssueCode::WireDamaged)
                        .with("process", id)
                        .with("byte", at),
                    1,
                );
            }
            End::Cut { at } if !self.is_ended => {
                self.issue(
                    Issue::warning(IssueCode::WireCut)
                        .with("process", id)
                        .with("byte", at),
                    1,
                );
            }
            _ => {}
        }
        if !self.is_ended {
            self.issue(
                Issue::warning(IssueCode::WireNotEnded).with("process", id),
                1,
            );
        }
        if let Some((since, slice)) = self.recording.take() {
            self.captured(since, self.last, slice);
        }
        self.graph_nodes();
        let open = std::mem::replace(&mut self.ranges, OpenRanges::new(id));
        let unmatched = open.unmatched;
        let open = open.finish(self.last, self.builder);
        self.issue(Issue::info(IssueCode::WireOpenRange), open);
        self.issue(Issue::warning(IssueCode::WireUnmatchedRange), unmatched);
        for (count, issue) in [
            (self.unnamed, Issue::warning(IssueCode::WireUnnamed)),
            (self.too_many, Issue::warning(IssueCode::WireTooManyIds)),
            (self.unknown, Issue::info(IssueCode::WireUnknownRecords)),
            (
                self.backwards,
                Issue::warning(IssueCode::WireEndsBeforeStart),
            ),
            (self.past_edge, Issue::info(IssueCode::WirePastEdge)),
        ] {
            self.issue(issue, count);
        }
        let (numbers, most) = (self.numbers, self.most);
        numbers.correlations = numbers.correlations.saturating_add(most.correlations);
        numbers.contexts = numbers.contexts.saturating_add(most.contexts);
        numbers.graphs = numbers.graphs.saturating_add(most.graphs);
    }
}
