//! The walk over a graph.

use crate::thresholds::OWN_TIME_MIN_SHARE;
use std::borrow::Cow;

use super::edit::Edit;
use super::graph::{CallWait, DeviceWork, Graph, NO_WINDOW, NO_WORK, NOTHING_BEFORE};
use super::nodes::NO_NODE;
use super::parts::{GraphPart, part_at};
use super::windows::HostWindow;

/// How recorded durations are read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReplayModel {
    /// What recording costs per host event, ns; 0 replays the recording as it was.
    pub event_cost_ns: f64,
    /// One launch latency and one gap for all work instead of those that were recorded: what the rules explain by themselves.
    pub with_constants: bool,
}

impl ReplayModel {
    /// A duration of the host without half of the cost of an event.
    #[inline]
    fn without_cost(self, duration: i64) -> i64 {
        let own = duration as f64 * OWN_TIME_MIN_SHARE;
        round_half_away((duration as f64 - self.event_cost_ns / 2.0).max(own))
    }
}

/// Times of one moment, one for each model.
type Times<const MODELS: usize> = [i64; MODELS];

/// Mark of device work that edits remove.
const DROPPED: u8 = 1;
/// Mark of device work that edits let run without waiting for another stream.
const UNORDERED: u8 = 2;

/// What edits make of a segment.
#[derive(Clone, Copy, Debug)]
struct SegmentChange {
    segment: u32,
    /// The most it takes; a limited segment no longer waits.
    most: Option<i64>,
    less: i64,
    is_unwaited: bool,
}

impl SegmentChange {
    fn merge_with(&mut self, other: Self) {
        self.most = self.most.into_iter().chain(other.most).min();
        self.less = self.less.max(other.less);
        self.is_unwaited |= other.is_unwaited;
    }

    /// What the segment takes of its own `time`.
    fn changed_time(self, time: i64) -> i64 {
        let time = (time - self.less).max(0);
        self.most.map_or(time, |most| time.min(most))
    }
}

/// The changed segments of edits, in the order of segments.
fn changed_segments(edits: &[&Edit]) -> Vec<SegmentChange> {
    let unchanged = |segment: u32| SegmentChange {
        segment,
        most: None,
        less: 0,
        is_unwaited: false,
    };
    let mut all: Vec<SegmentChange> = Vec::new();
    for edit in edits {
        let limited = edit.host.iter().map(|&(segment, most)| SegmentChange {
            most: Some(most),
            ..unchanged(segment)
        });
        let shortened = edit.shortened.iter().map(|&(segment, less)| SegmentChange {
            less,
            ..unchanged(segment)
        });
        let unwaited = edit.unwaited.iter().map(|&segment| SegmentChange {
            is_unwaited: true,
            ..unchanged(segment)
        });
        all.extend(limited.chain(shortened).chain(unwaited));
    }
    // Causes go through a phase in order: the lists are sorted stretches, which this sort keeps.
    all.sort_by_key(|changed| changed.segment);
    all.dedup_by(|later, first| {
        let is_same = later.segment == first.segment;
        if is_same {
            first.merge_with(*later);
        }
        is_same
    });
    all
}

/// Edits by node and by work.
struct EditChanges<'a, const MODELS: usize> {
    /// As [`Replay::before`], with what edits change between nodes.
    before: Cow<'a, [Times<MODELS>]>,
    /// What is changed at nodes, in the order of these.
    nodes: Vec<(u32, SegmentChange)>,
    work: Vec<u8>,
    /// Durations of work that takes less time; empty where all take what they took.
    durations: Vec<i64>,
    is_alone: bool,
}

impl<'a, const MODELS: usize> EditChanges<'a, MODELS> {
    fn of_edits(replay: &'a Replay<'_, MODELS>, edits: &[&Edit]) -> Self {
        let graph = replay.graph;
        let mut changes = Self {
            before: Cow::Borrowed(&replay.before),
            nodes: Vec::new(),
            work: vec![0; graph.work.len()],
            durations: Vec::new(),
            is_alone: edits.iter().any(|edit| edit.is_alone),
        };
        for changed in changed_segments(edits) {
            let segment = changed.segment as usize;
            let node = graph.nodes.at_or_after[segment];
            if node == NO_NODE {
                continue;
            }
            if graph.nodes.segment[node as usize] == changed.segment {
                changes.nodes.push((node, changed));
                continue;
            }
            let before = &mut changes.before.to_mut()[node as usize];
            for (before, model) in before.iter_mut().zip(replay.models) {
                let time = graph.own_time(segment, model);
                *before += changed.changed_time(time) - time;
            }
        }
        changes.nodes.sort_by_key(|(node, _)| *node);
        if edits.iter().any(|edit| !edit.device.is_empty()) {
            changes.durations = graph.work.iter().map(|work| work.duration).collect();
        }
        for edit in edits {
            for &(work, duration) in &edit.device {
                let known = &mut changes.durations[work as usize];
                *known = (*known).min(duration);
            }
            for (mark, works) in [(DROPPED, &edit.dropped), (UNORDERED, &edit.unordered)] {
                for &work in works {
                    changes.work[work as usize] |= mark;
                }
            }
        }
        changes
    }
}

/// The nearest whole number, a half away from zero, as [`f64::round`] has it, which is a call of a function on older processors.
#[inline]
fn round_half_away(value: f64) -> i64 {
    let whole = value as i64;
    let rest = value - whole as f64;
    let step = i64::from(rest >= 0.5) - i64::from(rest <= -0.5);
    whole.saturating_add(step)
}

/// When each window begins and ends: on the host and on the device.
struct WindowTimes<const MODELS: usize> {
    begins: Vec<Times<MODELS>>,
    ends: Vec<Times<MODELS>>,
    device_ends: Vec<Times<MODELS>>,
}

impl<const MODELS: usize> WindowTimes<MODELS> {
    fn new(windows: usize) -> Self {
        Self {
            begins: vec![[0; MODELS]; windows],
            ends: vec![[0; MODELS]; windows],
            device_ends: vec![[i64::MIN; MODELS]; windows],
        }
    }

    /// How long each window takes, in the order of time: from when the host begins it, or the device has done what was launched
    /// before, until the host has left it and the device has done what it launched.
    fn lengths(&self, graph: &Graph, model: usize) -> Vec<i64> {
        let mut before = i64::MIN;
        let mut part = 0;
        let mut lengths = Vec::with_capacity(graph.windows.len());
        for (index, window) in graph.windows.iter().enumerate() {
            while part < graph.parts.len() && graph.parts[part].window.start <= window.start {
                before = graph.parts[part].device_end;
                part += 1;
            }
            if graph.window_segments[index].is_empty() {
                lengths.push(0);
                continue;
            }
            let end = self.ends[index][model].max(self.device_ends[index][model]);
            lengths.push((end - self.begins[index][model].max(before)).max(0));
            before = before.max(end);
        }
        lengths
    }
}

/// Replays of some windows under some models.
pub(crate) struct Replay<'a, const MODELS: usize> {
    graph: &'a Graph,
    models: [ReplayModel; MODELS],
    /// The numbers of the windows.
    windows: Vec<usize>,
    /// By part: whether it holds one of them.
    is_replayed: Vec<bool>,
    /// By node: what its thread does since its node before; of its first node in a part, when it gets there.
    before: Vec<Times<MODELS>>,
}

impl<'a, const MODELS: usize> Replay<'a, MODELS> {
    /// Of those `windows` of a graph, by their numbers in the order of time.
    pub(crate) fn of_windows(
        graph: &'a Graph,
        models: [ReplayModel; MODELS],
        windows: Vec<usize>,
    ) -> Self {
        let parts: Vec<HostWindow> = graph.parts.iter().map(|part| part.window).collect();
        let mut is_replayed = vec![false; parts.len()];
        for &window in &windows {
            if let Some(part) = part_at(&parts, graph.windows[window].start) {
                is_replayed[part] = true;
            }
        }
        let mut before = vec![[0; MODELS]; graph.nodes.segment.len()];
        let stretches = graph.nodes.stretches.iter();
        for stretch in stretches.filter(|stretch| is_replayed[stretch.part]) {
            let mut time = [graph.segments.start[stretch.first]; MODELS];
            for segment in stretch.first..stretch.end {
                let node = graph.nodes.at_or_after[segment];
                if node == NO_NODE {
                    break;
                }
                if graph.nodes.segment[node as usize] as usize == segment {
                    before[node as usize] = time;
                    time = [0; MODELS];
                } else {
                    for (time, model) in time.iter_mut().zip(models) {
                        *time += graph.own_time(segment, model);
                    }
                }
            }
        }
        Self {
            graph,
            models,
            windows,
            is_replayed,
            before,
        }
    }

    /// How long the windows take together with all of some edits, ns, under each model. Work that they drop counts nowhere.
    pub(crate) fn total_with(&self, edits: &[&Edit]) -> [i64; MODELS] {
        let times = self.window_times(edits);
        times.map(|times| self.windows.iter().map(|&window| times[window]).sum())
    }

    /// How long each window of the graph takes; those of parts that are not replayed take nothing.
    fn window_times(&self, edits: &[&Edit]) -> [Vec<i64>; MODELS] {
        let graph = self.graph;
        let mut walk = ReplayWalk {
            graph,
            models: self.models,
            changes: EditChanges::of_edits(self, edits),
            threads: vec![[0; MODELS]; graph.threads],
            streams: vec![[NOTHING_BEFORE; MODELS]; graph.streams],
            work: vec![[0; MODELS]; graph.work.len()],
            windows: WindowTimes::new(graph.windows.len()),
            next_bound: 0,
            next_change: 0,
        };
        let parts = graph.parts.iter().zip(&self.is_replayed);
        for (part, _) in parts.filter(|(_, is_replayed)| **is_replayed) {
            walk.walk_part(part);
        }
        std::array::from_fn(|model| walk.windows.lengths(graph, model))
    }
}

/// A replay under way: times of each model side by side, so that the graph is read once for all.
struct ReplayWalk<'a, const MODELS: usize> {
    graph: &'a Graph,
    models: [ReplayModel; MODELS],
    changes: EditChanges<'a, MODELS>,
    /// When each thread has done what it did so far; 0 before its first node, whose `before` is a time.
    threads: Vec<Times<MODELS>>,
    /// When each stream has done what was launched so far.
    streams: Vec<Times<MODELS>>,
    /// End of each piece of work.
    work: Vec<Times<MODELS>>,
    windows: WindowTimes<MODELS>,
    /// The next of the graph's bounds.
    next_bound: usize,
    /// The next of the changed nodes.
    next_change: usize,
}

impl<const MODELS: usize> ReplayWalk<'_, MODELS> {
    fn walk_part(&mut self, part: &GraphPart) {
        self.threads.fill([0; MODELS]);
        for (stream, &end) in self.streams.iter_mut().zip(&part.stream_ends) {
            // Half of the least value: a gap is added to it.
            *stream = [end.max(i64::MIN / 2); MODELS];
        }
        let first = part.nodes.start;
        self.next_bound = self
            .graph
            .bounds
            .partition_point(|bound| (bound.node as usize) < first);
        let changed = &self.changes.nodes;
        self.next_change = changed.partition_point(|(node, _)| (*node as usize) < first);
        for node in part.nodes.clone() {
            self.walk_node(node);
        }
    }

    fn walk_node(&mut self, node: usize) {
        let graph = self.graph;
        let segment = graph.nodes.segment[node] as usize;
        let thread = graph.segments.thread[segment].0 as usize;
        let mut begin = self.threads[thread];
        for (begin, before) in begin.iter_mut().zip(self.changes.before[node]) {
            *begin += before;
        }
        let mut own_end = begin;
        for work in graph.launched_by(segment..segment + 1) {
            self.launch_work(segment, work, &begin, &mut own_end);
        }
        let changes = self.changes.nodes.get(self.next_change);
        let changed = changes.filter(|(changed, _)| *changed as usize == node);
        let end = self.end_of_node(node, &begin, &own_end, changed.map(|(_, changed)| *changed));
        self.next_change += usize::from(changed.is_some());
        self.threads[thread] = end;
        while let Some(bound) = graph.bounds.get(self.next_bound)
            && bound.node as usize == node
        {
            let (times, value) = if bound.is_begin {
                (&mut self.windows.begins, begin)
            } else {
                (&mut self.windows.ends, end)
            };
            times[bound.window as usize] = value;
            self.next_bound += 1;
        }
    }

    fn launch_work(
        &mut self,
        segment: usize,
        work: usize,
        begin: &Times<MODELS>,
        own_end: &mut Times<MODELS>,
    ) {
        let graph = self.graph;
        let one = &graph.work[work];
        let tail = &mut self.streams[one.stream as usize];
        let marks = self.changes.work[work];
        if marks & DROPPED != 0 {
            for model in 0..MODELS {
                self.work[work][model] = tail[model].max(begin[model]);
            }
            return;
        }
        let duration = match self.changes.durations.get(work) {
            Some(&duration) => duration,
            None => one.duration,
        };
        let delay = if self.changes.is_alone { 0 } else { one.delay };
        let is_ordered = one.after != NO_WORK && marks & UNORDERED == 0;
        let window = graph.window_of_work[work];
        let mut ends = [0; MODELS];
        for model in 0..MODELS {
            let reading = self.models[model];
            let (latency, gap) = if reading.with_constants {
                graph.typical_times(segment, work)
            } else {
                (one.latency, one.gap)
            };
            let launched = begin[model] + reading.without_cost(latency);
            let mut start = launched.max(tail[model] + gap);
            if is_ordered {
                start = start.max(self.work[one.after as usize][model]);
            }
            let end = start + delay + duration;
            ends[model] = end;
            tail[model] = tail[model].max(end);
            own_end[model] = own_end[model].max(end);
        }
        self.work[work] = ends;
        if window != NO_WINDOW {
            let last = &mut self.windows.device_ends[window as usize];
            for model in 0..MODELS {
                last[model] = last[model].max(ends[model]);
            }
        }
    }

    fn end_of_node(
        &self,
        node: usize,
        begin: &Times<MODELS>,
        own_end: &Times<MODELS>,
        changed: Option<SegmentChange>,
    ) -> Times<MODELS> {
        let graph = self.graph;
        let segment = graph.nodes.segment[node] as usize;
        let (wait, tail) = graph.waits[node];
        let mut ends = *begin;
        let is_limited = changed.is_some_and(|changed| changed.most.is_some());
        if is_limited || wait == CallWait::No {
            for (end, model) in ends.iter_mut().zip(self.models) {
                let time = graph.own_time(segment, model);
                *end += changed.map_or(time, |changed| changed.changed_time(time));
            }
            return ends;
        }
        let until = match wait {
            _ if changed.is_some_and(|changed| changed.is_unwaited) => *begin,
            CallWait::No | CallWait::Own => *own_end,
            CallWait::Device => self.device_end().unwrap_or(*begin),
            CallWait::Stream(stream) => self.streams[stream as usize],
            CallWait::DeviceWork(work) => self.work[work as usize],
        };
        for model in 0..MODELS {
            ends[model] = until[model].max(begin[model]) + self.models[model].without_cost(tail);
        }
        ends
    }

    /// When all streams have done what was launched so far.
    fn device_end(&self) -> Option<Times<MODELS>> {
        let (first, rest) = self.streams.split_first()?;
        let mut ends = *first;
        for stream in rest {
            for model in 0..MODELS {
                ends[model] = ends[model].max(stream[model]);
            }
        }
        Some(ends)
    }
}

impl Graph {
    /// How long each window takes with a change, ns, in the order of time, under each model.
    pub fn replay<const MODELS: usize>(
        &self,
        models: [ReplayModel; MODELS],
        edit: &Edit,
    ) -> [Vec<i64>; MODELS] {
        Replay::of_windows(self, models, (0..self.windows.len()).collect()).window_times(&[edit])
    }

    /// What a segment takes that does not wait.
    #[inline]
    fn own_time(&self, segment: usize, model: ReplayModel) -> i64 {
        let duration = self.segments.duration[segment];
        if self.segments.is_marked[segment] {
            model.without_cost(duration)
        } else {
            duration
        }
    }

    /// How long each window took in the recording, as [`replay`](Self::replay) measures it.
    pub fn recorded_lengths(&self) -> Vec<i64> {
        let mut windows = WindowTimes::<1>::new(self.windows.len());
        for bound in &self.bounds {
            let (segment, window) = (bound.segment as usize, bound.window as usize);
            let start = self.segments.start[segment];
            if bound.is_begin {
                windows.begins[window] = [start];
            } else {
                windows.ends[window] = [start + self.segments.duration[segment]];
            }
        }
        for (work, &window) in self.work.iter().zip(&self.window_of_work) {
            if window != NO_WINDOW {
                let last = &mut windows.device_ends[window as usize][0];
                *last = (*last).max(DeviceWork::end(work));
            }
        }
        windows.lengths(self, 0)
    }

    /// Latency and gap that work of its kind usually has.
    fn typical_times(&self, segment: usize, work: usize) -> (i64, i64) {
        let launched = self.launched_by(segment..segment + 1);
        let gap = if work > launched.start {
            self.typical.node_gap
        } else {
            self.typical.gap
        };
        let latency = if launched.len() > 1 {
            self.typical.graph_latency
        } else {
            self.typical.latency
        };
        (latency, gap)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_rounded_as_floats_are(whole in -1_000_000_i64..1_000_000, part in 0_u32..8, any in any::<f64>()) {
            for value in [whole as f64 + f64::from(part) / 8.0, 0.5 - f64::EPSILON / 4.0, any] {
                prop_assert_eq!(round_half_away(value), value.round() as i64);
            }
        }
    }
}
