//! The memory that CUPTI records into: handed out empty, handed back full, read by our thread, used again.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sys::Bell;

/// CUPTI wants 8; a page keeps buffers of different threads apart.
const ALIGNMENT: usize = 4096;

/// How many empty buffers are kept ready, touched, so that no thread of the target waits for the system.
const READY: usize = 4;

/// A buffer that CUPTI is done with.
pub(crate) struct Full {
    /// Where it is.
    pub(crate) memory: *mut u8,
    /// How many bytes of it are records.
    pub(crate) valid: usize,
    /// The context that CUPTI named with it, for asking about lost records.
    pub(crate) context: *mut libc::c_void,
    /// Likewise the stream.
    pub(crate) stream: u32,
}

// SAFETY: the memory belongs to whoever holds the value.
unsafe impl Send for Full {}

struct Empty(Vec<*mut u8>);

// SAFETY: as above.
unsafe impl Send for Empty {}

/// All buffers.
pub(crate) struct Buffers {
    size: usize,
    most: usize,
    made: AtomicUsize,
    empty: Mutex<Empty>,
    full: Mutex<VecDeque<Full>>,
    /// Requests that could not be met; CUPTI drops records then and counts them.
    pub(crate) refused: AtomicU64,
}

impl Buffers {
    /// Buffers of `size` bytes, of which there may be `total` bytes.
    pub(crate) fn new(size: usize, total: usize) -> Self {
        Self {
            size,
            most: (total / size).max(2),
            made: AtomicUsize::new(0),
            empty: Mutex::new(Empty(Vec::new())),
            full: Mutex::new(VecDeque::new()),
            refused: AtomicU64::new(0),
        }
    }

    fn layout(&self) -> Option<Layout> {
        Layout::from_size_align(self.size, ALIGNMENT).ok()
    }

    fn make(&self) -> Option<*mut u8> {
        if self.made.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.made.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc(self.layout()?) };
        (!memory.is_null()).then_some(memory)
    }

    /// An empty buffer and its size; `None` when all are in use.
    pub(crate) fn take(&self) -> Option<(*mut u8, usize)> {
        let ready = self.empty.lock().ok().and_then(|mut empty| empty.0.pop());
        let memory = ready.or_else(|| self.make());
        if memory.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        memory.map(|memory| (memory, self.size))
    }

    /// CUPTI is done with a buffer. Rings when there is something to read.
    pub(crate) fn put_full(&self, full: Full, bell: &Bell) {
        if full.valid == 0 {
            self.put_empty(full.memory);
            return;
        }
        if let Ok(mut queue) = self.full.lock() {
            queue.push_back(full);
        }
        bell.ring();
    }

    /// The next buffer to read.
    pub(crate) fn next_full(&self) -> Option<Full> {
        self.full.lock().ok()?.pop_front()
    }

    /// A buffer that was read is free again.
    pub(crate) fn put_empty(&self, memory: *mut u8) {
        let kept = self.empty.lock().is_ok_and(|mut empty| {
            let room = empty.0.len() < READY * 4;
            if room {
                empty.0.push(memory);
            }
            room
        });
        if !kept && let Some(layout) = self.layout() {
            self.made.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: it was allocated with this layout, and nobody else holds it.
            unsafe { dealloc(memory, layout) };
        }
    }

    /// Makes a few ready and touches their pages, away from the target's threads.
    pub(crate) fn prepare(&self) {
        while self
            .empty
            .lock()
            .is_ok_and(|empty| empty.0.len() < READY.min(self.most / 2))
        {
            let Some(memory) = self.make() else { return };
            // SAFETY: the buffer is ours and has `size` bytes.
            unsafe { memory.write_bytes(0, self.size) };
            self.put_empty(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_run_out() {
        let bell = Bell::new().unwrap();
        let buffers = Buffers::new(4096, 3 * 4096);
        let taken: Vec<_> = (0..3).map(|_| buffers.take().unwrap()).collect();
        assert!(buffers.take().is_none());
        assert_eq!(buffers.refused.load(Ordering::Relaxed), 1);
        for (index, (memory, size)) in taken.into_iter().enumerate() {
            assert_eq!(size, 4096);
            let full = Full {
                memory,
                valid: index * 8,
                context: std::ptr::null_mut(),
                stream: 0,
            };
            buffers.put_full(full, &bell);
        }
        // The one without records was free at once.
        assert!(buffers.take().is_some());
        assert!(buffers.take().is_none());
        assert_eq!(buffers.next_full().unwrap().valid, 8);
        let second = buffers.next_full().unwrap();
        assert_eq!(second.valid, 16);
        assert!(buffers.next_full().is_none());
        buffers.put_empty(second.memory);
        assert!(buffers.take().is_some());
    }

    #[test]
    fn preparing_stays_within_the_limit() {
        let buffers = Buffers::new(4096, 4 * 4096);
        buffers.prepare();
        let taken = std::iter::from_fn(|| buffers.take()).count();
        assert_eq!(taken, 4);
    }
}
