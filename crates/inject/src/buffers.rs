//! Activity buffers of CUPTI: handed out empty, handed back full, read by our thread, reused.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::VecDeque;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sys::Bell;

/// CUPTI wants 8; a page keeps buffers of different threads apart.
const ALIGNMENT: usize = 4096;

/// Empty buffers kept ready with their pages touched, so that no thread of the target waits for page faults.
const READY_BUFFERS: usize = 16;

/// A buffer that CUPTI is done with.
pub(crate) struct Full {
    pub(crate) memory: *mut u8,
    /// Bytes of records at its start.
    pub(crate) valid: usize,
    /// Context and stream as CUPTI gave them, for asking about dropped records.
    pub(crate) context: *mut libc::c_void,
    pub(crate) stream: u32,
}

// SAFETY: the memory belongs to whoever holds the value.
unsafe impl Send for Full {}

#[derive(Default)]
struct Memory(Vec<*mut u8>);

// SAFETY: as above.
unsafe impl Send for Memory {}

pub(crate) struct Buffers {
    size: usize,
    most: usize,
    made: AtomicUsize,
    empty: Mutex<Memory>,
    /// Buffers that CUPTI is using.
    out: Mutex<Memory>,
    full: Mutex<VecDeque<Full>>,
    /// Requests for a buffer that were refused; CUPTI then drops records and counts them.
    pub(crate) refused: AtomicU64,
    /// Buffers with records that were handed back after CUPTI detached and cannot be read.
    late: AtomicU64,
}

impl Buffers {
    /// Buffers of `size` bytes, `total` bytes at most.
    pub(crate) fn new(size: usize, total: usize) -> Self {
        Self {
            size,
            most: (total / size).max(2),
            made: AtomicUsize::new(0),
            empty: Mutex::new(Memory::default()),
            out: Mutex::new(Memory::default()),
            full: Mutex::new(VecDeque::new()),
            refused: AtomicU64::new(0),
            late: AtomicU64::new(0),
        }
    }

    fn buffer_layout(&self) -> Option<Layout> {
        Layout::from_size_align(self.size, ALIGNMENT).ok()
    }

    fn allocate_buffer(&self) -> Option<*mut u8> {
        // Never counts above the limit, even briefly: another thread would be refused a buffer that it may have.
        let order = Ordering::Relaxed;
        let count = |made| (made < self.most).then_some(made + 1);
        self.made.fetch_update(order, order, count).ok()?;
        // SAFETY: the size is not zero.
        let memory = self.buffer_layout().map(|layout| unsafe { alloc(layout) });
        let made = memory.filter(|memory| !memory.is_null());
        if made.is_none() {
            // A failed allocation is not counted: memory may become free again.
            self.made.fetch_sub(1, Ordering::Relaxed);
        }
        made
    }

    /// An empty buffer and its size; `None` when all are in use.
    pub(crate) fn take_empty(&self) -> Option<(*mut u8, usize)> {
        let ready = self.empty.lock().ok().and_then(|mut empty| empty.0.pop());
        let Some(memory) = ready.or_else(|| self.allocate_buffer()) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.out.lock().ok()?.0.push(memory);
        Some((memory, self.size))
    }

    /// CUPTI hands a buffer back; false if it is not one that CUPTI has from us (any more).
    pub(crate) fn is_back(&self, memory: *mut u8) -> bool {
        self.out.lock().is_ok_and(|mut out| {
            let index = out.0.iter().position(|&taken| taken == memory);
            index.map(|index| out.0.swap_remove(index)).is_some()
        })
    }

    /// Frees a buffer whose records cannot be read any more, because CUPTI has detached.
    pub(crate) fn put_late(&self, memory: *mut u8, valid: usize) {
        self.late.fetch_add(u64::from(valid > 0), Ordering::Relaxed);
        self.put_empty(memory);
    }

    /// Number of such buffers with records since the last call.
    pub(crate) fn take_late(&self) -> u64 {
        self.late.swap(0, Ordering::Relaxed)
    }

    /// Takes back the buffers that CUPTI had not handed back when it detached.
    pub(crate) fn reclaim_all(&self) {
        let left = self.out.lock().map(|mut out| std::mem::take(&mut out.0));
        for memory in left.unwrap_or_default() {
            self.put_empty(memory);
        }
    }

    pub(crate) fn is_any_out(&self) -> bool {
        self.out.lock().is_ok_and(|out| !out.0.is_empty())
    }

    pub(crate) fn has_full(&self) -> bool {
        self.full.lock().is_ok_and(|full| !full.is_empty())
    }

    /// CUPTI is done with a buffer. Wakes our thread if it has records.
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

    pub(crate) fn put_empty(&self, memory: *mut u8) {
        let kept = self.empty.lock().is_ok_and(|mut empty| {
            let room = empty.0.len() < READY_BUFFERS * 4;
            if room {
                empty.0.push(memory);
            }
            room
        });
        if !kept && let Some(layout) = self.buffer_layout() {
            self.made.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: it was allocated with this layout, and nobody else holds it.
            unsafe { dealloc(memory, layout) };
        }
    }

    /// Fills up the ready buffers and touches their pages, on our thread instead of the target's.
    pub(crate) fn prepare_ready(&self) {
        while self
            .empty
            .lock()
            .is_ok_and(|empty| empty.0.len() < READY_BUFFERS.min(self.most / 2))
        {
            let Some(memory) = self.allocate_buffer() else {
                return;
            };
            // SAFETY: the buffer is ours and has `size` bytes.
            unsafe { memory.write_bytes(0, self.size) };
            self.put_empty(memory);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_run_out() {
        let bell = Bell::new().unwrap();
        let buffers = Buffers::new(4096, 3 * 4096);
        let taken: Vec<_> = (0..3).map(|_| buffers.take_empty().unwrap()).collect();
        assert!(buffers.take_empty().is_none());
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
        // The buffer without records was free at once.
        assert!(buffers.take_empty().is_some());
        assert!(buffers.take_empty().is_none());
        assert_eq!(buffers.next_full().unwrap().valid, 8);
        let second = buffers.next_full().unwrap();
        assert_eq!(second.valid, 16);
        assert!(buffers.next_full().is_none());
        buffers.put_empty(second.memory);
        assert!(buffers.take_empty().is_some());
    }

    #[test]
    fn what_was_not_handed_back_is_reclaimed_once() {
        let buffers = Buffers::new(4096, 2 * 4096);
        let (first, _) = buffers.take_empty().unwrap();
        let (second, _) = buffers.take_empty().unwrap();
        assert!(buffers.is_back(first));
        buffers.put_late(first, 16);
        assert_eq!(buffers.take_late(), 1);
        buffers.reclaim_all();
        // Too late: the buffer is in use again, or about to be.
        assert!(!buffers.is_back(second) && !buffers.is_back(std::ptr::null_mut()));
        assert_eq!(std::iter::from_fn(|| buffers.take_empty()).count(), 2);
    }

    /// Regression: failed allocations were counted, so after enough of them no buffer was ever allocated again.
    #[test]
    fn a_failed_allocation_is_not_counted() {
        let too_large = isize::MAX as usize - 2 * ALIGNMENT;
        let buffers = Buffers::new(too_large, 0);
        for _ in 0..3 {
            assert!(buffers.take_empty().is_none());
        }
        assert_eq!(buffers.made.load(Ordering::Relaxed), 0);
        assert_eq!(buffers.refused.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn preparing_stays_within_the_limit() {
        let buffers = Buffers::new(4096, 4 * 4096);
        buffers.prepare_ready();
        let taken = std::iter::from_fn(|| buffers.take_empty()).count();
        assert_eq!(taken, 4);
    }
}

#[cfg(all(test, loom))]
mod orders {
    use std::collections::HashSet;

    use loom::{sync::Arc, thread};

    use super::*;
    use crate::sync::in_every_order;

    struct Scene {
        buffers: Buffers,
        bell: Bell,
        /// Buffers that CUPTI or our thread is using.
        held: std::sync::Mutex<HashSet<usize>>,
    }

    impl Scene {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                buffers: Buffers::new(8, 2 * 8),
                bell: Bell::new().unwrap(),
                held: std::sync::Mutex::default(),
            })
        }

        fn hold_buffer(&self, memory: *mut u8) {
            assert!(self.held.lock().unwrap().insert(memory as usize));
        }

        fn release_buffer(&self, memory: *mut u8) {
            assert!(self.held.lock().unwrap().remove(&(memory as usize)));
        }

        /// CUPTI asks for a buffer and hands it back; false if all were in use.
        fn record_once(&self) -> bool {
            let Some((memory, _)) = self.buffers.take_empty() else {
                return false;
            };
            self.hold_buffer(memory);
            thread::yield_now();
            self.release_buffer(memory);
            assert!(self.buffers.is_back(memory));
            let full = Full {
                memory,
                valid: 8,
                context: std::ptr::null_mut(),
                stream: 0,
            };
            self.buffers.put_full(full, &self.bell);
            true
        }

        /// Our thread reads all full buffers; returns their number.
        fn read_full(&self) -> usize {
            let read = std::iter::from_fn(|| self.buffers.next_full()).map(|full| {
                self.hold_buffer(full.memory);
                thread::yield_now();
                self.release_buffer(full.memory);
                self.buffers.put_empty(full.memory);
            });
            read.count()
        }

        fn count_free(&self) -> usize {
            assert!(!self.buffers.is_any_out() && !self.buffers.has_full());
            self.buffers.empty.lock().unwrap().0.len()
        }
    }

    #[test]
    fn no_buffer_is_lost_or_has_two_users() {
        in_every_order(|| {
            let scene = Scene::new();
            let writers = [2, 1].map(|times| {
                let scene = scene.clone();
                thread::spawn(move || (0..times).filter(|_| scene.record_once()).count())
            });
            let mut read = scene.read_full();
            let written: usize = writers.map(|writer| writer.join().unwrap()).iter().sum();
            read += scene.read_full();
            let refused = scene.buffers.refused.load(Ordering::Relaxed) as usize;
            assert_eq!((read, written + refused), (written, 3));
            let made = scene.buffers.made.load(Ordering::Relaxed);
            assert_eq!(scene.count_free(), made);
            assert!(made <= 2);
        });
    }

    /// CUPTI detaches while it hands a buffer back and our thread prepares others.
    #[test]
    fn a_buffer_is_handed_back_or_reclaimed_and_never_both() {
        in_every_order(|| {
            let scene = Scene::new();
            let (memory, _) = scene.buffers.take_empty().unwrap();
            let address = memory as usize;
            let cupti = {
                let scene = scene.clone();
                thread::spawn(move || {
                    let memory = address as *mut u8;
                    if scene.buffers.is_back(memory) {
                        scene.buffers.put_late(memory, 8);
                    }
                })
            };
            let ours = {
                let scene = scene.clone();
                thread::spawn(move || scene.buffers.prepare_ready())
            };
            scene.buffers.reclaim_all();
            cupti.join().unwrap();
            ours.join().unwrap();
            let made = scene.buffers.made.load(Ordering::Relaxed);
            assert_eq!(scene.count_free(), made);
            let empty = scene.buffers.empty.lock().unwrap();
            let distinct: HashSet<_> = empty.0.iter().collect();
            assert_eq!(distinct.len(), made);
        });
    }
}
