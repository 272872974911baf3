//! The state of the library in a process.
//!
//! There is one session per process. It is never freed, because threads of the target may hold it. After a fork the child
//! abandons its parent's session, untouched, and begins its own when it initializes CUDA.

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
    /// Whether CUPTI has handed back its last buffer: our thread ends when it has read it.
    is_over: AtomicBool,
    finished: (Mutex<bool>, Condvar),
}

/// The process-wide session, if there is one.
pub(crate) fn current_session() -> Option<&'static Session> {
    // SAFETY: the pointer is null or of a session that is never freed.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Abandons the session. Called in a forked child, where threads that do not exist there may hold its locks.
pub(crate) fn forget_session() {
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
    STARTING.store(0, Ordering::Release);
}

/// The process-wide session, which `start` creates on the first call; `None` until it succeeds.
pub(crate) fn current_or(
    start: impl FnOnce() -> Option<&'static Session>,
) -> Option<&'static Session> {
    loop {
        if let Some(session) = current_session() {
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

    /// Makes this the process-wide session.
    pub(crate) fn publish(&'static self) {
        CURRENT.store(std::ptr::from_ref(self).cast_mut(), Ordering::Release);
    }

    /// `None` until CUPTI is in use.
    pub(crate) fn cupti(&self) -> Option<&Attachment> {
        self.cupti.get()
    }

    /// CUPTI is in use from now on; returns false if it was already.
    pub(crate) fn set_cupti(&self, cupti: Attachment) -> bool {
        self.cupti.set(cupti).is_ok()
    }

    /// Switches recording if the condition changes it.
    pub(crate) fn apply_condition(&self, condition: Condition) {
        let Some(on) = self.gate.apply_change(condition, &self.outbox, &self.cupti) else {
            return;
        };
        if on {
            self.ranges.write_open(&self.outbox);
        } else {
            // Our thread does the rest, since this may be a thread of the target.
            self.outbox.bell.ring();
        }
        if !self.gate.has_slices() {
            self.outbox.send_report(Report::Capture { on });
        }
    }

    pub(crate) fn switching_totals(&self) -> Switches {
        self.gate.switching_totals(self.cupti())
    }

    /// Whether the process ends and nothing more will come from CUPTI.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The process ends: flushes CUPTI and waits, for a limited time, until all records are written.
    pub(crate) fn finish_recording(&self) {
        if !self.outbox.begins_to_finish() {
            return;
        }
        let limit = Duration::from_millis(u64::from(self.outbox.options.exit_ms));
        if let Some(cupti) = self.cupti() {
            cupti.flush_last(limit);
        }
        // After the flush: our thread would otherwise end without reading the last buffers.
        self.is_over.store(true, Ordering::Release);
        self.outbox.bell.ring();
        let (done, changed) = &self.finished;
        if let Ok(done) = done.lock() {
            // The process ends now, even if the time limit was reached.
            let _ = changed.wait_timeout_while(done, limit, |done| !*done);
        }
    }

    pub(crate) fn set_finished(&self) {
        let (done, changed) = &self.finished;
        if let Ok(mut done) = done.lock() {
            *done = true;
        }
        changed.notify_all();
    }
}
