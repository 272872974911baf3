//! The dependency graph of a trace as flat arrays.

use llmprof_record::trace::ThreadId;

use super::segments::{NO_ROW, Nesting, Segments};
use super::windows::Window;

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
