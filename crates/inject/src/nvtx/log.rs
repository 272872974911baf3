//! What one thread has open, and what of it is to be written.

use llmprof_wire::{Mark, Pop, Push};

use crate::queues::Chunks;
use crate::sys::Bell;

/// Bytes that a thread gathers before it hands them over.
const CHUNK: usize = 128 << 10;

/// Ranges a thread may have open; those inside are not recorded.
const DEEPEST: usize = 4096;

#[derive(Default)]
pub(crate) struct Log {
    open: Vec<Open>,
    /// Ranges beyond [`DEEPEST`] that are open.
    deeper: u64,
    /// The names of open ranges, one after the other: the last ends where this does.
    names: Vec<u8>,
    /// Records that are not handed over yet.
    out: Vec<u8>,
}

struct Open {
    domain: u32,
    time: i64,
    name: std::ops::Range<usize>,
    is_written: bool,
    /// A domain's range may end before one of another domain that began later; it stays until it is the last.
    is_over: bool,
    /// How often recording had been switched when it began.
    changes: u64,
}

/// A range that ends.
pub(crate) struct Ended<'a> {
    pub(crate) name: &'a [u8],
    /// Its begin and its end.
    pub(crate) time: (i64, i64),
    /// How often recording had been switched when it began.
    pub(crate) changes: u64,
}

impl Log {
    /// Forgets what a thread had open that is gone; false while there is something to hand over.
    pub(super) fn clear(&mut self) -> bool {
        let is_empty = self.out.is_empty();
        if is_empty {
            *self = Self::default();
        }
        is_empty
    }

    pub(super) fn hand_over(&mut self, chunks: &Chunks) {
        if !self.out.is_empty() {
            chunks.add(std::mem::take(&mut self.out));
        }
    }

    /// Hands over what was gathered where it is much.
    pub(crate) fn hand_over_much(&mut self, chunks: &Chunks, bell: &Bell) {
        if self.out.len() >= CHUNK {
            self.hand_over(chunks);
            bell.ring();
        }
    }

    /// A range begins. The answer is how many were open before; none where those are too many.
    pub(crate) fn begin(
        &mut self,
        domain: u32,
        name: &[u8],
        time: i64,
        changes: u64,
    ) -> Option<usize> {
        let depth = self.open.len();
        if depth >= DEEPEST {
            self.deeper += 1;
            return None;
        }
        let begin = self.names.len();
        self.names.extend_from_slice(name);
        self.open.push(Open {
            domain,
            time,
            name: begin..self.names.len(),
            is_written: false,
            is_over: false,
            changes,
        });
        Some(depth)
    }

    /// The innermost range of a domain ends. The answer is what `look` says of it, and how many are left; none where none is open.
    pub(crate) fn end<T>(
        &mut self,
        (thread, domain): (u32, u32),
        time: i64,
        look: impl FnOnce(&Ended<'_>) -> T,
    ) -> Option<(T, usize)> {
        if self.deeper > 0 {
            self.deeper -= 1;
            return None;
        }
        let is_it = |open: &Open| open.domain == domain && !open.is_over;
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
    pub(crate) fn mark(&mut self, mark: &Mark<'_>) {
        mark.put(&mut self.out);
    }

    /// Writes the beginnings of ranges that are open and not written.
    pub(super) fn write_open(&mut self, thread: u32) {
        for index in 0..self.open.len() {
            if !self.open[index].is_written && !self.open[index].is_over {
                self.write_push(index, thread);
            }
        }
    }

    /// Domain and name of the ranges that are open, outermost first.
    pub(super) fn open(&self) -> impl Iterator<Item = (u32, &[u8])> {
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
