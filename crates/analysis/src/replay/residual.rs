//! What the recorded times leave after the rules of the replay: latencies, gaps, delays, and what calls wait for.

use llmprof_units::stats::upper_median;

use rustc_hash::FxHashMap;

use super::api::Api;
use super::graph::{Graph, NO_WORK, Typical, Wait};

/// Work that begins later than launch and stream explain is delayed by something else. Launch latencies scatter by a few µs.
const DELAY_MIN_NS: i64 = 5_000;
/// Work that follows an event of another stream begins this soon after it: 1 to 11 µs on an H200.
const FOLLOWS_WITHIN_NS: i64 = 25_000;
/// A call that returns this long before its work ends did not wait for it: clocks of host and device agree to about a µs.
const CLOCK_SKEW_NS: i64 = 2_000;

pub(super) fn fill(graph: &mut Graph, calls: &FxHashMap<u32, Api>) {
    graph.typical = typical(graph);
    let blocking = are_launches_blocking(graph, calls);
    let foreign = foreign_intervals(graph);
    let has_stream_waits = calls.values().any(|api| *api == Api::StreamWait);
    let mut recorded = Recorded {
        ends: vec![i64::MIN; graph.streams],
        last_stream: FxHashMap::default(),
    };
    for index in 0..graph.order.len() {
        let segment = graph.order[index] as usize;
        let begin = graph.segments.start[segment];
        let range = graph.launched_by(segment..segment + 1);
        for work in range.clone() {
            leave(graph, &recorded, work, begin, &foreign, has_stream_waits);
            let one = graph.work[work];
            recorded.add(&one, graph.segments.thread[segment].0);
        }
        if let Some(&api) = calls.get(&(segment as u32)) {
            let is_blocking = blocking && api == Api::Launch;
            graph.waits[segment] = recorded.wait(graph, segment, api, is_blocking);
        }
    }
}

struct Recorded {
    /// Latest end on each stream so far.
    ends: Vec<i64>,
    /// The stream that a thread used last.
    last_stream: FxHashMap<u32, u32>,
}

impl Recorded {
    fn add(&mut self, work: &super::graph::Work, thread: u32) {
        let end = &mut self.ends[work.stream as usize];
        *end = (*end).max(work.end());
        self.last_stream.insert(thread, work.stream);
    }

    /// What a call waited for, and what it took after that.
    fn wait(&self, graph: &Graph, segment: usize, api: Api, is_blocking: bool) -> (Wait, i64) {
        let begin = graph.segments.start[segment];
        let end = begin + graph.segments.duration[segment];
        let thread = graph.segments.thread[segment].0;
        let all = self.ends.iter().copied().max().unwrap_or(i64::MIN);
        let own = graph.launched_by(segment..segment + 1);
        let own_end = graph.work[own].iter().map(super::graph::Work::end).max();
        let (wait, until) = match api {
            Api::SyncDevice => (Wait::Device, all),
            Api::SyncStream => match self.last_stream.get(&thread) {
                Some(&stream) => (Wait::Stream(stream), self.ends[stream as usize]),
                None => (Wait::No, 0),
            },
            // Which event is not recorded: it is the last work that had ended when the call returned.
            Api::SyncEvent => match last_ended(graph, segment, end + CLOCK_SKEW_NS) {
                Some(work) => (Wait::Work(work as u32), graph.work[work].end()),
                None => (Wait::No, 0),
            },
            Api::Transfer => (Wait::Own, own_end.unwrap_or(i64::MAX)),
            Api::Launch if is_blocking => (Wait::Own, own_end.unwrap_or(i64::MAX)),
            Api::Memory if all > begin => (Wait::Device, all),
            _ => (Wait::No, 0),
        };
        if wait == Wait::No || until > end.saturating_add(CLOCK_SKEW_NS) {
            return (Wait::No, 0);
        }
        (wait, (end - until.max(begin)).max(0))
    }
}

/// The last work that ended by `time` and was launched before `segment`.
fn last_ended(graph: &Graph, segment: usize, time: i64) -> Option<usize> {
    let begin = graph.segments.start[segment];
    let launched = |work: usize| graph.segments.start[graph.work[work].segment as usize] < begin;
    let near = graph.work.len().min(graph.first_work[segment] as usize);
    // Events are of recent work: 4,096 launches back is more than a queue holds.
    let candidates = near.saturating_sub(4096)..near;
    candidates
        .filter(|&work| launched(work) && graph.work[work].end() <= time)
        .max_by_key(|&work| graph.work[work].end())
}

/// Splits the recorded begin of one piece of work into latency, gap and delay.
fn leave(
    graph: &mut Graph,
    recorded: &Recorded,
    work: usize,
    begin: i64,
    foreign: &[(i64, i64)],
    has_stream_waits: bool,
) {
    let Typical { latency, gap, .. } = graph.typical;
    let one = graph.work[work];
    let before = recorded.ends[one.stream as usize];
    let is_first = before == i64::MIN;
    let ready = begin
        .saturating_add(latency)
        .max(if is_first { i64::MIN } else { before + gap });
    let late = one.start - ready;
    let is_own = graph.is_own_work(&one);
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
    if late > DELAY_MIN_NS {
        let followed = if has_stream_waits || graph.work_in_same_launch(work) {
            graph.followed(work)
        } else {
            None
        };
        if let Some(other) = followed {
            after = other as u32;
            (own_latency, own_gap) = (latency, gap);
        } else if is_own && overlaps(foreign, ready, one.start) {
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

    /// Work of another stream, launched earlier, that ended just before `work` began.
    fn followed(&self, work: usize) -> Option<usize> {
        let one = self.work[work];
        let earlier = (0..work).rev().take(4096);
        earlier
            .filter(|&index| {
                let other = &self.work[index];
                let since = one.start - other.end();
                other.stream != one.stream && (-CLOCK_SKEW_NS..FOLLOWS_WITHIN_NS).contains(&since)
            })
            .max_by_key(|&index| self.work[index].end())
    }
}

/// Times in which work runs that has nothing to do with the program, merged.
fn foreign_intervals(graph: &Graph) -> Vec<(i64, i64)> {
    let mut found: Vec<(i64, i64)> = graph
        .work
        .iter()
        .filter(|work| !graph.is_own_work(work))
        .map(|work| (work.start, work.end()))
        .collect();
    found.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (start, end) in found {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

fn overlaps(intervals: &[(i64, i64)], start: i64, end: i64) -> bool {
    let next = intervals.partition_point(|interval| interval.1 <= start);
    intervals.get(next).is_some_and(|interval| interval.0 < end)
}

/// Whether launch calls return only when their kernels have ended (`CUDA_LAUNCH_BLOCKING=1`).
fn are_launches_blocking(graph: &Graph, calls: &FxHashMap<u32, Api>) -> bool {
    let (mut launches, mut waited) = (0_u64, 0_u64);
    for work in &graph.work {
        if calls.get(&work.segment) == Some(&Api::Launch) {
            let segment = work.segment as usize;
            let end = graph.segments.start[segment] + graph.segments.duration[segment];
            launches += 1;
            waited += u64::from(work.end() <= end);
        }
    }
    // Short kernels end before their call returns now and then; all of them do so only if calls wait.
    launches > 0 && waited * 100 >= launches * 98
}

/// Medians of launch latency on an idle stream and of gaps between queued work.
fn typical(graph: &Graph) -> Typical {
    let mut ends = vec![i64::MIN; graph.streams];
    let mut latencies = Vec::new();
    let mut graph_latencies = Vec::new();
    let mut gaps = Vec::new();
    for &segment in &graph.order {
        let begin = graph.segments.start[segment as usize];
        let launched = graph.launched_by(segment as usize..segment as usize + 1);
        let is_graph = launched.len() > 1;
        for work in &graph.work[launched] {
            let before = ends[work.stream as usize];
            if before <= begin && is_graph {
                graph_latencies.push(work.start - begin);
            } else if before <= begin {
                latencies.push(work.start - begin);
            }
            ends[work.stream as usize] = before.max(work.end());
        }
    }
    let latency = upper_median(&mut latencies).unwrap_or(0).max(0);
    ends.fill(i64::MIN);
    let mut node_gaps = Vec::new();
    for &segment in &graph.order {
        let begin = graph.segments.start[segment as usize];
        let launched = graph.launched_by(segment as usize..segment as usize + 1);
        for (node, work) in graph.work[launched].iter().enumerate() {
            let before = ends[work.stream as usize];
            if node > 0 && before > begin {
                node_gaps.push(work.start - before);
            } else if before > begin + latency {
                gaps.push(work.start - before);
            }
            ends[work.stream as usize] = before.max(work.end());
        }
    }
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
