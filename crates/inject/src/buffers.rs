//! The memory that CUPTI records into: handed out empty, handed back full, read by our thread, used again.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::VecDeque;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sys::Bell;

/// CUPTI wants 8; a page keeps buffers of different threads apart.
const ALIGNMENT: usize = 4096;

/// How many empty buffers are kept ready, touched, so that no thread of the target waits for the system.
const READY: usize = 16;

/// A buffer that CUPTI is done with.
pub(crate) struct Full {
    pub(crate) memory: *mut u8,
    /// How many bytes of it are records.
    pub(crate) valid: usize,
    /// The context that CUPTI named with it, for asking about dropped records.
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
    /// Those that CUPTI has.
    out: Mutex<Memory>,
    full: Mutex<VecDeque<Full>>,
    /// Requests that could not be met; CUPTI drops records then and counts them.
    pub(crate) refused: AtomicU64,
    /// Buffers with records that came too late to be read.
    late: AtomicU64,
}

impl Buffers {
    /// Buffers of `size` bytes, of which there may be `total` bytes.
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

    fn layout(&self) -> Option<Layout> {
        Layout::from_size_align(self.size, ALIGNMENT).ok()
    }

    fn make(&self) -> Option<*mut u8> {
        // Never above the limit, not even for a moment: another thread would be refused what it may have.
        let order = Ordering::Relaxed;
        let count = |made| (made < self.most).then_some(made + 1);
        self.made.fetch_update(order, order, count).ok()?;
        // SAFETY: the size is not zero.
        let memory = self.layout().map(|layout| unsafe { alloc(layout) });
        let made = memory.filter(|memory| !memory.is_null());
        if made.is_none() {
            // What was not made is not counted: memory may come back, and then a buffer can be made.
            self.made.fetch_sub(1, Ordering::Relaxed);
        }
        made
    }

    /// An empty buffer and its size; `None` when all are in use.
    pub(crate) fn take(&self) -> Option<(*mut u8, usize)> {
        let ready = self.empty.lock().ok().and_then(|mut empty| empty.0.pop());
        let Some(memory) = ready.or_else(|| self.make()) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.out.lock().ok()?.0.push(memory);
        Some((memory, self.size))
    }

    /// CUPTI hands a buffer back. False for one that it does not have from us, or no more.
    pub(crate) fn is_back(&self, memory: *mut u8) -> bool {
        self.out.lock().is_ok_and(|mut out| {
            let found = out.0.iter().position(|&taken| taken == memory);
            found.map(|index| out.0.swap_remove(index)).is_some()
        })
    }

    /// A buffer came back whose records cannot be read any more.
    pub(crate) fn put_late(&self, memory: *mut u8, valid: usize) {
        self.late.fetch_add(u64::from(valid > 0), Ordering::Relaxed);
        self.put_empty(memory);
    }

    /// How many such buffers had records, since the last time.
    pub(crate) fn take_late(&self) -> u64 {
        self.late.swap(0, Ordering::Relaxed)
    }

    /// CUPTI has detached the process: what it had not handed back is ours again.
    pub(crate) fn reclaim(&self) {
        let left = self.out.lock().map(|mut out| std::mem::take(&mut out.0));
        for memory in left.unwrap_or_default() {
            self.put_empty(memory);
        }
    }

    /// Whether CUPTI has any.
    pub(crate) fn is_any_out(&self) -> bool {
        self.out.lock().is_ok_and(|out| !out.0.is_empty())
    }

    /// Whether there is something to read.
    pub(crate) fn has_full(&self) -> bool {
        self.full.lock().is_ok_and(|full| !full.is_empty())
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

#[cfg(all(test, not(loom)))]
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
    fn what_was_not_handed_back_is_reclaimed_once() {
        let buffers = Buffers::new(4096, 2 * 4096);
        let (first, _) = buffers.take().unwrap();
        let (second, _) = buffers.take().unwrap();
        assert!(buffers.is_back(first));
        buffers.put_late(first, 16);
        assert_eq!(buffers.take_late(), 1);
        buffers.reclaim();
        // Too late: it is in use again, or about to be.
        assert!(!buffers.is_back(second) && !buffers.is_back(std::ptr::null_mut()));
        assert_eq!(std::iter::from_fn(|| buffers.take()).count(), 2);
    }

    /// A buffer that could not be allocated was counted, so that after enough of them none was ever made again.
    #[test]
    fn a_failed_allocation_is_not_counted() {
        let too_large = isize::MAX as usize - 2 * ALIGNMENT;
        let buffers = Buffers::new(too_large, 0);
        for _ in 0..3 {
            assert!(buffers.take().is_none());
        }
        assert_eq!(buffers.made.load(Ordering::Relaxed), 0);
        assert_eq!(buffers.refused.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn preparing_stays_within_the_limit() {
        let buffers = Buffers::new(4096, 4 * 4096);
        buffers.prepare();
        let taken = std::iter::from_fn(|| buffers.take()).count();
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
        /// Those that CUPTI or our thread uses.
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

        fn hold(&self, memory: *mut u8) {
            assert!(self.held.lock().unwrap().insert(memory as usize));
        }

        fn release(&self, memory: *mut u8) {
            assert!(self.held.lock().unwrap().remove(&(memory as usize)));
        }

        /// CUPTI asks for a buffer and hands it back; false where there was none.
        fn record(&self) -> bool {
            let Some((memory, _)) = self.buffers.take() else {
                return false;
            };
            self.hold(memory);
            thread::yield_now();
            self.release(memory);
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

        /// Our thread reads what there is; how many that were.
        fn read(&self) -> usize {
            let read = std::iter::from_fn(|| self.buffers.next_full()).map(|full| {
                self.hold(full.memory);
                thread::yield_now();
                self.release(full.memory);
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
                thread::spawn(move || (0..times).filter(|_| scene.record()).count())
            });
            let mut read = scene.read();
            let written: usize = writers.map(|writer| writer.join().unwrap()).iter().sum();
            read += scene.read();
            let refused = scene.buffers.refused.load(Ordering::Relaxed) as usize;
            assert_eq!((read, written + refused), (written, 3));
            let made = scene.buffers.made.load(Ordering::Relaxed);
            assert_eq!(scene.count_free(), made);
            assert!(made <= 2);
        });
    }

    /// CUPTI detaches while it hands a buffer back, and our thread makes others ready.
    #[test]
    fn a_buffer_is_handed_back_or_reclaimed_and_never_both() {
        in_every_order(|| {
            let scene = Scene::new();
            let (memory, _) = scene.buffers.take().unwrap();
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
                thread::spawn(move || scene.buffers.prepare())
            };
            scene.buffers.reclaim();
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
