//! The dependency graph of a trace from its events.

use llmprof_record::trace::{HostKind, ThreadId, Trace};
use rustc_hash::{FxHashMap, FxHashSet};

use super::api::{CallEffect, CallEffects};
use super::graph::{
    CallWait, DeviceRow, DeviceWork, Graph, NO_WINDOW, NO_WORK, NOTHING_BEFORE, Typical,
    WindowBound,
};
use super::nodes::{NO_NODE, Nodes};
use super::parts::{GraphPart, WHOLE, part_at};
use super::residual;
use super::segments::{RowNesting, Segments};
use super::time_slices::time_slices;
use super::windows::HostWindow;
use crate::timeline::launches::is_api;

impl Graph {
    /// Reads a trace. `windows` are those of all phases, disjoint. `None` if the trace has no launch calls.
    pub fn of_trace(trace: &Trace, windows: Vec<HostWindow>) -> Option<Self> {
        Self::of_parts(trace, windows, vec![WHOLE])
    }

    /// Reads the `parts` of a trace, which are sorted and disjoint and hold all `windows`.
    pub(crate) fn of_parts(
        trace: &Trace,
        windows: Vec<HostWindow>,
        parts: Vec<HostWindow>,
    ) -> Option<Self> {
        Self::with_nodes(trace, windows, parts, false)
    }

    /// With `are_all_nodes` segments without a launch or wait are nodes too, which changes no time: for tests.
    pub(super) fn with_nodes(
        trace: &Trace,
        mut windows: Vec<HostWindow>,
        parts: Vec<HostWindow>,
        are_all_nodes: bool,
    ) -> Option<Self> {
        windows.sort_by_key(|window| window.start);
        let bounds = windows.iter().chain(&parts);
        let mut cuts: Vec<i64> = bounds.flat_map(|w| [w.start, w.end]).collect();
        cuts.sort_unstable();
        let ((segments, nesting), launched) = rayon::join(
            || Segments::of_threads(&trace.hosts, &cuts, &parts),
            || LaunchedEvents::of_trace(trace),
        );
        let WorkOfParts {
            mut work,
            streams,
            ends_before,
        } = launched.in_parts(trace, &nesting, segments.start.len(), &parts)?;
        work.sort_by_key(|work| (work.segment, work.start));
        let mut first_work = vec![0_u32; segments.start.len() + 1];
        for one in &work {
            first_work[one.segment as usize + 1] += 1;
        }
        for index in 1..first_work.len() {
            first_work[index] += first_work[index - 1];
        }
        let main = mark_own_work(trace, &segments, &mut work);
        let mut graph = Self {
            waits: Vec::new(),
            segments,
            nesting,
            nodes: Nodes::default(),
            parts: Vec::new(),
            work,
            first_work,
            streams,
            threads: trace.threads.len(),
            typical: Typical::default(),
            main,
            windows,
            window_segments: Vec::new(),
            bounds: Vec::new(),
            window_of_work: Vec::new(),
            apis: CallEffects::default(),
            time_slices: Vec::new(),
        };
        graph.bound_windows();
        let calls = graph.waiting_calls(trace);
        graph.find_nodes(&calls, &parts, are_all_nodes);
        graph.parts = ordered_parts(&graph, parts, ends_before);
        graph.time_slices = time_slices(&graph, trace);
        residual::fill_residuals(&mut graph, &calls);
        Some(graph)
    }

    /// Segments that launch work, may wait, or bound a window.
    fn find_nodes(
        &mut self,
        calls: &FxHashMap<u32, CallEffect>,
        parts: &[HostWindow],
        are_all_nodes: bool,
    ) {
        let mut is_node = vec![are_all_nodes; self.segments.start.len()];
        let launching = self.work.iter().map(|work| work.segment);
        let bounds = self.bounds.iter().map(|bound| bound.segment);
        for segment in launching.chain(bounds).chain(calls.keys().copied()) {
            is_node[segment as usize] = true;
        }
        self.nodes = Nodes::of_segments(&self.segments, parts, |segment| is_node[segment]);
        self.waits = vec![(CallWait::No, 0); self.nodes.segment.len()];
        for bound in &mut self.bounds {
            bound.node = self.nodes.at_or_after[bound.segment as usize];
        }
    }

    fn bound_windows(&mut self) {
        let windows = self.windows.iter();
        self.window_segments = windows.map(|window| self.segments_in(*window)).collect();
        for (window, segments) in self.window_segments.iter().enumerate() {
            if !segments.is_empty() {
                let bound = |segment: usize, is_begin| WindowBound {
                    segment: segment as u32,
                    node: NO_NODE,
                    window: window as u32,
                    is_begin,
                };
                self.bounds.push(bound(segments.start, true));
                self.bounds.push(bound(segments.end - 1, false));
            }
        }
        self.bounds.sort_by_key(|bound| bound.segment);
        let window = |work: &DeviceWork| {
            let launched = self.segments.start[work.segment as usize];
            let window = part_at(&self.windows, launched).filter(|_| work.is_own);
            window.map_or(NO_WINDOW, |window| window as u32)
        };
        self.window_of_work = self.work.iter().map(window).collect();
    }

    /// For each segment that begins a call which may wait, what it would wait for.
    fn waiting_calls(&mut self, trace: &Trace) -> FxHashMap<u32, CallEffect> {
        let hosts = &trace.hosts;
        let mut calls = FxHashMap::default();
        for row in 0..hosts.len() {
            let segments = self.nesting.segments_of_row(row);
            if segments.is_empty() || !is_api(hosts.kind[row]) {
                continue;
            }
            let api = self.apis.read_effect(trace, hosts.name[row]);
            if api != CallEffect::Other {
                calls.entry(segments.start as u32).or_insert(api);
            }
        }
        calls
    }
}

/// The device work of a graph's parts.
struct WorkOfParts {
    work: Vec<DeviceWork>,
    streams: usize,
    /// By part and stream: when the work ends that was launched before.
    ends_before: Vec<Vec<i64>>,
}

/// Device events of a trace in order of time, with the calls that launched them.
struct LaunchedEvents {
    events: Vec<LaunchedEvent>,
    streams: usize,
    /// The row of the call that launched it, by correlation.
    calls: FxHashMap<u32, u32>,
}

impl LaunchedEvents {
    fn of_trace(trace: &Trace) -> Self {
        let (events, streams) = device_events(trace);
        Self {
            events,
            streams,
            calls: launch_rows(trace),
        }
    }

    /// Device work with the segments that launch it. Work whose launch was not recorded hangs on the last launch before it.
    fn in_parts(
        self,
        trace: &Trace,
        nesting: &RowNesting,
        segments: usize,
        parts: &[HostWindow],
    ) -> Option<WorkOfParts> {
        let streams = self.streams;
        let mut device_work = WorkOfParts {
            work: Vec::new(),
            streams,
            ends_before: vec![vec![NOTHING_BEFORE; streams]; parts.len()],
        };
        // The launch of the last work before: `None` outside of all parts.
        let mut last = None;
        // The first part after the launch of the work: its streams are busy with that.
        let mut later = 0;
        for event in self.events {
            let call = self.calls.get(&event.correlation);
            let call = call.map(|&row| (row, nesting.segments_of_row(row as usize).start));
            let is_known = |segment: usize| event.correlation != 0 && segment < segments;
            if let Some((row, segment)) = call.filter(|(_, segment)| is_known(*segment)) {
                let launched = trace.hosts.start[row as usize];
                last = part_at(parts, launched).map(|_| segment as u32);
                later = parts.partition_point(|part| part.start <= launched);
            }
            if let Some(ends) = device_work.ends_before.get_mut(later) {
                let end = &mut ends[event.stream as usize];
                *end = (*end).max(event.start.saturating_add(event.duration));
            }
            // What runs before the first known launch was launched before the recording: streams are busy with it.
            let Some(segment) = last else { continue };
            device_work.work.push(DeviceWork {
                row: event.row,
                start: event.start,
                duration: event.duration,
                stream: event.stream,
                segment,
                latency: 0,
                gap: 0,
                delay: 0,
                after: NO_WORK,
                is_own: false,
            });
        }
        for part in 1..parts.len() {
            for stream in 0..streams {
                let before = device_work.ends_before[part - 1][stream];
                let end = &mut device_work.ends_before[part][stream];
                *end = (*end).max(before);
            }
        }
        (!device_work.work.is_empty()).then_some(device_work)
    }
}

/// By correlation: the row of the call that launched it.
fn launch_rows(trace: &Trace) -> FxHashMap<u32, u32> {
    let hosts = &trace.hosts;
    let mut calls = FxHashMap::default();
    calls.reserve(trace.kernels.len());
    for row in 0..hosts.len() {
        let correlation = hosts.correlation[row];
        if correlation != 0 && is_api(hosts.kind[row]) {
            // Outer rows come first: a runtime call before the driver call inside it.
            calls.entry(correlation).or_insert(row as u32);
        }
    }
    calls
}

/// A kernel, copy or memory fill.
struct LaunchedEvent {
    row: DeviceRow,
    start: i64,
    duration: i64,
    stream: u32,
    correlation: u32,
}

/// Kernels, copies and memory fills by their starts, and how many streams they run on.
fn device_events(trace: &Trace) -> (Vec<LaunchedEvent>, usize) {
    let mut numbers: FxHashMap<(u32, u32, u32), u32> = FxHashMap::default();
    let mut last = ((0, 0, 0), u32::MAX);
    let mut number_of = |stream: (u32, u32, u32)| {
        if last.0 != stream || last.1 == u32::MAX {
            let next = numbers.len() as u32;
            last = (stream, *numbers.entry(stream).or_insert(next));
        }
        last.1
    };
    let (kernels, copies, memsets) = (&trace.kernels, &trace.copies, &trace.memsets);
    let mut events = Vec::with_capacity(kernels.len() + copies.len() + memsets.len());
    events.extend((0..kernels.len()).map(|row| LaunchedEvent {
        row: DeviceRow::Kernel(row as u32),
        start: kernels.start[row],
        duration: kernels.duration[row],
        stream: number_of((
            kernels.device[row],
            kernels.context[row],
            kernels.stream[row],
        )),
        correlation: kernels.correlation[row],
    }));
    events.extend((0..copies.len()).map(|row| LaunchedEvent {
        row: DeviceRow::Copy(row as u32),
        start: copies.start[row],
        duration: copies.duration[row],
        stream: number_of((copies.device[row], copies.context[row], copies.stream[row])),
        correlation: copies.correlation[row],
    }));
    events.extend((0..memsets.len()).map(|row| LaunchedEvent {
        row: DeviceRow::Memset(row as u32),
        start: memsets.start[row],
        duration: memsets.duration[row],
        stream: number_of((
            memsets.device[row],
            memsets.context[row],
            memsets.stream[row],
        )),
        correlation: memsets.correlation[row],
    }));
    events.sort_by_key(|event| event.start);
    (events, numbers.len())
}

/// The nodes of each part, and what it finds on the streams.
fn ordered_parts(
    graph: &Graph,
    parts: Vec<HostWindow>,
    ends_before: Vec<Vec<i64>>,
) -> Vec<GraphPart> {
    let own = graph.work.iter().filter(|one| one.is_own);
    let own_streams: FxHashSet<u32> = own.map(|one| one.stream).collect();
    let nodes = &graph.nodes.segment;
    let place =
        |time: i64| nodes.partition_point(|&node| graph.segments.start[node as usize] < time);
    let parts = parts.into_iter().zip(ends_before);
    parts
        .map(|(window, stream_ends)| {
            let own_ends = own_streams
                .iter()
                .map(|&stream| stream_ends[stream as usize]);
            GraphPart {
                window,
                nodes: place(window.start)..place(window.end),
                device_end: own_ends.max().unwrap_or(NOTHING_BEFORE),
                stream_ends,
            }
        })
        .collect()
}

/// Finds the thread of the program, and marks work that its threads launch: those with operators of the framework, and those that
/// launch on the program's streams.
fn mark_own_work(trace: &Trace, segments: &Segments, work: &mut [DeviceWork]) -> ThreadId {
    let hosts = &trace.hosts;
    let thread_of = |one: &DeviceWork| segments.thread[one.segment as usize].0 as usize;
    let mut has_operators = vec![false; trace.threads.len()];
    for (kind, thread) in hosts.kind.iter().zip(hosts.thread.iter()) {
        if *kind == HostKind::OPERATOR {
            has_operators[thread.0 as usize] = true;
        }
    }
    let mut launches = vec![0_u64; trace.threads.len()];
    for one in work.iter() {
        launches[thread_of(one)] += 1;
    }
    let launching = (0..launches.len()).filter(|&thread| launches[thread] > 0);
    let main = launching
        .max_by_key(|&thread| {
            (
                has_operators[thread],
                launches[thread],
                std::cmp::Reverse(thread),
            )
        })
        .unwrap_or(usize::MAX);
    let of_main = |one: &&DeviceWork| thread_of(one) == main;
    let streams: FxHashSet<u32> = work.iter().filter(of_main).map(|one| one.stream).collect();
    let mut is_own = has_operators;
    for one in work.iter().filter(|one| streams.contains(&one.stream)) {
        is_own[thread_of(one)] = true;
    }
    for one in work.iter_mut() {
        one.is_own = is_own[thread_of(one)];
    }
    if main == usize::MAX {
        ThreadId::NONE
    } else {
        ThreadId(main as u32)
    }
}
