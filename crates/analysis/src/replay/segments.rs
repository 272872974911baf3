//! Host threads as sequences of segments: time in which one recorded event, or none, is the innermost.

use llmprof_record::trace::{HostKind, Hosts, ThreadId};

/// No host row: a gap between recorded events.
pub(crate) const NO_ROW: u32 = u32::MAX;

/// Segments of all threads, thread by thread, each thread in order of time.
#[derive(Debug, Default)]
pub(super) struct Segments {
    pub(super) start: Vec<i64>,
    pub(super) duration: Vec<i64>,
    /// The innermost row; [`NO_ROW`] in a gap.
    pub(super) row: Vec<u32>,
    pub(super) thread: Vec<ThreadId>,
    /// Whether it ends at the begin or end of a recorded event, which cost the profiler time: half of a segment's event each.
    pub(super) is_marked: Vec<bool>,
}

/// How rows nest, and the segments that lie in each.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    /// The enclosing row; [`NO_ROW`] at the top.
    pub(super) parent: Vec<u32>,
    /// The first row after the subtree.
    pub(super) subtree_end: Vec<u32>,
    pub(super) first_segment: Vec<u32>,
    pub(super) segment_end: Vec<u32>,
}

/// Whether a row is part of what a thread did. Rows of the profiler's own work lie on threads of their own.
fn is_activity(kind: HostKind) -> bool {
    kind != HostKind::OVERHEAD
}

impl Segments {
    /// Cuts threads into segments, also at the times `cuts`, which are sorted.
    pub(super) fn of(hosts: &Hosts, cuts: &[i64]) -> (Self, Nesting) {
        let rows = hosts.len();
        let mut nesting = Nesting {
            parent: vec![NO_ROW; rows],
            subtree_end: (1..=rows as u32).collect(),
            first_segment: vec![0; rows],
            segment_end: vec![0; rows],
        };
        let mut walk = Walk {
            segments: Self::default(),
            cuts,
            stack: Vec::new(),
            cursor: 0,
            thread: None,
        };
        for row in 0..rows {
            if !is_activity(hosts.kind[row]) {
                let here = walk.segments.start.len() as u32;
                (nesting.first_segment[row], nesting.segment_end[row]) = (here, here);
                continue;
            }
            let (start, duration) = (hosts.start[row], hosts.duration[row]);
            if walk.thread != Some(hosts.thread[row]) {
                walk.leave(i64::MAX, row, &mut nesting);
                (walk.thread, walk.cursor) = (Some(hosts.thread[row]), start);
            }
            walk.leave(start, row, &mut nesting);
            walk.emit(start);
            nesting.parent[row] = walk.stack.last().map_or(NO_ROW, |open| open.row);
            nesting.first_segment[row] = walk.segments.start.len() as u32;
            // A row that outlasts the one that holds it ends with it.
            let outer = walk.stack.last().map_or(i64::MAX, |open| open.end);
            walk.stack.push(Open {
                row: row as u32,
                end: start.saturating_add(duration).min(outer),
            });
        }
        walk.leave(i64::MAX, rows, &mut nesting);
        (walk.segments, nesting)
    }
}

struct Open {
    row: u32,
    end: i64,
}

struct Walk<'a> {
    segments: Segments,
    cuts: &'a [i64],
    stack: Vec<Open>,
    cursor: i64,
    thread: Option<ThreadId>,
}

impl Walk<'_> {
    /// Closes rows that end by `time`; `next` is the first row after them.
    fn leave(&mut self, time: i64, next: usize, nesting: &mut Nesting) {
        while let Some(open) = self.stack.last() {
            if open.end > time {
                break;
            }
            let (row, end) = (open.row as usize, open.end);
            self.emit(end);
            self.stack.pop();
            nesting.subtree_end[row] = next as u32;
            nesting.segment_end[row] = self.segments.start.len() as u32;
        }
    }

    /// Adds the time up to `end` as a segment of the innermost open row.
    fn emit(&mut self, end: i64) {
        let row = self.stack.last().map_or(NO_ROW, |open| open.row);
        let first = self.cuts.partition_point(|&cut| cut <= self.cursor);
        let inside = self.cuts[first..].iter().take_while(|&&cut| cut < end);
        for (cut, is_marked) in inside.map(|&cut| (cut, false)).chain([(end, true)]) {
            if cut > self.cursor {
                let segments = &mut self.segments;
                segments.start.push(self.cursor);
                segments.duration.push(cut - self.cursor);
                segments.row.push(row);
                segments.thread.extend(self.thread);
                segments.is_marked.push(is_marked);
                self.cursor = cut;
            }
        }
    }
}
