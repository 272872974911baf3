//! What the recorded times leave after the rules of the replay: latencies, gaps, delays, and what calls wait for.

use crate::thresholds::{
    CLOCK_SKEW_MAX_NS, EVENT_FOLLOWS_MAX_NS, QUEUED_LAUNCHES_MAX, WORK_DELAY_MIN_NS,
};
use llmprof_units::stats::upper_median;

use rustc_hash::FxHashMap;

use super::api::CallEffect;
use super::graph::{CallWait, DeviceWork, Graph, NO_WORK, Typical};

pub(super) fn fill_residuals(graph: &mut Graph, calls: &FxHashMap<u32, CallEffect>) {
    graph.typical = typical_times(graph);
    let blocking = are_launches_blocking(graph, calls);
    let has_stream_waits = calls.values().any(|api| *api == CallEffect::StreamWait);
    let mut by_stream: Vec<Vec<u32>> = vec![Vec::new(); graph.streams];
    for (index, work) in graph.work.iter().enumerate() {
        by_stream[work.stream as usize].push(index as u32);
    }
    let foreign = Foreign {
        intervals: foreign_intervals(graph),
        by_stream,
        has_stream_waits,
    };
    let mut recorded = RecordedStreams {
        ends: Vec::new(),
        last_stream: FxHashMap::default(),
    };
    for part in 0..graph.parts.len() {
        recorded.ends.clone_from(&graph.parts[part].stream_ends);
        for node in graph.parts[part].nodes.clone() {
            let segment = graph.nodes.segment[node] as usize;
            let begin = graph.segments.start[segment];
            for work in graph.launched_by(segment..segment + 1) {
                split_begin(graph, &recorded, work, begin, &foreign);
                let one = graph.work[work];
                recorded.add_work(&one, graph.segments.thread[segment].0);
            }
            if let Some(&api) = calls.get(&(segment as u32)) {
                let is_blocking = blocking && api == CallEffect::Launch;
                graph.waits[node] = recorded.find_wait(graph, segment, api, is_blocking);
            }
        }
    }
}

/// What can keep work back beside its own stream.
struct Foreign {
    /// Times in which other programs keep the device: [`foreign_intervals`].
    intervals: Vec<(i64, i64)>,
    /// By stream, the numbers of its work.
    by_stream: Vec<Vec<u32>>,
    has_stream_waits: bool,
}

struct RecordedStreams {
    /// Latest end on each stream so far.
    ends: Vec<i64>,
    /// The stream that a thread used last.
    last_stream: FxHashMap<u32, u32>,
}

impl RecordedStreams {
    fn add_work(&mut self, work: &DeviceWork, thread: u32) {
        let end = &mut self.ends[work.stream as usize];
        *end = (*end).max(work.end());
        self.last_stream.insert(thread, work.stream);
    }

    /// What a call waited for, and what it took after that.
    fn find_wait(
        &self,
        graph: &Graph,
        segment: usize,
        api: CallEffect,
        is_blocking: bool,
    ) -> (CallWait, i64) {
        let begin = graph.segments.start[segment];
        let end = begin + graph.segments.duration[segment];
        let thread = graph.segments.thread[segment].0;
        let all = self.ends.iter().copied().max().unwrap_or(i64::MIN);
        let own = graph.launched_by(segment..segment + 1);
        let own_end = graph.work[own].iter().map(DeviceWork::end).max();
        let (wait, until) = match api {
            CallEffect::SyncDevice => (CallWait::Device, all),
            CallEffect::SyncStream => match self.last_stream.get(&thread) {
                Some(&stream) => (CallWait::Stream(stream), self.ends[stream as usize]),
                None => (CallWait::No, 0),
            },
            // Which event is not recorded: it is the last work that had ended when the call returned.
            CallEffect::SyncEvent => match last_ended(graph, segment, end + CLOCK_SKEW_MAX_NS) {
                Some(work) => (CallWait::DeviceWork(work as u32), graph.work[work].end()),
                None => (CallWait::No, 0),
            },
            CallEffect::Transfer => (CallWait::Own, own_end.unwrap_or(i64::MAX)),
            CallEffect::Launch if is_blocking => (CallWait::Own, own_end.unwrap_or(i64::MAX)),
            CallEffect::Memory if all > begin => (CallWait::Device, all),
            _ => (CallWait::No, 0),
        };
        if wait == CallWait::No || until > end.saturating_add(CLOCK_SKEW_MAX_NS) {
            return (CallWait::No, 0);
        }
        (wait, (end - until.max(begin)).max(0))
    }
}

/// The last work that ended by `time` and was launched before `segment`.
fn last_ended(graph: &Graph, segment: usize, time: i64) -> Option<usize> {
    let begin = graph.segments.start[segment];
    let launched = |work: usize| graph.segments.start[graph.work[work].segment as usize] < begin;
    let near = graph.work.len().min(graph.first_work[segment] as usize);
    let candidates = near.saturating_sub(QUEUED_LAUNCHES_MAX)..near;
    candidates
        .filter(|&work| launched(work) && graph.work[work].end() <= time)
        .max_by_key(|&work| graph.work[work].end())
}

/// Splits the recorded begin of one piece of work into latency, gap and delay.
fn split_begin(
    graph: &mut Graph,
    recorded: &RecordedStreams,
    work: usize,
    begin: i64,
    foreign: &Foreign,
) {
    let Typical { latency, gap, .. } = graph.typical;
    let one = graph.work[work];
    let before = recorded.ends[one.stream as usize];
    let is_first = before == i64::MIN;
    let ready = begin
        .saturating_add(latency)
        .max(if is_first { i64::MIN } else { before + gap });
    let late = one.start - ready;
    let is_own = one.is_own;
    let mut after = NO_WORK;
    let (mut own_latency, mut own_gap, mut delay) = if !is_first && before > begin + latency {
        (latency, one.start - before, 0)
    } else {
        let since = if is_first {
            gap
        } else {
            (one.start - before).max(0)
        };
        (one.start - begin, gap.min(since), 0)
    };
    if late > WORK_DELAY_MIN_NS {
        let followed = if foreign.has_stream_waits || graph.work_in_same_launch(work) {
            followed_work(graph, &foreign.by_stream, work)
        } else {
            None
        };
        if let Some(other) = followed {
            after = other as u32;
            (own_latency, own_gap) = (latency, gap);
        } else if is_own && overlaps_any(&foreign.intervals, ready, one.start) {
            (own_latency, own_gap, delay) = (latency, gap, late);
        }
    }
    let one = &mut graph.work[work];
    (one.latency, one.gap, one.delay, one.after) = (own_latency, own_gap, delay, after);
}

impl Graph {
    fn work_in_same_launch(&self, work: usize) -> bool {
        work > 0 && self.work[work - 1].segment == self.work[work].segment
    }
}

/// Work of another stream, launched earlier, that ended just before `work` began. `by_stream` are the numbers of each stream's work.
fn followed_work(graph: &Graph, by_stream: &[Vec<u32>], work: usize) -> Option<usize> {
    let one = graph.work[work];
    let earlier = by_stream.iter().enumerate().flat_map(|(stream, numbers)| {
        let before = |work: usize| numbers.partition_point(|&number| (number as usize) < work);
        let near = before(work.saturating_sub(QUEUED_LAUNCHES_MAX))..before(work);
        let is_other = stream != one.stream as usize;
        numbers[near]
            .iter()
            .filter(move |_| is_other)
            .map(|&number| number as usize)
    });
    earlier
        .filter(|&index| {
            let since = one.start - graph.work[index].end();
            (-CLOCK_SKEW_MAX_NS..EVENT_FOLLOWS_MAX_NS).contains(&since)
        })
        .max_by_key(|&index| (graph.work[index].end(), std::cmp::Reverse(index)))
}

/// Times in which work runs that has nothing to do with the program, or another process has the device, merged.
fn foreign_intervals(graph: &Graph) -> Vec<(i64, i64)> {
    let foreign = graph.work.iter().filter(|work| !work.is_own);
    let mut intervals: Vec<(i64, i64)> = foreign
        .map(|work| (work.start, work.end()))
        .chain(graph.time_slices.iter().copied())
        .collect();
    intervals.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (start, end) in intervals {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

fn overlaps_any(intervals: &[(i64, i64)], start: i64, end: i64) -> bool {
    let next = intervals.partition_point(|interval| interval.1 <= start);
    intervals.get(next).is_some_and(|interval| interval.0 < end)
}

/// Whether launch calls return only when their kernels have ended (`CUDA_LAUNCH_BLOCKING=1`).
fn are_launches_blocking(graph: &Graph, calls: &FxHashMap<u32, CallEffect>) -> bool {
    let (mut launches, mut waited) = (0_u64, 0_u64);
    for work in &graph.work {
        if calls.get(&work.segment) == Some(&CallEffect::Launch) {
            let segment = work.segment as usize;
            let end = graph.segments.start[segment] + graph.segments.duration[segment];
            launches += 1;
            waited += u64::from(work.end() <= end);
        }
    }
    // Short kernels end before their call returns now and then; all of them do so only if calls wait.
    launches > 0 && waited * 100 >= launches * 98
}

/// A piece of device work with its launch call.
struct LaunchedWork<'a> {
    work: &'a DeviceWork,
    /// Begin of the launch call, ns.
    begin: i64,
    /// Its place among the work of its call.
    node: usize,
    is_graph: bool,
    /// When its stream had done what was launched before.
    stream_end: i64,
}

/// Visits all work in the order of launches.
fn visit_launches(graph: &Graph, mut visit: impl FnMut(&LaunchedWork<'_>)) {
    for part in &graph.parts {
        let mut ends = part.stream_ends.clone();
        for &segment in &graph.nodes.segment[part.nodes.clone()] {
            let launched = graph.launched_by(segment as usize..segment as usize + 1);
            let is_graph = launched.len() > 1;
            for (node, work) in graph.work[launched].iter().enumerate() {
                let end = &mut ends[work.stream as usize];
                visit(&LaunchedWork {
                    work,
                    begin: graph.segments.start[segment as usize],
                    node,
                    is_graph,
                    stream_end: *end,
                });
                *end = (*end).max(work.end());
            }
        }
    }
}

/// Medians of launch latency on an idle stream and of gaps between queued work.
fn typical_times(graph: &Graph) -> Typical {
    let mut latencies = Vec::new();
    let mut graph_latencies = Vec::new();
    visit_launches(graph, |launch| {
        if launch.stream_end <= launch.begin && launch.is_graph {
            graph_latencies.push(launch.work.start - launch.begin);
        } else if launch.stream_end <= launch.begin {
            latencies.push(launch.work.start - launch.begin);
        }
    });
    let latency = upper_median(&mut latencies).unwrap_or(0).max(0);
    let mut gaps = Vec::new();
    let mut node_gaps = Vec::new();
    visit_launches(graph, |launch| {
        if launch.node > 0 && launch.stream_end > launch.begin {
            node_gaps.push(launch.work.start - launch.stream_end);
        } else if launch.stream_end > launch.begin + latency {
            gaps.push(launch.work.start - launch.stream_end);
        }
    });
    Typical {
        latency,
        gap: upper_median(&mut gaps).unwrap_or(0).max(0),
        graph_latency: upper_median(&mut graph_latencies).unwrap_or(0).max(0),
        node_gap: trimmed_mean(&mut node_gaps).max(0),
    }
}

/// The mean without the largest hundredth. Gaps between nodes of a graph have a long tail that a median leaves out.
fn trimmed_mean(values: &mut [i64]) -> i64 {
    values.sort_unstable();
    let kept = &values[..values.len() - values.len() / 100];
    kept.iter().sum::<i64>() / (kept.len() as i64).max(1)
}
