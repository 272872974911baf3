//! Ranges begin and end on threads of the target.

use llmprof_wire::{Mark, RangeEnd, ThreadName};

use crate::budget::Moment;
use crate::cupti::Attachment;
use crate::gate::{Condition, Slice};
use crate::nvtx::domains;
use crate::nvtx::ranges::Started;
use crate::session::Session;
use crate::sync::atomic::Ordering;
use crate::sys;

/// Ranges that may be open and end on any thread; more are not recorded.
const MOST_STARTED: usize = 1 << 16;

impl Session {
    /// CUPTI is not on its way.
    fn is_settled(&self) -> bool {
        !self.cupti().is_some_and(Attachment::is_under_way)
    }

    /// A range begins on this thread. The answer is how many were open in it before.
    pub(super) fn push(&self, domain: u32, name: &[u8]) -> i32 {
        let Some(thread) = self.ranges.this_thread() else {
            return -1;
        };
        // Before the range, so that it lies inside what is recorded.
        let is_gate = self.gate.is_range(name);
        if is_gate {
            self.change(Condition::Entered);
        }
        if let Some(budget) = &self.budget {
            let moment = Moment {
                changes: self.outbox.changes(),
                is_quiet: !self.gate.is_open() && self.is_settled(),
            };
            if budget.begins(name, sys::now(), moment) {
                self.change(Condition::SliceBegun(Slice::OfSteps));
            }
        }
        let Ok(mut log) = thread.log.lock() else {
            return -1;
        };
        let Some(depth) = log.begin(domain, name, sys::now(), self.outbox.changes()) else {
            drop(log);
            if is_gate {
                self.change(Condition::Left);
            }
            return -1;
        };
        if self.gate.takes_ranges() {
            log.write_push(depth, thread.id());
            log.hand_over_much(&self.ranges.chunks, &self.outbox.bell);
        }
        depth as i32
    }

    /// The innermost range of a domain ends on this thread. The answer is how many are left open.
    pub(super) fn pop(&self, domain: u32) -> i32 {
        let Some(thread) = self.ranges.this_thread() else {
            return -1;
        };
        let Ok(mut log) = thread.log.lock() else {
            return -1;
        };
        let ended = log.end((thread.id(), domain), sys::now(), |range| {
            let ends_slice = self.budget.as_ref().is_some_and(|budget| {
                let recorded = self.gate.since(&self.outbox, range.changes);
                let recorded = recorded.filter(|_| self.is_settled());
                budget.ends(range.name, range.time, recorded)
            });
            (self.gate.is_range(range.name), ends_slice)
        });
        drop(log);
        let Some(((is_gate, ends_slice), left)) = ended else {
            return -1;
        };
        if is_gate {
            self.change(Condition::Left);
        }
        if ends_slice {
            self.change(Condition::SliceEnded);
        }
        left as i32
    }

    /// A moment with a name.
    pub(super) fn mark(&self, domain: u32, name: &[u8]) {
        if !self.gate.takes_ranges() {
            return;
        }
        let Some(thread) = self.ranges.this_thread() else {
            return;
        };
        if let Ok(mut log) = thread.log.lock() {
            log.mark(&Mark {
                time: sys::now(),
                thread: thread.id(),
                domain,
                text: name,
            });
            log.hand_over_much(&self.ranges.chunks, &self.outbox.bell);
        }
    }

    /// A range begins that may end on another thread. The answer is its number.
    pub(super) fn start_range(&self, domain: u32, name: &[u8]) -> u64 {
        let number = self.ranges.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let started = self.ranges.started.lock().map(|started| started.len());
        if started.is_ok_and(|count| count >= MOST_STARTED) {
            self.ranges.chunks.count_dropped(1);
            return number;
        }
        if self.gate.is_range(name) {
            self.change(Condition::Entered);
        }
        let started = Started {
            time: sys::now(),
            thread: sys::thread_id(),
            domain,
            name: name.into(),
            is_written: false,
        };
        if let Ok(mut ranges) = self.ranges.started.lock() {
            let range = ranges.entry(number).or_insert(started);
            if self.gate.takes_ranges() {
                range.write(&self.outbox, number);
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
                time: sys::now(),
                range: number,
                thread: sys::thread_id(),
            };
            self.outbox.note(|out| record.put(out));
        }
        if self.gate.is_range(&range.name) {
            self.change(Condition::Left);
        }
    }

    /// What a thread is called.
    pub(super) fn name_thread(&self, thread: u32, name: &[u8]) {
        self.outbox
            .note(|out| ThreadName { thread, text: name }.put(out));
    }

    /// The domain of this name, announced where it is new.
    pub(super) fn domain(&self, name: &[u8]) -> &'static domains::Domain {
        // Before others can have it: a range in it must not be written first.
        domains::make(name, |domain| domain.note(&self.outbox))
    }
}
