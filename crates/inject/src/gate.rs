//! Whether recording is on: only while llmprof wants it, inside the range that was named, and, with a budget for
//! the overhead, during a slice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use llmprof_wire::Capture;

use crate::cupti::{Attachment, Denied};
use crate::outbox::Outbox;
use crate::step_label::recurring_name;
use crate::sys;

pub(crate) struct Gate {
    range: Option<Box<[u8]>>,
    has_slices: bool,
    state: Mutex<State>,
    is_open: AtomicBool,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "independent conditions, all of which must hold"
)]
struct State {
    attached: bool,
    ordered: bool,
    inside: u32,
    slice: Option<Slice>,
    open: bool,
    /// Recording went off, and CUPTI stayed for a range that may come back at once.
    stayed: bool,
    refused: bool,
    switches: u64,
    switch_time: i64,
}

/// Why recording may be on, as the wire has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// There is no budget.
    Always = 0,
    /// A slice that began with time.
    OfTime = 1,
    /// A slice that began with a step.
    OfSteps = 2,
}

/// What has happened that recording depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition {
    /// CUPTI is in use.
    Attached,
    /// llmprof says start or stop.
    Ordered(bool),
    /// The range to record begins on some thread.
    Entered,
    /// … and ends.
    Left,
    SliceBegun(Slice),
    SliceEnded,
}

/// What switching has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Switches {
    pub(crate) count: u64,
    pub(crate) time: i64,
    /// Whether a slice is on.
    pub(crate) is_on: bool,
    /// CUPTI is on its way out of the process, and the time of that is to come.
    pub(crate) is_open_ended: bool,
    /// CUPTI stays between slices, since the process has graphs.
    pub(crate) stays_for_graphs: bool,
}

impl Gate {
    pub(crate) fn new(ordered: bool, range: Option<Vec<u8>>, has_slices: bool) -> Self {
        Self {
            range: range.map(Vec::into_boxed_slice),
            has_slices,
            state: Mutex::new(State {
                attached: false,
                ordered,
                inside: 0,
                slice: (!has_slices).then_some(Slice::Always),
                open: false,
                stayed: false,
                refused: false,
                switches: 0,
                switch_time: 0,
            }),
            is_open: AtomicBool::new(false),
        }
    }

    /// Whether device activities are recorded.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Whether ranges are recorded: with slices always, so that what lies between slices is known.
    pub(crate) fn takes_ranges(&self) -> bool {
        self.has_slices || self.is_open()
    }

    /// Whether recording was on or off ever since there were so many changes; nothing where it was both.
    pub(crate) fn since(&self, outbox: &Outbox, changes: u64) -> Option<bool> {
        // In this order: a change is counted before it shows.
        let is_open = self.is_open.load(Ordering::Acquire);
        (outbox.changes() == changes).then_some(is_open)
    }

    /// Whether there is a budget.
    pub(crate) fn has_slices(&self) -> bool {
        self.has_slices
    }

    /// Whether a range of this name is the one to record; that of a step is known without its numbers too.
    pub(crate) fn is_range(&self, name: &[u8]) -> bool {
        let is = |range: &[u8]| range == name || range == recurring_name(name);
        self.range.as_deref().is_some_and(is)
    }

    /// What switching has come to so far.
    pub(crate) fn switches(&self, cupti: Option<&Attachment>) -> Switches {
        // Asked first: if it detaches between the two, its time is in already.
        let is_open_ended = cupti.is_some_and(Attachment::is_under_way);
        let leaving = cupti.map_or(0, Attachment::time);
        let Ok(state) = self.state.lock() else {
            return Switches::default();
        };
        Switches {
            count: state.switches,
            time: state.switch_time + leaving,
            is_on: self.has_slices && state.slice.is_some(),
            is_open_ended,
            stays_for_graphs: cupti.is_some_and(Attachment::sees_graphs),
        }
    }

    /// Whether all but a slice is there for recording.
    pub(crate) fn awaits_slice(&self) -> bool {
        self.state
            .lock()
            .is_ok_and(|state| self.would_open(&state) && self.has_slices)
    }

    fn would_open(&self, state: &State) -> bool {
        state.attached
            && state.ordered
            && !state.refused
            && (self.range.is_none() || state.inside > 0)
    }

    /// Switches recording as a condition for it changes. The answer is whether it is on, where it was switched.
    pub(crate) fn change(
        &self,
        condition: Condition,
        outbox: &Outbox,
        cupti: &OnceLock<Attachment>,
    ) -> Option<bool> {
        let mut state = self.state.lock().ok()?;
        let before = state.slice;
        state.take(condition);
        let wanted = self.would_open(&state) && state.slice.is_some();
        // Asked under the lock: whoever comes after CUPTI, or before it, sees both conditions.
        let cupti = cupti.get()?;
        let detaches = outbox.options.detach && (!state.ordered || state.slice.is_none());
        if wanted == state.open {
            if detaches && std::mem::take(&mut state.stayed) {
                cupti.stop(outbox, true);
                outbox.bell.ring();
            }
            return None;
        }
        let begin = sys::now();
        let time = if wanted {
            match cupti.start(outbox) {
                Ok(()) => sys::now(),
                Err(Denied::Now) => {
                    state.switch_time += sys::now() - begin;
                    return None;
                }
                Err(Denied::Always(refusal)) => {
                    state.refused = true;
                    refusal.report(outbox);
                    return None;
                }
            }
        } else {
            cupti.stop(outbox, detaches);
            begin
        };
        state.open = wanted;
        state.stayed = !wanted && !detaches;
        state.switch_time += sys::now() - begin;
        state.switches += 1;
        outbox.count_change();
        let record = Capture {
            time,
            on: u8::from(wanted),
            slice: state.slice.or(before).map_or(0, |slice| slice as u8),
        };
        outbox.note(|out| record.put(out));
        self.is_open.store(wanted, Ordering::Release);
        Some(wanted)
    }
}

impl State {
    fn take(&mut self, condition: Condition) {
        match condition {
            Condition::Attached => self.attached = true,
            Condition::Ordered(start) => self.ordered = start,
            Condition::Entered => self.inside += 1,
            Condition::Left => self.inside = self.inside.saturating_sub(1),
            Condition::SliceBegun(slice) => self.slice = Some(slice),
            Condition::SliceEnded => self.slice = None,
        }
    }
}
