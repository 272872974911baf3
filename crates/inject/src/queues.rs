//! What threads of the target hand to ours: bounded, and what finds no room is counted.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Records that come one by one.
pub(crate) struct Notes {
    bytes: Mutex<Vec<u8>>,
    most_bytes: usize,
    dropped: AtomicU64,
}

impl Notes {
    /// Takes records until there are so many bytes.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self {
            bytes: Mutex::new(Vec::new()),
            most_bytes,
            dropped: AtomicU64::new(0),
        }
    }

    /// Adds the record that `put` writes, or drops it.
    pub(crate) fn add(&self, put: impl FnOnce(&mut Vec<u8>)) {
        let Ok(mut bytes) = self.bytes.lock() else {
            return;
        };
        if bytes.len() < self.most_bytes {
            put(&mut bytes);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The records since the last time, and how many were dropped.
    pub(crate) fn take(&self) -> (Vec<u8>, u64) {
        let bytes = self.bytes.lock().map(|mut all| std::mem::take(&mut *all));
        (
            bytes.unwrap_or_default(),
            self.dropped.swap(0, Ordering::Relaxed),
        )
    }
}

/// Records that a thread gathered, those of one thread in their order.
pub(crate) struct Chunks {
    queue: Mutex<Vec<Vec<u8>>>,
    most: usize,
    dropped: AtomicU64,
}

impl Chunks {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            queue: Mutex::new(Vec::new()),
            most,
            dropped: AtomicU64::new(0),
        }
    }

    pub(crate) fn add(&self, chunk: Vec<u8>) {
        let Ok(mut queue) = self.queue.lock() else {
            return;
        };
        if queue.len() < self.most {
            queue.push(chunk);
        } else {
            let events = llmprof_wire::Reader::records(&chunk, 0).count() as u64;
            self.count_dropped(events);
        }
    }

    /// Records were dropped before they were in a chunk.
    pub(crate) fn count_dropped(&self, records: u64) {
        self.dropped.fetch_add(records, Ordering::Relaxed);
    }

    /// The chunks since the last time, and how many records were dropped.
    pub(crate) fn take(&self) -> (Vec<Vec<u8>>, u64) {
        let queue = self.queue.lock().map(|mut all| std::mem::take(&mut *all));
        (
            queue.unwrap_or_default(),
            self.dropped.swap(0, Ordering::Relaxed),
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use llmprof_wire::Checkpoint;

    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_once() {
        let record = |out: &mut Vec<u8>| Checkpoint { time: 1 }.put(out);
        let notes = Notes::new(1);
        (0..3).for_each(|_| notes.add(record));
        let (bytes, dropped) = notes.take();
        assert_eq!(llmprof_wire::Reader::records(&bytes, 0).count(), 1);
        assert_eq!((dropped, notes.take()), (2, (Vec::new(), 0)));

        let chunks = Chunks::new(2);
        let mut chunk = Vec::new();
        (0..5).for_each(|_| record(&mut chunk));
        (0..3).for_each(|_| chunks.add(chunk.clone()));
        chunks.count_dropped(7);
        let (taken, dropped) = chunks.take();
        assert_eq!((taken.len(), dropped), (2, 5 + 7));
        assert_eq!(chunks.take(), (Vec::new(), 0));
    }
}
