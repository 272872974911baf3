//! The dependency graph of a trace as flat arrays.

use llmprof_record::trace::{HostKind, ThreadId, Trace};
use rustc_hash::{FxHashMap, FxHashSet};

use super::api::{Api, Apis};
use super::residual;
use super::segments::{NO_ROW, Nesting, Segments};
use super::windows::Window;
use crate::timeline::launches::is_api;

/// What ends a synchronizing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    No,
    /// All work that was launched before.
    Device,
    /// All work that was launched on a stream before.
    Stream(u32),
    Work(u32),
    /// The work that the call itself launches.
    Own,
}

/// The row of a device event in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkRow {
    Kernel(u32),
    Copy(u32),
    Memset(u32),
}

/// Device work in the order of its launches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) row: WorkRow,
    pub(crate) start: i64,
    pub(crate) duration: i64,
    /// The number of its stream.
    pub(crate) stream: u32,
    /// The segment of its launch.
    pub(crate) segment: u32,
    /// From the begin of the launch call to its own, where nothing else keeps it back.
    pub(crate) latency: i64,
    /// From the end of its predecessor on the stream to its own begin, where the launch was early enough.
    pub(crate) gap: i64,
    /// How much later it began because work of other streams ran.
    pub(crate) delay: i64,
    /// Work of another stream that it follows; [`NO_WORK`] where none is known.
    pub(crate) after: u32,
}

pub(crate) const NO_WORK: u32 = u32::MAX;

impl Work {
    pub(crate) fn end(&self) -> i64 {
        self.start.saturating_add(self.duration)
    }
}

/// Medians of a trace: what a launch and a queued kernel usually take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Typical {
    pub(crate) latency: i64,
    pub(crate) gap: i64,
    /// From the begin of a graph's launch call to its first node.
    pub(crate) graph_latency: i64,
    /// Between nodes of one launched graph.
    pub(crate) node_gap: i64,
}

/// A trace as a dependency graph.
#[derive(Debug)]
pub struct Graph {
    pub(super) segments: Segments,
    pub(super) nesting: Nesting,
    /// Segments in recorded order of all threads.
    pub(super) order: Vec<u32>,
    /// For each segment, what it waits for and how long it takes to return after that.
    pub(super) waits: Vec<(Wait, i64)>,
    pub(super) work: Vec<Work>,
    /// For each segment where its work begins; one more at the end.
    pub(super) first_work: Vec<u32>,
    pub(super) streams: usize,
    pub(super) threads: usize,
    pub(super) typical: Typical,
    /// The thread that runs the program: of those with recorded operators the one that launches most.
    pub(super) main: ThreadId,
    /// By segment: whether its thread works for the program.
    pub(super) own_threads: Vec<bool>,
    pub(super) windows: Vec<Window>,
}

impl Graph {
    /// Reads a trace. `windows` are those of all phases, sorted and disjoint. `None` where no launch is known.
    pub fn of(trace: &Trace, mut windows: Vec<Window>) -> Option<Self> {
        windows.sort_by_key(|window| window.start);
        let mut cuts: Vec<i64> = windows.iter().flat_map(|w| [w.start, w.end]).collect();
        cuts.sort_unstable();
        let (segments, nesting) = Segments::of(&trace.hosts, &cuts);
        let (mut work, streams) = device_work(trace, &nesting, segments.start.len())?;
        let mut order: Vec<u32> = (0..segments.start.len() as u32).collect();
        order.sort_by_key(|&segment| segments.start[segment as usize]);
        work.sort_by_key(|work| (work.segment, work.start));
        let mut first_work = vec![0_u32; segments.start.len() + 1];
        for one in &work {
            first_work[one.segment as usize + 1] += 1;
        }
        for index in 1..first_work.len() {
            first_work[index] += first_work[index - 1];
        }
        let (main, own_threads) = own_threads(trace, &segments, &work);
        let mut graph = Self {
            waits: vec![(Wait::No, 0); segments.start.len()],
            segments,
            nesting,
            order,
            work,
            first_work,
            streams,
            threads: trace.threads.len(),
            typical: Typical::default(),
            main,
            own_threads,
            windows,
        };
        let calls = graph.waiting_calls(trace);
        residual::fill(&mut graph, &calls);
        Some(graph)
    }

    /// For each segment that begins a call which may wait, what it would wait for.
    fn waiting_calls(&self, trace: &Trace) -> FxHashMap<u32, Api> {
        let hosts = &trace.hosts;
        let mut apis = Apis::default();
        let mut calls = FxHashMap::default();
        for row in 0..hosts.len() {
            if !is_api(hosts.kind[row]) {
                continue;
            }
            let first = self.nesting.first_segment[row];
            let api = apis.get(trace, hosts.name[row]);
            if first < self.nesting.segment_end[row] && api != Api::Other {
                calls.entry(first).or_insert(api);
            }
        }
        calls
    }

    pub fn segment_count(&self) -> usize {
        self.segments.start.len()
    }

    pub fn work_count(&self) -> usize {
        self.work.len()
    }

    pub(crate) fn work(&self) -> &[Work] {
        &self.work
    }

    pub(crate) fn main_thread(&self) -> ThreadId {
        self.main
    }

    /// The rows of device work that segments launch.
    pub(crate) fn launched_by(&self, segments: std::ops::Range<usize>) -> std::ops::Range<usize> {
        self.first_work[segments.start] as usize..self.first_work[segments.end] as usize
    }

    /// The segments inside of a host row.
    pub(crate) fn segments_of_row(&self, row: usize) -> std::ops::Range<usize> {
        let first = self.nesting.first_segment[row] as usize;
        first..(self.nesting.segment_end[row] as usize).max(first)
    }

    pub(crate) fn parent_row(&self, row: usize) -> Option<usize> {
        Some(self.nesting.parent[row])
            .filter(|&parent| parent != NO_ROW)
            .map(|parent| parent as usize)
    }

    pub(crate) fn subtree_end(&self, row: usize) -> usize {
        self.nesting.subtree_end[row] as usize
    }

    /// The innermost host row of a segment; `None` in a gap.
    pub(crate) fn row_of_segment(&self, segment: usize) -> Option<usize> {
        Some(self.segments.row[segment])
            .filter(|&row| row != NO_ROW)
            .map(|row| row as usize)
    }

    pub(crate) fn segment_start(&self, segment: usize) -> i64 {
        self.segments.start[segment]
    }

    pub(crate) fn segment_duration(&self, segment: usize) -> i64 {
        self.segments.duration[segment]
    }

    pub(crate) fn wait_of(&self, segment: usize) -> Wait {
        self.waits[segment].0
    }

    /// How long a synchronizing call waited, without the time in which it returns.
    pub(crate) fn waited(&self, segment: usize) -> i64 {
        match self.waits[segment] {
            (Wait::No, _) => 0,
            (_, tail) => (self.segments.duration[segment] - tail).max(0),
        }
    }

    /// Whether the program launched it, rather than a thread that has nothing to do with it.
    pub(crate) fn is_own_work(&self, work: &Work) -> bool {
        self.own_threads[work.segment as usize]
    }

    /// Segments of the program's thread that lie in a window.
    pub(crate) fn segments_in(&self, window: Window) -> std::ops::Range<usize> {
        let threads = &self.segments.thread;
        let first = threads.partition_point(|&thread| thread < self.main);
        let end = threads.partition_point(|&thread| thread <= self.main);
        let starts = &self.segments.start[first..end];
        let from = first + starts.partition_point(|&start| start < window.start);
        let to = first + starts.partition_point(|&start| start < window.end);
        from..to.max(from)
    }
}

/// Device events with the segments that launch them, and how many streams they run on. Work whose launch was not recorded hangs
/// on the last launch before it.
fn device_work(trace: &Trace, nesting: &Nesting, segments: usize) -> Option<(Vec<Work>, usize)> {
    let hosts = &trace.hosts;
    let mut calls = FxHashMap::default();
    for row in 0..hosts.len() {
        let correlation = hosts.correlation[row];
        if correlation != 0
            && is_api(hosts.kind[row])
            && (nesting.first_segment[row] as usize) < segments
        {
            // Outer rows come first: a runtime call before the driver call inside it.
            calls
                .entry(correlation)
                .or_insert(nesting.first_segment[row]);
        }
    }
    let mut streams: FxHashMap<(u32, u32, u32), u32> = FxHashMap::default();
    let mut events = Vec::new();
    let mut add = |row, start, duration, stream: (u32, u32, u32), correlation: u32| {
        let next = streams.len() as u32;
        let stream = *streams.entry(stream).or_insert(next);
        events.push((
            Work {
                row,
                start,
                duration,
                stream,
                segment: NO_ROW,
                latency: 0,
                gap: 0,
                delay: 0,
                after: NO_WORK,
            },
            correlation,
        ));
    };
    let kernels = &trace.kernels;
    for row in 0..kernels.len() {
        let stream = (
            kernels.device[row],
            kernels.context[row],
            kernels.stream[row],
        );
        let (start, duration) = (kernels.start[row], kernels.duration[row]);
        let row_id = WorkRow::Kernel(row as u32);
        add(row_id, start, duration, stream, kernels.correlation[row]);
    }
    let copies = &trace.copies;
    for row in 0..copies.len() {
        let stream = (copies.device[row], copies.context[row], copies.stream[row]);
        let (start, duration) = (copies.start[row], copies.duration[row]);
        let row_id = WorkRow::Copy(row as u32);
        add(row_id, start, duration, stream, copies.correlation[row]);
    }
    let memsets = &trace.memsets;
    for row in 0..memsets.len() {
        let stream = (
            memsets.device[row],
            memsets.context[row],
            memsets.stream[row],
        );
        let (start, duration) = (memsets.start[row], memsets.duration[row]);
        let row_id = WorkRow::Memset(row as u32);
        add(row_id, start, duration, stream, memsets.correlation[row]);
    }
    let streams = streams.len();
    events.sort_by_key(|(work, _)| work.start);
    let mut last = None;
    let mut work = Vec::with_capacity(events.len());
    for (mut one, correlation) in events {
        if let Some(&segment) = calls.get(&correlation).filter(|_| correlation != 0) {
            last = Some(segment);
        }
        // What runs before the first known launch was launched before the recording.
        let Some(segment) = last else { continue };
        one.segment = segment;
        work.push(one);
    }
    (!work.is_empty()).then_some((work, streams))
}

/// The thread of the program, and for each segment whether its thread works for it: threads with operators of the framework,
/// and those that launch on the program's streams.
fn own_threads(trace: &Trace, segments: &Segments, work: &[Work]) -> (ThreadId, Vec<bool>) {
    let hosts = &trace.hosts;
    let rows = hosts.kind.iter().zip(hosts.thread.iter());
    let with_operators: FxHashSet<ThreadId> = rows
        .filter(|(kind, _)| **kind == HostKind::OPERATOR)
        .map(|(_, thread)| *thread)
        .collect();
    let mut launches: FxHashMap<ThreadId, u64> = FxHashMap::default();
    for one in work {
        *launches
            .entry(segments.thread[one.segment as usize])
            .or_default() += 1;
    }
    let counted = launches.iter();
    let main = counted
        .max_by_key(|(thread, count)| {
            let has_operators = with_operators.contains(thread);
            (has_operators, **count, std::cmp::Reverse(**thread))
        })
        .map_or(ThreadId::NONE, |(thread, _)| *thread);
    let of_main = |one: &&Work| segments.thread[one.segment as usize] == main;
    let streams: FxHashSet<u32> = work.iter().filter(of_main).map(|one| one.stream).collect();
    let on_its_streams: FxHashSet<ThreadId> = work
        .iter()
        .filter(|one| streams.contains(&one.stream))
        .map(|one| segments.thread[one.segment as usize])
        .collect();
    let is_own = |thread: &ThreadId| {
        *thread == main || with_operators.contains(thread) || on_its_streams.contains(thread)
    };
    (main, segments.thread.iter().map(is_own).collect())
}
