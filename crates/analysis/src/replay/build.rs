//! The dependency graph of a trace from its events.

use llmprof_record::trace::{HostKind, ThreadId, Trace};
use rustc_hash::{FxHashMap, FxHashSet};

use super::api::{Api, Apis};
use super::graph::{Graph, NO_WORK, Typical, Wait, Work, WorkRow};
use super::residual;
use super::segments::{NO_ROW, Nesting, Segments};
use super::windows::Window;
use crate::timeline::launches::is_api;

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
