//! The dependency graph of a trace as flat arrays.

use std::ops::Range;

use llmprof_record::trace::{StrId, ThreadId, Trace};

use super::api::{CallEffect, CallEffects};
use super::nodes::Nodes;
use super::parts::GraphPart;
use super::segments::{NO_ROW, RowNesting, Segments};
use super::windows::HostWindow;

/// What ends a synchronizing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallWait {
    No,
    /// All work that was launched before.
    Device,
    /// All work that was launched on a stream before.
    Stream(u32),
    DeviceWork(u32),
    /// The work that the call itself launches.
    Own,
}

/// The row of a device event in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceRow {
    Kernel(u32),
    Copy(u32),
    Memset(u32),
}

/// Device work in the order of its launches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceWork {
    pub(crate) row: DeviceRow,
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
    /// How much later it began because work of other streams ran, or another process had the device.
    pub(crate) delay: i64,
    /// Work of another stream that it follows; [`NO_WORK`] where none is known.
    pub(crate) after: u32,
    /// Whether the program launched it, rather than a thread that has nothing to do with it.
    pub(crate) is_own: bool,
}

pub(crate) const NO_WORK: u32 = u32::MAX;
/// Work that belongs to no window.
pub(super) const NO_WINDOW: u32 = u32::MAX;
/// The end of what a stream or thread did before anything that is known.
pub(super) const NOTHING_BEFORE: i64 = i64::MIN;

/// A segment that begins or ends a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowBound {
    pub(super) segment: u32,
    pub(super) node: u32,
    pub(super) window: u32,
    pub(super) is_begin: bool,
}

impl DeviceWork {
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
    pub(super) nesting: RowNesting,
    pub(super) nodes: Nodes,
    pub(super) parts: Vec<GraphPart>,
    /// For each node, what it waits for and how long it takes to return after that.
    pub(super) waits: Vec<(CallWait, i64)>,
    pub(super) work: Vec<DeviceWork>,
    /// For each segment where its work begins; one more at the end.
    pub(super) first_work: Vec<u32>,
    pub(super) streams: usize,
    pub(super) threads: usize,
    pub(super) typical: Typical,
    /// The thread that runs the program: of those with recorded operators the one that launches most.
    pub(super) main: ThreadId,
    pub(super) windows: Vec<HostWindow>,
    /// By window: its segments of the program's thread.
    pub(super) window_segments: Vec<Range<usize>>,
    /// Where windows begin and end, by segment.
    pub(super) bounds: Vec<WindowBound>,
    /// By work: the window in which the program launched it; [`NO_WINDOW`] for others.
    pub(super) window_of_work: Vec<u32>,
    pub(super) apis: CallEffects,
    /// Times in which another process has the device, in order.
    pub(super) time_slices: Vec<(i64, i64)>,
}

impl Graph {
    pub fn segment_count(&self) -> usize {
        self.segments.start.len()
    }

    pub fn work_count(&self) -> usize {
        self.work.len()
    }

    /// What an API function of the graph's trace does, by its name.
    pub(crate) fn api_of(&self, trace: &Trace, name: StrId) -> CallEffect {
        self.apis.effect_of(trace, name)
    }

    pub(crate) fn work(&self) -> &[DeviceWork] {
        &self.work
    }

    pub(crate) fn time_slices(&self) -> &[(i64, i64)] {
        &self.time_slices
    }

    pub(crate) fn main_thread(&self) -> ThreadId {
        self.main
    }

    /// The rows of device work that segments launch.
    pub(crate) fn launched_by(&self, segments: Range<usize>) -> Range<usize> {
        self.first_work[segments.start] as usize..self.first_work[segments.end] as usize
    }

    /// The segments inside of a host row.
    pub(crate) fn segments_of_row(&self, row: usize) -> Range<usize> {
        self.nesting.segments_of_row(row)
    }

    pub(crate) fn parent_row(&self, row: usize) -> Option<usize> {
        self.nesting.parent_row(row)
    }

    pub(crate) fn subtree_end(&self, row: usize) -> usize {
        self.nesting.subtree_end(row)
    }

    /// The innermost host row of a segment; `None` in a gap.
    pub(crate) fn row_of_segment(&self, segment: usize) -> Option<usize> {
        Some(self.segments.row[segment])
            .filter(|&row| row != NO_ROW)
            .map(|row| row as usize)
    }

    /// The outermost operator or API call around a segment.
    pub(crate) fn top_of_segment(&self, segment: usize) -> Option<usize> {
        self.nesting.top_row(self.row_of_segment(segment)?)
    }

    pub(crate) fn segment_start(&self, segment: usize) -> i64 {
        self.segments.start[segment]
    }

    pub(crate) fn segment_duration(&self, segment: usize) -> i64 {
        self.segments.duration[segment]
    }

    pub(crate) fn wait_of(&self, segment: usize) -> CallWait {
        self.wait_and_return(segment).0
    }

    /// How long a synchronizing call waited, without the time in which it returns.
    pub(crate) fn waited_ns(&self, segment: usize) -> i64 {
        match self.wait_and_return(segment) {
            (CallWait::No, _) => 0,
            (_, tail) => (self.segments.duration[segment] - tail).max(0),
        }
    }

    fn wait_and_return(&self, segment: usize) -> (CallWait, i64) {
        let node = self.nodes.node_of(segment);
        node.map_or((CallWait::No, 0), |node| self.waits[node])
    }

    /// Segments of the program's thread that lie in a window.
    pub(crate) fn segments_in(&self, window: HostWindow) -> Range<usize> {
        let threads = &self.segments.thread;
        let first = threads.partition_point(|&thread| thread < self.main);
        let end = threads.partition_point(|&thread| thread <= self.main);
        let starts = &self.segments.start[first..end];
        let from = first + starts.partition_point(|&start| start < window.start);
        let to = first + starts.partition_point(|&start| start < window.end);
        from..to.max(from)
    }
}
