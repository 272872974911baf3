//! What one thread has open, and what of it is to be written.

use llmprof_wire::Push;

use crate::queues::Chunks;
use crate::sys::Bell;

/// Bytes that a thread gathers before it hands them over.
const CHUNK: usize = 128 << 10;

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) open: Vec<Open>,
    /// Ranges beyond the deepest that are open.
    pub(crate) deeper: u64,
    /// The names of open ranges, one after the other.
    pub(crate) names: Vec<u8>,
    /// Records that are not handed over yet.
    pub(crate) out: Vec<u8>,
}

pub(crate) struct Open {
    pub(crate) domain: u32,
    pub(crate) time: i64,
    pub(crate) name: std::ops::Range<usize>,
    pub(crate) is_written: bool,
    /// A domain's range may end before one of another domain that began later; it stays until it is the last.
    pub(crate) is_over: bool,
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
