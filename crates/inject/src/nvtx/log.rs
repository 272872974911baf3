//! The open ranges of one thread and its records that are not written yet.

use llmprof_wire::{Mark, Pop, Push};

use crate::queues::Chunks;
use crate::sys::Bell;

/// A thread hands its records over when it has this many bytes.
const CHUNK_BYTES: usize = 128 << 10;

/// Limit of nested open ranges on a thread; deeper ones are not recorded.
const OPEN_RANGES_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct Log {
    open: Vec<OpenPush>,
    /// Number of open ranges that are nested deeper than [`OPEN_RANGES_MAX`].
    deeper: u64,
    /// The names of the open ranges, concatenated.
    names: Vec<u8>,
    /// Records not handed over yet.
    out: Vec<u8>,
}

struct OpenPush {
    domain: u32,
    time: i64,
    name: std::ops::Range<usize>,
    is_written: bool,
    /// Ended, but a range of another domain that began later is still open; removed when it is the last.
    is_over: bool,
    /// How often recording had been switched when it began.
    changes: u64,
}

pub(crate) struct Ended<'a> {
    pub(crate) name: &'a [u8],
    /// Begin and end of the range in ns.
    pub(crate) time: (i64, i64),
    /// How often recording had been switched when it began.
    pub(crate) changes: u64,
}

impl Log {
    /// Clears the log of a thread that has ended; false while it has records to hand over.
    pub(super) fn clear_if_flushed(&mut self) -> bool {
        let is_empty = self.out.is_empty();
        if is_empty {
            *self = Self::default();
        }
        is_empty
    }

    pub(super) fn hand_over(&mut self, chunks: &Chunks) {
        if !self.out.is_empty() {
            chunks.add_chunk(std::mem::take(&mut self.out));
        }
    }

    /// Hands the records over if there are at least [`CHUNK_BYTES`].
    pub(crate) fn hand_over_much(&mut self, chunks: &Chunks, bell: &Bell) {
        if self.out.len() >= CHUNK_BYTES {
            self.hand_over(chunks);
            bell.ring();
        }
    }

    /// A range begins; returns how many were open before, `None` if there are too many.
    pub(crate) fn begin_range(
        &mut self,
        domain: u32,
        name: &[u8],
        time: i64,
        changes: u64,
    ) -> Option<usize> {
        let depth = self.open.len();
        if depth >= OPEN_RANGES_MAX {
            self.deeper += 1;
            return None;
        }
        let begin = self.names.len();
        self.names.extend_from_slice(name);
        self.open.push(OpenPush {
            domain,
            time,
            name: begin..self.names.len(),
            is_written: false,
            is_over: false,
            changes,
        });
        Some(depth)
    }

    /// The innermost range of a domain ends; returns the result of `look` and how many are left, `None` if none is open.
    pub(crate) fn end_range<T>(
        &mut self,
        (thread, domain): (u32, u32),
        time: i64,
        look: impl FnOnce(&Ended<'_>) -> T,
    ) -> Option<(T, usize)> {
        if self.deeper > 0 {
            self.deeper -= 1;
            return None;
        }
        let is_it = |open: &OpenPush| open.domain == domain && !open.is_over;
        let index = self.open.iter().rposition(is_it)?;
        let open = &mut self.open[index];
        open.is_over = true;
        let seen = look(&Ended {
            name: &self.names[open.name.clone()],
            time: (open.time, time),
            changes: open.changes,
        });
        if open.is_written {
            let record = Pop {
                time,
                thread,
                domain,
            };
            record.put(&mut self.out);
        }
        while self.open.last().is_some_and(|open| open.is_over) {
            let begin = self.open.pop().map_or(0, |open| open.name.start);
            self.names.truncate(begin);
        }
        Some((seen, self.open.len()))
    }

    /// A moment with a name.
    pub(crate) fn write_mark(&mut self, mark: &Mark<'_>) {
        mark.put(&mut self.out);
    }

    /// Writes the begins of open ranges that are not written yet.
    pub(super) fn write_open(&mut self, thread: u32) {
        for index in 0..self.open.len() {
            if !self.open[index].is_written && !self.open[index].is_over {
                self.write_push(index, thread);
            }
        }
    }

    /// Domain and name of the ranges that are open, outermost first.
    pub(super) fn open_ranges(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let open = self.open.iter().filter(|open| !open.is_over);
        open.map(|open| (open.domain, &self.names[open.name.clone()]))
    }

    pub(crate) fn write_push(&mut self, index: usize, thread: u32) {
        let open = &mut self.open[index];
        open.is_written = true;
        let record = Push {
            time: open.time,
            thread,
            domain: open.domain,
            text: &self.names[open.name.clone()],
        };
        record.put(&mut self.out);
    }
}
