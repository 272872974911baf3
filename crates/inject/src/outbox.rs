//! What threads of the target hand to our thread: notes, reports, full buffers; and the options that both follow.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use llmprof_wire::Options;
use llmprof_wire::control::Report;

use crate::buffers::Buffers;
use crate::queues::Notes;
use crate::sys::Bell;

/// Notes beyond this many bytes that our thread has not taken yet are dropped.
const NOTES_MAX_BYTES: usize = 64 << 20;

pub(crate) struct Outbox {
    pub(crate) options: Options,
    pub(crate) buffers: Buffers,
    pub(crate) bell: Bell,
    pub(crate) notes: Notes,
    reports: Mutex<Vec<Report>>,
    /// Whether our thread should write now, before its interval ends.
    hurry: AtomicBool,
    finishing: AtomicBool,
    /// Counts events that change the speed of launches, so that a range can tell whether any happened during it.
    changes: AtomicU64,
}

impl Outbox {
    pub(crate) fn new(options: Options, bell: Bell) -> Self {
        let buffer = options.buffer_kib as usize * 1024;
        Self {
            options,
            buffers: Buffers::new(buffer, options.memory_mib as usize * 1024 * 1024),
            bell,
            notes: Notes::new(NOTES_MAX_BYTES),
            reports: Mutex::default(),
            hurry: AtomicBool::new(false),
            finishing: AtomicBool::new(false),
            changes: AtomicU64::new(0),
        }
    }

    pub(crate) fn write_note(&self, put: impl FnOnce(&mut Vec<u8>)) {
        self.notes.add_note(put);
    }

    /// Has our thread send a report to llmprof.
    pub(crate) fn send_report(&self, report: Report) {
        if let Ok(mut reports) = self.reports.lock() {
            reports.push(report);
        }
        self.bell.ring();
    }

    /// Reports to send that came since the last call.
    pub(crate) fn take_reports(&self) -> Vec<Report> {
        let reports = self.reports.lock();
        reports
            .map(|mut reports| std::mem::take(&mut *reports))
            .unwrap_or_default()
    }

    /// Has our thread write soon.
    pub(crate) fn request_flush(&self) {
        self.hurry.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    /// Whether a flush was requested since the last call.
    pub(crate) fn take_hurry(&self) -> bool {
        self.hurry.swap(false, Ordering::Relaxed)
    }

    /// Whether the process is about to end.
    pub(crate) fn is_finishing(&self) -> bool {
        self.finishing.load(Ordering::Acquire)
    }

    /// The process is about to end; returns false if that was known already.
    pub(crate) fn begins_to_finish(&self) -> bool {
        !self.finishing.swap(true, Ordering::AcqRel)
    }

    /// Number of events so far that changed the speed of launches, such as switching recording.
    pub(crate) fn change_count(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The speed of launches changes from now on.
    pub(crate) fn count_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }
}
