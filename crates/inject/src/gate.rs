//! Decides whether recording is on: only while llmprof wants it, inside the range the user named, and, with an overhead
//! budget, during a slice.

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
    state: Mutex<GateState>,
    is_open: AtomicBool,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "independent conditions, all of which must hold"
)]
struct GateState {
    attached: bool,
    ordered: bool,
    inside: u32,
    slice: Option<Slice>,
    open: bool,
    /// Recording went off and CUPTI stayed attached, because the range may begin again at once.
    stayed: bool,
    refused: bool,
    switches: u64,
    switch_time: i64,
}

/// Why recording is on; numbers as in the wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// No budget: recorded without slices.
    Always = 0,
    /// A slice that began with time.
    OfTime = 1,
    /// A slice that began with a step.
    OfSteps = 2,
}

/// Events that recording depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition {
    /// CUPTI was found and subscribed to.
    Attached,
    /// llmprof ordered start (`true`) or stop.
    Ordered(bool),
    /// The range to record began on some thread.
    Entered,
    /// The range to record ended on some thread.
    Left,
    SliceBegun(Slice),
    SliceEnded,
}

/// Cost and state of switching.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Switches {
    pub(crate) count: u64,
    pub(crate) time: i64,
    /// Whether a slice is on.
    pub(crate) is_on: bool,
    /// CUPTI is about to be detached: its time is not included yet.
    pub(crate) is_open_ended: bool,
    /// CUPTI stays attached between slices, because the process uses CUDA Graphs.
    pub(crate) stays_for_graphs: bool,
}

impl Gate {
    pub(crate) fn new(ordered: bool, range: Option<Vec<u8>>, has_slices: bool) -> Self {
        Self {
            range: range.map(Vec::into_boxed_slice),
            has_slices,
            state: Mutex::new(GateState {
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

    /// Whether ranges are recorded. With slices always, so that the time between slices is known too.
    pub(crate) fn takes_ranges(&self) -> bool {
        self.has_slices || self.is_open()
    }

    /// Whether recording was on (or off) ever since the change count was `changes`; `None` if it was switched since.
    pub(crate) fn unchanged_since(&self, outbox: &Outbox, changes: u64) -> Option<bool> {
        // The order matters: a change is counted before it becomes visible.
        let is_open = self.is_open.load(Ordering::Acquire);
        (outbox.change_count() == changes).then_some(is_open)
    }

    /// Whether there is a budget.
    pub(crate) fn has_slices(&self) -> bool {
        self.has_slices
    }

    /// Whether a range of this name is the one to record. Step labels also match without their numbers.
    pub(crate) fn is_range(&self, name: &[u8]) -> bool {
        let is = |range: &[u8]| range == name || range == recurring_name(name);
        self.range.as_deref().is_some_and(is)
    }

    pub(crate) fn switching_totals(&self, cupti: Option<&Attachment>) -> Switches {
        // Read first: if CUPTI detaches in between, its time is included already.
        let is_open_ended = cupti.is_some_and(Attachment::is_under_way);
        let leaving = cupti.map_or(0, Attachment::detach_time_ns);
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

    /// Whether only a slice is missing for recording.
    pub(crate) fn awaits_slice(&self) -> bool {
        self.state
            .lock()
            .is_ok_and(|state| self.would_open(&state) && self.has_slices)
    }

    fn would_open(&self, state: &GateState) -> bool {
        state.attached
            && state.ordered
            && !state.refused
            && (self.range.is_none() || state.inside > 0)
    }

    /// Applies an event; returns the new state of recording if it was switched.
    pub(crate) fn apply_change(
        &self,
        condition: Condition,
        outbox: &Outbox,
        cupti: &OnceLock<Attachment>,
    ) -> Option<bool> {
        let mut state = self.state.lock().ok()?;
        let before = state.slice;
        state.record_condition(condition);
        let wanted = self.would_open(&state) && state.slice.is_some();
        // Read under the lock: a thread that comes before or after CUPTI was set then sees both conditions.
        let cupti = cupti.get()?;
        let detaches = outbox.options.detach && (!state.ordered || state.slice.is_none());
        if wanted == state.open {
            if detaches && std::mem::take(&mut state.stayed) {
                cupti.stop_recording(outbox, true);
                outbox.bell.ring();
            }
            return None;
        }
        let begin = sys::now_ns();
        let time = if wanted {
            match cupti.start_recording(outbox) {
                Ok(()) => sys::now_ns(),
                Err(Denied::Now) => {
                    state.switch_time += sys::now_ns() - begin;
                    return None;
                }
                Err(Denied::Always(refusal)) => {
                    state.refused = true;
                    refusal.report_refusal(outbox);
                    return None;
                }
            }
        } else {
            cupti.stop_recording(outbox, detaches);
            begin
        };
        state.open = wanted;
        state.stayed = !wanted && !detaches;
        state.switch_time += sys::now_ns() - begin;
        state.switches += 1;
        outbox.count_change();
        let record = Capture {
            time,
            on: u8::from(wanted),
            slice: state.slice.or(before).map_or(0, |slice| slice as u8),
        };
        outbox.write_note(|out| record.put(out));
        self.is_open.store(wanted, Ordering::Release);
        Some(wanted)
    }
}

impl GateState {
    fn record_condition(&mut self, condition: Condition) {
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
