//! Host threads as sequences of segments: time in which one recorded event, or none, is the innermost.

use std::ops::Range;

use llmprof_record::trace::{HostKind, Hosts, ThreadId};

use super::windows::HostWindow;
use crate::timeline::launches::is_api;

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

/// How rows nest, and the segments that lie in each. Rows that reach into no part have zeros: pages of zeros that nobody writes take
/// no memory, and parts are little of a long recording.
#[derive(Debug, Default)]
pub(super) struct RowNesting {
    /// The enclosing row and 1; 0 at the top.
    parent: Vec<u32>,
    /// The outermost operator or API call around a row, or the row itself, and 1; 0 where there is none.
    top: Vec<u32>,
    /// How many rows lie inside.
    inner_rows: Vec<u32>,
    first_segment: Vec<u32>,
    segment_end: Vec<u32>,
}

impl RowNesting {
    fn of_rows(rows: usize) -> Self {
        Self {
            parent: vec![0; rows],
            top: vec![0; rows],
            inner_rows: vec![0; rows],
            first_segment: vec![0; rows],
            segment_end: vec![0; rows],
        }
    }

    pub(super) fn parent_row(&self, row: usize) -> Option<usize> {
        self.parent[row].checked_sub(1).map(|row| row as usize)
    }

    pub(super) fn top_row(&self, row: usize) -> Option<usize> {
        self.top[row].checked_sub(1).map(|row| row as usize)
    }

    /// The first row after those inside.
    pub(super) fn subtree_end(&self, row: usize) -> usize {
        row + 1 + self.inner_rows[row] as usize
    }

    pub(super) fn segments_of_row(&self, row: usize) -> Range<usize> {
        let first = self.first_segment[row] as usize;
        first..(self.segment_end[row] as usize).max(first)
    }
}

pub(crate) fn is_op_or_call(kind: HostKind) -> bool {
    kind == HostKind::OPERATOR || is_api(kind)
}

/// Whether a row is part of what a thread did. Rows of the profiler's own work lie on threads of their own.
fn is_activity(kind: HostKind) -> bool {
    kind != HostKind::OVERHEAD
}

impl Segments {
    /// Cuts the time of threads inside of `parts` into segments: where rows begin and end, and at `cuts`, which are sorted and hold the
    /// bounds of `parts`.
    pub(super) fn of_threads(
        hosts: &Hosts,
        cuts: &[i64],
        parts: &[HostWindow],
    ) -> (Self, RowNesting) {
        let rows = hosts.len();
        let mut nesting = RowNesting::of_rows(rows);
        let mut walk = SegmentWalk {
            segments: Self::default(),
            cuts,
            next_cut: 0,
            parts,
            next_part: 0,
            stack: Vec::new(),
            cursor: 0,
            thread: None,
        };
        // The first part that ends after the row begins.
        let mut next_part = 0;
        for row in 0..rows {
            if !is_activity(hosts.kind[row]) {
                continue;
            }
            let (start, duration) = (hosts.start[row], hosts.duration[row]);
            if walk.thread != Some(hosts.thread[row]) {
                walk.close_rows(i64::MAX, row, &mut nesting);
                (walk.thread, walk.cursor) = (Some(hosts.thread[row]), start);
                (walk.next_cut, walk.next_part, next_part) = (0, 0, 0);
            }
            walk.close_rows(start, row, &mut nesting);
            walk.push_segment(start);
            while parts.get(next_part).is_some_and(|part| part.end <= start) {
                next_part += 1;
            }
            let is_before =
                |part: &HostWindow| start.max(start.saturating_add(duration - 1)) < part.start;
            if parts.get(next_part).is_none_or(is_before) {
                continue;
            }
            if let Some(open) = walk.stack.last() {
                nesting.parent[row] = open.row + 1;
                nesting.top[row] = nesting.top[open.row as usize];
            }
            if nesting.top[row] == 0 && is_op_or_call(hosts.kind[row]) {
                nesting.top[row] = row as u32 + 1;
            }
            nesting.first_segment[row] = walk.segments.start.len() as u32;
            // A row that outlasts the one that holds it ends with it.
            let outer = walk.stack.last().map_or(i64::MAX, |open| open.end);
            walk.stack.push(OpenRow {
                row: row as u32,
                end: start.saturating_add(duration).min(outer),
            });
        }
        walk.close_rows(i64::MAX, rows, &mut nesting);
        (walk.segments, nesting)
    }
}

struct OpenRow {
    row: u32,
    end: i64,
}

struct SegmentWalk<'a> {
    segments: Segments,
    cuts: &'a [i64],
    /// The first cut after the cursor.
    next_cut: usize,
    parts: &'a [HostWindow],
    /// The first part that ends after the cursor.
    next_part: usize,
    stack: Vec<OpenRow>,
    cursor: i64,
    thread: Option<ThreadId>,
}

impl SegmentWalk<'_> {
    /// Closes rows that end by `time`; `next` is the first row after them.
    fn close_rows(&mut self, time: i64, next: usize, nesting: &mut RowNesting) {
        while let Some(open) = self.stack.last() {
            if open.end > time {
                break;
            }
            let (row, end) = (open.row as usize, open.end);
            self.push_segment(end);
            self.stack.pop();
            nesting.inner_rows[row] = (next - row - 1) as u32;
            nesting.segment_end[row] = self.segments.start.len() as u32;
        }
    }

    /// Adds the time up to `end` as a segment of the innermost open row.
    fn push_segment(&mut self, end: i64) {
        let row = self.stack.last().map_or(NO_ROW, |open| open.row);
        while self.cursor < end {
            while self
                .cuts
                .get(self.next_cut)
                .is_some_and(|&cut| cut <= self.cursor)
            {
                self.next_cut += 1;
            }
            let cut = self
                .cuts
                .get(self.next_cut)
                .map_or(end, |cut| end.min(*cut));
            if self.is_in_part() {
                let segments = &mut self.segments;
                segments.start.push(self.cursor);
                segments.duration.push(cut - self.cursor);
                segments.row.push(row);
                segments.thread.extend(self.thread);
                segments.is_marked.push(cut == end);
            }
            self.cursor = cut;
        }
    }

    fn is_in_part(&mut self) -> bool {
        while self
            .parts
            .get(self.next_part)
            .is_some_and(|part| part.end <= self.cursor)
        {
            self.next_part += 1;
        }
        let part = self.parts.get(self.next_part);
        part.is_some_and(|part| part.start <= self.cursor)
    }
}
