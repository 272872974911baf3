//! Bounded queues from the target's threads to ours; records that find no room are counted.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Records that come one by one.
pub(crate) struct Notes {
    bytes: Mutex<Vec<u8>>,
    most_bytes: usize,
    dropped: AtomicU64,
}

impl Notes {
    /// Holds up to `most_bytes` bytes of records.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self {
            bytes: Mutex::new(Vec::new()),
            most_bytes,
            dropped: AtomicU64::new(0),
        }
    }

    /// Adds the record that `put` writes; drops it if the queue is full.
    pub(crate) fn add_note(&self, put: impl FnOnce(&mut Vec<u8>)) {
        let Ok(mut bytes) = self.bytes.lock() else {
            return;
        };
        if bytes.len() < self.most_bytes {
            put(&mut bytes);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The records since the last call, and how many were dropped.
    pub(crate) fn take_notes(&self) -> (Vec<u8>, u64) {
        let bytes = self.bytes.lock().map(|mut all| std::mem::take(&mut *all));
        (
            bytes.unwrap_or_default(),
            self.dropped.swap(0, Ordering::Relaxed),
        )
    }
}

/// Chunks of records; those of one thread are in order.
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

    pub(crate) fn add_chunk(&self, chunk: Vec<u8>) {
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

    /// Counts records that were dropped before they were in a chunk.
    pub(crate) fn count_dropped(&self, records: u64) {
        self.dropped.fetch_add(records, Ordering::Relaxed);
    }

    /// The chunks since the last call, and how many records were dropped.
    pub(crate) fn take_chunks(&self) -> (Vec<Vec<u8>>, u64) {
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
        (0..3).for_each(|_| notes.add_note(record));
        let (bytes, dropped) = notes.take_notes();
        assert_eq!(llmprof_wire::Reader::records(&bytes, 0).count(), 1);
        assert_eq!((dropped, notes.take_notes()), (2, (Vec::new(), 0)));

        let chunks = Chunks::new(2);
        let mut chunk = Vec::new();
        (0..5).for_each(|_| record(&mut chunk));
        (0..3).for_each(|_| chunks.add_chunk(chunk.clone()));
        chunks.count_dropped(7);
        let (taken, dropped) = chunks.take_chunks();
        assert_eq!((taken.len(), dropped), (2, 5 + 7));
        assert_eq!(chunks.take_chunks(), (Vec::new(), 0));
    }
}
