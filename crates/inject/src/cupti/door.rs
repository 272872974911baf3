//! Keeps callbacks that use CUPTI without its lock from running while CUPTI is being detached.

use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

pub(super) struct Door {
    is_closed: AtomicBool,
    visitors: AtomicU32,
}

impl Door {
    pub(super) fn new() -> Self {
        Self {
            is_closed: AtomicBool::new(false),
            visitors: AtomicU32::new(0),
        }
    }

    /// Whether CUPTI is being detached right now.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Runs `work` unless the door is closed.
    pub(super) fn visit(&self, work: impl FnOnce()) {
        self.visitors.fetch_add(1, Ordering::AcqRel);
        // A visitor is counted before it checks the door, and the door is closed before visitors are counted: with a fence
        // between the two on both sides, at least one side sees the other.
        fence(Ordering::SeqCst);
        if !self.is_closed() {
            work();
        }
        self.visitors.fetch_sub(1, Ordering::Release);
    }

    /// Runs `work` behind the closed door, unless somebody is inside.
    pub(super) fn closed_for(&self, work: impl FnOnce()) {
        self.is_closed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.visitors.load(Ordering::Acquire) == 0 {
            work();
        }
        self.is_closed.store(false, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod orders {
    use loom::{cell::UnsafeCell, sync::Arc, thread};

    use super::*;
    use crate::sync::in_every_order;

    struct Scene {
        door: Door,
        /// Loom fails where two threads have it at once.
        cupti: UnsafeCell<u32>,
    }

    // SAFETY: that is what is tested.
    unsafe impl Sync for Scene {}

    #[test]
    fn cupti_is_not_taken_out_under_a_visitor() {
        in_every_order(|| {
            let scene = Arc::new(Scene {
                door: Door::new(),
                cupti: UnsafeCell::new(0),
            });
            let other = {
                let scene = scene.clone();
                thread::spawn(move || scene.door.visit(|| scene.cupti.with(|_| ())))
            };
            scene.door.closed_for(|| scene.cupti.with_mut(|_| ()));
            other.join().unwrap();
            assert_eq!(scene.door.visitors.load(Ordering::Relaxed), 0);
        });
    }
}
