//! What the library knows while it watches a process.
//!
//! There is one session a process. It is never freed, since threads of the target may hold it; after a fork the child
//! leaves its parent's session behind, untouched, and begins its own when it initializes CUDA.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::Duration;

use llmprof_wire::control::Report;

use crate::budget::Budget;
use crate::cupti::Attachment;
use crate::gate::{Condition, Gate, Switches};
use crate::nvtx::ranges::Ranges;
use crate::outbox::Outbox;

static CURRENT: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());
/// 0: nobody starts a session; 1: someone does.
static STARTING: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Session {
    pub(crate) outbox: Outbox,
    pub(crate) gate: Gate,
    pub(crate) ranges: Ranges,
    pub(crate) budget: Option<Budget>,
    cupti: OnceLock<Attachment>,
    /// Whether CUPTI has handed out all that it will: our thread ends when it has read that.
    is_over: AtomicBool,
    finished: (Mutex<bool>, Condvar),
}

/// The session of this process, if it has one.
pub(crate) fn current() -> Option<&'static Session> {
    // SAFETY: the pointer is null or of a session that is never freed.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Leaves the session behind. Called in the child after a fork, where its locks may be held by threads that are gone.
pub(crate) fn forget() {
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
    STARTING.store(0, Ordering::Release);
}

/// The process-wide session, which `start` creates on the first call; `None` until it succeeds.
pub(crate) fn current_or(
    start: impl FnOnce() -> Option<&'static Session>,
) -> Option<&'static Session> {
    loop {
        if let Some(session) = current() {
            return Some(session);
        }
        if STARTING
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            let session = start();
            STARTING.store(0, Ordering::Release);
            return session;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

impl Session {
    pub(crate) fn new(outbox: Outbox, gate: Gate) -> Self {
        let options = &outbox.options;
        Self {
            budget: Budget::new(options.overhead_ppm, options.detach),
            outbox,
            gate,
            ranges: Ranges::new(),
            cupti: OnceLock::new(),
            is_over: AtomicBool::new(false),
            finished: (Mutex::new(false), Condvar::new()),
        }
    }

    /// Is the session of this process from now on.
    pub(crate) fn publish(&'static self) {
        CURRENT.store(std::ptr::from_ref(self).cast_mut(), Ordering::Release);
    }

    /// CUPTI, once it is in use.
    pub(crate) fn cupti(&self) -> Option<&Attachment> {
        self.cupti.get()
    }

    /// CUPTI is in use; false where it was already.
    pub(crate) fn set_cupti(&self, cupti: Attachment) -> bool {
        self.cupti.set(cupti).is_ok()
    }

    /// Switches recording as a condition for it changes.
    pub(crate) fn change(&self, condition: Condition) {
        let Some(on) = self.gate.change(condition, &self.outbox, &self.cupti) else {
            return;
        };
        if on {
            self.ranges.write_open(&self.outbox);
        } else {
            // Our thread does the rest: this one may be the target's.
            self.outbox.bell.ring();
        }
        if !self.gate.has_slices() {
            self.outbox.report(Report::Capture { on });
        }
    }

    /// What switching has come to so far.
    pub(crate) fn switches(&self) -> Switches {
        self.gate.switches(self.cupti())
    }

    /// Whether nothing more will come from CUPTI, since the process ends.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The process ends: takes the last records from CUPTI and waits until they are written, within limits.
    pub(crate) fn finish(&self) {
        if !self.outbox.begins_to_finish() {
            return;
        }
        let limit = Duration::from_millis(u64::from(self.outbox.options.exit_ms));
        if let Some(cupti) = self.cupti() {
            cupti.flush_last(limit);
        }
        // Not before: our thread would end, and nobody read what was handed out last.
        self.is_over.store(true, Ordering::Release);
        self.outbox.bell.ring();
        let (done, changed) = &self.finished;
        if let Ok(done) = done.lock() {
            // Whether in time or not, the process ends now.
            let _ = changed.wait_timeout_while(done, limit, |done| !*done);
        }
    }

    /// Our thread is done.
    pub(crate) fn set_finished(&self) {
        let (done, changed) = &self.finished;
        if let Ok(mut done) = done.lock() {
            *done = true;
        }
        changed.notify_all();
    }
}
