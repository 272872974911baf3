//! Handles NVTX ranges and marks on threads of the target.

use llmprof_wire::{Mark, RangeEnd, ThreadName};

use crate::budget::Moment;
use crate::cupti::Attachment;
use crate::gate::{Condition, Slice};
use crate::nvtx::domains;
use crate::nvtx::ranges::Started;
use crate::session::Session;
use crate::sync::atomic::Ordering;
use crate::sys;

/// Limit of open start/end ranges (which may end on any thread); more are not recorded.
const STARTED_RANGES_MAX: usize = 1 << 16;

impl Session {
    /// Whether CUPTI is not about to be detached.
    fn is_settled(&self) -> bool {
        !self.cupti().is_some_and(Attachment::is_under_way)
    }

    /// A range begins on this thread; returns how many were open before.
    pub(super) fn push_range(&self, domain: u32, name: &[u8]) -> i32 {
        let Some(thread) = self.ranges.this_thread() else {
            return -1;
        };
        // Before the range begins, so that all of it is recorded.
        let is_gate = self.gate.is_range(name);
        if is_gate {
            self.apply_condition(Condition::Entered);
        }
        if let Some(budget) = &self.budget {
            let moment = Moment {
                changes: self.outbox.change_count(),
                is_quiet: !self.gate.is_open() && self.is_settled(),
            };
            if budget.range_begins(name, sys::now_ns(), moment) {
                self.apply_condition(Condition::SliceBegun(Slice::OfSteps));
            }
        }
        let Ok(mut log) = thread.log.lock() else {
            return -1;
        };
        let Some(depth) = log.begin_range(domain, name, sys::now_ns(), self.outbox.change_count())
        else {
            drop(log);
            if is_gate {
                self.apply_condition(Condition::Left);
            }
            return -1;
        };
        if self.gate.takes_ranges() {
            log.write_push(depth, thread.id());
            log.hand_over_much(&self.ranges.chunks, &self.outbox.bell);
        }
        depth as i32
    }

    /// The innermost range of a domain ends on this thread; returns how many are left open.
    pub(super) fn pop_range(&self, domain: u32) -> i32 {
        let Some(thread) = self.ranges.this_thread() else {
            return -1;
        };
        let Ok(mut log) = thread.log.lock() else {
            return -1;
        };
        let ended = log.end_range((thread.id(), domain), sys::now_ns(), |range| {
            let ends_slice = self.budget.as_ref().is_some_and(|budget| {
                let recorded = self.gate.unchanged_since(&self.outbox, range.changes);
                let recorded = recorded.filter(|_| self.is_settled());
                budget.range_ends(range.name, range.time, recorded)
            });
            (self.gate.is_range(range.name), ends_slice)
        });
        drop(log);
        let Some(((is_gate, ends_slice), left)) = ended else {
            return -1;
        };
        if is_gate {
            self.apply_condition(Condition::Left);
        }
        if ends_slice {
            self.apply_condition(Condition::SliceEnded);
        }
        left as i32
    }

    /// Records a mark: a moment with a name.
    pub(super) fn mark_moment(&self, domain: u32, name: &[u8]) {
        if !self.gate.takes_ranges() {
            return;
        }
        let Some(thread) = self.ranges.this_thread() else {
            return;
        };
        if let Ok(mut log) = thread.log.lock() {
            log.write_mark(&Mark {
                time: sys::now_ns(),
                thread: thread.id(),
                domain,
                text: name,
            });
            log.hand_over_much(&self.ranges.chunks, &self.outbox.bell);
        }
    }

    /// A range begins that may end on another thread; returns its number.
    pub(super) fn start_range(&self, domain: u32, name: &[u8]) -> u64 {
        let number = self.ranges.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let started = self.ranges.started.lock().map(|started| started.len());
        if started.is_ok_and(|count| count >= STARTED_RANGES_MAX) {
            self.ranges.chunks.count_dropped(1);
            return number;
        }
        if self.gate.is_range(name) {
            self.apply_condition(Condition::Entered);
        }
        let started = Started {
            time: sys::now_ns(),
            thread: sys::thread_id(),
            domain,
            name: name.into(),
            is_written: false,
        };
        if let Ok(mut ranges) = self.ranges.started.lock() {
            let range = ranges.entry(number).or_insert(started);
            if self.gate.takes_ranges() {
                range.write_beginning(&self.outbox, number);
            }
        }
        number
    }

    pub(super) fn end_range(&self, number: u64) {
        let ended = match self.ranges.started.lock() {
            Ok(mut ranges) => ranges.remove(&number),
            Err(_) => None,
        };
        let Some(range) = ended else { return };
        if range.is_written {
            let record = RangeEnd {
                time: sys::now_ns(),
                range: number,
                thread: sys::thread_id(),
            };
            self.outbox.write_note(|out| record.put(out));
        }
        if self.gate.is_range(&range.name) {
            self.apply_condition(Condition::Left);
        }
    }

    /// Records the name of a thread.
    pub(super) fn name_thread(&self, thread: u32, name: &[u8]) {
        self.outbox
            .write_note(|out| ThreadName { thread, text: name }.put(out));
    }

    /// The domain of this name; a new one is written to the file.
    pub(super) fn named_domain(&self, name: &[u8]) -> &'static domains::Domain {
        // Written before other threads can get it: no range in the domain may be written earlier.
        domains::find_or_make(name, |domain| domain.write_note(&self.outbox))
    }
}
