//! The overhead budget: keeps the cost of recording within a share of run time.
//!
//! Recording is on in slices. Time earns credit at the rate of the share: step time if steps are known, else the CPU time
//! of the process, because an idle process loses nothing to recording. A slice begins when the credit covers the cost of
//! the last slices. Its own cost is deducted afterwards: the time spent switching plus the launches it recorded times the
//! cost of a launch. Credit is capped at one slice, so a busy period after an idle one still pays no more than the share.
//!
//! If NVTX ranges show steps (`step`), a slice holds whole steps. Without such ranges a slice is an interval long enough
//! for whole steps (`length`), judged by the kernel `pattern` of earlier slices; the analysis finds the steps in it.
//!
//! With steps, the cost of a launch is measured: the duration of a recorded step minus the mean of the unrecorded steps
//! before and after it, because the speed of a host drifts. The cost is the upper bound of the median difference, divided
//! by the launches of a step (`launch`). Until it is measured, and without steps, [`LAUNCH_COST_PRIOR_NS`] is assumed. The
//! cost counted this way is checked against how much longer steps around a slice really took (`cycles`).

mod credit;
mod cycles;
mod launch;
mod length;
mod pairs;
mod pattern;
mod samples;
mod slices;
mod step;
#[cfg(test)]
mod tests;

use std::sync::Mutex;

use self::credit::Credit;
use self::cycles::Cycles;
pub(crate) use self::cycles::Moment;
use self::launch::{LAUNCH_COST_PRIOR_NS, LaunchCost};
use self::length::Length;
pub(crate) use self::pattern::{Kernels, Stream};
use self::slices::Slices;
use self::step::StepDetector;
use crate::gate::{Slice, Switches};
use crate::step_label::recurring_name;
use crate::sys;

/// Cost of recording a kernel of a CUDA Graph, in launches: an H200 took 0.27 µs, and 3 µs for a launch.
const GRAPH_KERNEL_COST_LAUNCHES: f64 = 0.1;
/// Shorter ranges do not count as steps.
const STEP_MIN_NS: i64 = 500_000;
/// Shortest slice: several short steps are recorded in one slice.
const SLICE_MIN_NS: i64 = 10_000_000;
/// Longest slice of steps, unless a single step is longer.
const SLICE_OF_STEPS_MAX_NS: i64 = 250_000_000;
/// A slice waits this long for the next step, then begins without one.
const STEP_WAIT_MAX_NS: i64 = 500_000_000;

pub(crate) struct Budget {
    state: Mutex<BudgetState>,
}

struct BudgetState {
    credit: Credit,
    phase: BudgetPhase,
    step: StepDetector,
    launch: LaunchCost,
    slices: Slices,
    cycles: Cycles,
    /// Length of the next timed slice.
    length: Length,
}

/// Records of the current slice that were read since the last [`tick`](Budget::tick).
#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) launches: f64,
    pub(crate) of_graphs: f64,
    /// All kernels of the slice so far.
    pub(crate) kernels: Kernels,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum BudgetPhase {
    Off,
    /// Waiting for a step since this time.
    Armed(i64),
    /// Recording steps since this time; number of steps left.
    Steps(i64, u64),
    Timed(i64),
}

impl Budget {
    /// A budget of `ppm` millionths of run time; `None` for 0. With `detaches` CUPTI detaches between slices.
    pub(crate) fn new(ppm: u32, detaches: bool) -> Option<Self> {
        (ppm > 0).then(|| Self {
            state: Mutex::new(BudgetState {
                credit: Credit::new(
                    f64::from(ppm) / 1e6,
                    detaches,
                    (sys::now_ns(), sys::time_of_others()),
                ),
                phase: BudgetPhase::Off,
                step: StepDetector::default(),
                launch: LaunchCost::default(),
                slices: Slices::default(),
                cycles: Cycles::default(),
                length: Length::default(),
            }),
        })
    }

    /// A range begins; returns true if a slice begins with it.
    pub(crate) fn range_begins(&self, name: &[u8], now: i64, moment: Moment) -> bool {
        let name = recurring_name(name);
        let Ok(mut state) = self.state.lock() else {
            return false;
        };
        if !state.step.is_step(name) {
            return false;
        }
        state.cycles.step_begins(now, moment);
        if !matches!(state.phase, BudgetPhase::Armed(_)) {
            return false;
        }
        state.cycles.next_slice();
        let steps = state.steps_of_slice();
        state.begin_slice(Slice::OfSteps, BudgetPhase::Steps(now, steps));
        true
    }

    /// A range ends; returns true if a slice ends with it. `recorded`: recording was on (or off) during the whole range;
    /// `None` if it was switched meanwhile.
    pub(crate) fn range_ends(
        &self,
        name: &[u8],
        (start, end): (i64, i64),
        recorded: Option<bool>,
    ) -> bool {
        let name = recurring_name(name);
        let Ok(mut state) = self.state.lock() else {
            return false;
        };
        if end - start < STEP_MIN_NS && !state.step.is_step(name) {
            return false;
        }
        state.learn_range(name, (start, end), recorded);
        if !state.step.is_step(name) {
            return false;
        }
        state.cycles.step_ends(start);
        state.earn_step(start, end);
        let BudgetPhase::Steps(since, left) = state.phase else {
            return false;
        };
        // Another thread began this step before the slice: it was not recorded whole.
        if start < since {
            return false;
        }
        if recorded != Some(false) {
            state.launch.steps += 1;
        }
        // Steps may be far apart, so the slice is limited by time too.
        if left > 1 && end - since < SLICE_OF_STEPS_MAX_NS {
            state.phase = BudgetPhase::Steps(since, left - 1);
            return false;
        }
        state.end_slice(end);
        true
    }

    /// Accounts for the time and the records since the last call; returns whether to switch recording on or off now.
    /// `(now, used)` are the time and the CPU time that the process has used.
    pub(crate) fn tick(
        &self,
        (now, used): (i64, i64),
        recorded: &mut Recorded,
        switches: Switches,
        is_wanted: bool,
    ) -> Option<bool> {
        let counts = (
            std::mem::take(&mut recorded.launches),
            std::mem::take(&mut recorded.of_graphs),
        );
        let ended = self
            .state
            .lock()
            .ok()?
            .settle_costs((now, used), counts, switches);
        if let Some(slice) = ended {
            self.learn_length(slice, &mut recorded.kernels);
        }
        let mut state = self.state.lock().ok()?;
        match state.phase {
            // One thread began a slice, another ended it, and their calls reached the gate in reverse order.
            BudgetPhase::Off if switches.is_on => Some(false),
            BudgetPhase::Off if is_wanted && state.may_begin(now) => {
                if state.step.is_known() {
                    state.phase = BudgetPhase::Armed(now);
                    None
                } else {
                    state.begin_timed(now);
                    Some(true)
                }
            }
            BudgetPhase::Armed(since) if now - since >= STEP_WAIT_MAX_NS => {
                // The steps have stopped: record a timed slice instead.
                state.begin_timed(now);
                Some(true)
            }
            // The range does not end, so it is not a step.
            BudgetPhase::Steps(since, _) if now - since >= 4 * STEP_WAIT_MAX_NS => {
                state.step.forget_step();
                state.end_slice(now);
                Some(false)
            }
            BudgetPhase::Timed(until) if now >= until => {
                state.end_slice(now);
                Some(false)
            }
            _ => None,
        }
    }

    /// The slice that [`tick`](Self::tick) began is now recording. Switching it on may have waited for a busy device.
    pub(crate) fn is_on(&self, now: i64) {
        if let Ok(mut state) = self.state.lock()
            && let BudgetPhase::Timed(_) = state.phase
        {
            state.phase = BudgetPhase::Timed(now + state.length.time);
        }
    }

    /// Chooses the length of the next timed slice from the kernels of the last one. Runs without the lock: it may take long.
    fn learn_length(&self, slice: Slice, kernels: &mut Kernels) {
        if slice == Slice::OfTime && !kernels.are_few() {
            let period = kernels.find_period();
            if let Ok(mut state) = self.state.lock() {
                state.length.learn_period(period);
            }
        }
        kernels.clear();
    }

    /// Earliest time at which [`tick`](Self::tick) may switch recording.
    pub(crate) fn next_change(&self) -> Option<i64> {
        let state = self.state.lock().ok()?;
        Some(match state.phase {
            BudgetPhase::Off => state.credit.next_slice(),
            BudgetPhase::Armed(since) => since + STEP_WAIT_MAX_NS,
            BudgetPhase::Steps(since, _) => since + 4 * STEP_WAIT_MAX_NS,
            BudgetPhase::Timed(until) => until,
        })
    }

    /// Cost of a recorded launch, ns, and the number of steps it was measured on (0: assumed).
    pub(crate) fn launch_cost(&self) -> (u64, u64) {
        let state = self.state.lock();
        state.map_or((0, 0), |state| {
            (state.launch.cost as u64, state.launch.samples)
        })
    }
}

impl BudgetState {
    fn begin_slice(&mut self, slice: Slice, phase: BudgetPhase) {
        if self.slices.owes {
            // CUPTI did not detach after the last slice and will not do so any more.
            self.close_slice();
        }
        self.phase = phase;
        (self.slices.kind, self.slices.owes) = (slice, true);
    }

    fn end_slice(&mut self, now: i64) {
        self.phase = BudgetPhase::Off;
        self.slices.ended = now;
    }

    /// Whether there is credit for a slice and the last slice is fully accounted for.
    fn may_begin(&self, now: i64) -> bool {
        self.slices.may_begin(now) && self.credit.is_enough()
    }

    /// The last slice is fully accounted for.
    fn close_slice(&mut self) {
        self.credit.expected = self.slices.close_slice(self.credit.expected);
    }

    /// Number of steps of the next slice: recording them should cost as much as switching, with a launch at the lower of
    /// [`LAUNCH_COST_PRIOR_NS`] and its measured cost. With fewer steps, switching would dominate the cost; with more, there
    /// would be fewer slices. Expensive launches (7 to 12 µs on an H200) make slices rarer, not shorter.
    fn steps_of_slice(&self) -> u64 {
        let mean = self.step.mean_ns().max(1.0);
        let balanced = self.launch.per_step().map_or(0.0, |launches| {
            self.slices.switching / (launches * self.launch.cost.min(LAUNCH_COST_PRIOR_NS))
        });
        let (least, most) = (
            SLICE_MIN_NS as f64 / mean,
            SLICE_OF_STEPS_MAX_NS as f64 / mean,
        );
        balanced.floor().min(most).max(least.ceil()).max(1.0) as u64
    }

    fn begin_timed(&mut self, now: i64) {
        self.begin_slice(Slice::OfTime, BudgetPhase::Timed(now + self.length.time));
    }

    /// A step ended. If there is credit and the last slice is accounted for, the next step begins a slice.
    fn earn_step(&mut self, start: i64, end: i64) {
        self.credit.earn_step(start, end);
        if self.phase == BudgetPhase::Off && self.may_begin(end) {
            self.phase = BudgetPhase::Armed(end);
        }
    }

    /// Adds earned credit and deducts the cost of new records; returns the last slice once it is fully accounted for.
    fn settle_costs(
        &mut self,
        (now, used): (i64, i64),
        (launches, of_graphs): (f64, f64),
        switches: Switches,
    ) -> Option<Slice> {
        if switches.stays_for_graphs {
            self.credit.keep_attached();
        }
        let earned = self.credit.earn_time(now, used);
        let switching = self.slices.take_switching(switches.time);
        let of_graphs = GRAPH_KERNEL_COST_LAUNCHES * of_graphs;
        let launch = self.launch.in_slice(self.slices.kind);
        let counted = switching + launches * launch + of_graphs * self.launch.cost;
        let launches = launches + of_graphs;
        if self.slices.kind == Slice::OfSteps {
            self.launch.launches += launches;
        }
        let paid = self.cycles.scale_cost(counted);
        self.slices.add_cost(paid);
        let is_counted = launches <= 0.0 && !switches.is_on && !switches.is_open_ended;
        let is_on = matches!(self.phase, BudgetPhase::Steps(..) | BudgetPhase::Timed(_));
        let is_over = !is_on && self.slices.owes && is_counted;
        if is_over {
            self.close_slice();
        }
        self.credit.settle_credit(earned, paid);
        is_over.then_some(self.slices.kind)
    }

    fn learn_range(&mut self, name: &[u8], range: (i64, i64), recorded: Option<bool>) {
        // The step must not change during a slice of steps: the slice ends with the range it began with.
        let may_change = !matches!(self.phase, BudgetPhase::Steps(..));
        if self.step.learn_range(name, range, may_change) {
            self.launch.forget_steps();
            self.cycles = Cycles::default();
        }
        if self.step.is_step(name) {
            self.launch.add_step((range.1 - range.0) as f64, recorded);
        }
    }
}
