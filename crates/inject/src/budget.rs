//! Keeping the cost of recording within a share of the time.
//!
//! Recording is on in slices. Time earns credit at the rate of the share: that of steps where there are any, else that in
//! which the process used a processor, since one that rests has nothing to lose. A slice begins when there is credit for
//! what the last ones cost, and its cost is taken off afterwards: the time that switching took, and every launch it
//! recorded at what a launch costs. Credit does not pile up beyond one slice, so that a busy time after an idle one pays
//! no more than its share.
//!
//! Slices hold whole steps where ranges show them (`step`). Without such ranges a slice is an interval that is long
//! enough to hold whole steps (`length`), by the `pattern` of the kernels of those before it; whoever reads the trace finds
//! the steps in it.
//!
//! What a launch costs is measured where there are steps: the time of a recorded step less the mean of the plain steps
//! before and after it, since the speed of a host drifts. The median of these differences, at the upper end of its
//! uncertainty, over the launches of a step is the cost (`launch`). Before that, and without steps, [`PRIOR_COST`] is assumed. What is
//! counted in that way is checked against what slices really take, with all that comes with them (`cycles`).

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
use self::launch::{LaunchCost, PRIOR_COST};
use self::length::Length;
pub(crate) use self::pattern::{Kernels, Stream};
use self::slices::Slices;
use self::step::Step;
use crate::gate::{Slice, Switches};
use crate::step_label::recurring_name;
use crate::sys;

/// What a kernel of a graph costs, in launches: an H200 showed 0.27 µs, and 3 for a launch.
const KERNEL_OF_GRAPH: f64 = 0.1;
/// The shortest range that counts as a step, ns.
const SHORTEST_STEP: i64 = 500_000;
/// A slice is at least this long, ns: short steps are taken several at a time.
const LEAST_SLICE: i64 = 10_000_000;
/// A slice of steps is at most this long, ns, or one step.
const LONGEST_SLICE: i64 = 250_000_000;
/// How long a slice waits for the next step to begin before it begins without, ns.
const PATIENCE: i64 = 500_000_000;

/// The budget of a session.
pub(crate) struct Budget {
    state: Mutex<State>,
}

struct State {
    credit: Credit,
    phase: Phase,
    step: Step,
    launch: LaunchCost,
    slices: Slices,
    cycles: Cycles,
    /// How long slices of time are.
    length: Length,
}

/// What was read of the records of a slice since the budget was last told.
#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) launches: f64,
    pub(crate) of_graphs: f64,
    /// Kernels, of all of the slice.
    pub(crate) kernels: Kernels,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Off,
    /// Waiting for a step, since then.
    Armed(i64),
    /// Recording steps since then; so many are left.
    Steps(i64, u64),
    Timed(i64),
}

impl Budget {
    /// A budget of so many millionths of the time; none for 0. With `detaches` CUPTI is detached between slices.
    pub(crate) fn new(ppm: u32, detaches: bool) -> Option<Self> {
        (ppm > 0).then(|| Self {
            state: Mutex::new(State {
                credit: Credit::new(
                    f64::from(ppm) / 1e6,
                    detaches,
                    (sys::now(), sys::time_of_others()),
                ),
                phase: Phase::Off,
                step: Step::default(),
                launch: LaunchCost::default(),
                slices: Slices::default(),
                cycles: Cycles::default(),
                length: Length::default(),
            }),
        })
    }

    /// A range of this name begins; true if a slice begins with it.
    pub(crate) fn begins(&self, name: &[u8], now: i64, moment: Moment) -> bool {
        let name = recurring_name(name);
        let Ok(mut state) = self.state.lock() else {
            return false;
        };
        if !state.step.is(name) {
            return false;
        }
        state.cycles.begin(now, moment);
        if !matches!(state.phase, Phase::Armed(_)) {
            return false;
        }
        state.cycles.next_slice();
        let steps = state.steps_of_slice();
        state.begin(Slice::OfSteps, Phase::Steps(now, steps));
        true
    }

    /// A range of this name ends; `recorded` says whether recording was on or off throughout, if either. True if a
    /// slice ends with it.
    pub(crate) fn ends(
        &self,
        name: &[u8],
        (start, end): (i64, i64),
        recorded: Option<bool>,
    ) -> bool {
        let name = recurring_name(name);
        let Ok(mut state) = self.state.lock() else {
            return false;
        };
        if end - start < SHORTEST_STEP && !state.step.is(name) {
            return false;
        }
        state.learn(name, (start, end), recorded);
        if !state.step.is(name) {
            return false;
        }
        state.cycles.end(start);
        state.earn(start, end);
        let Phase::Steps(since, left) = state.phase else {
            return false;
        };
        // One that another thread began before the slice is not whole.
        if start < since {
            return false;
        }
        if recorded != Some(false) {
            state.launch.steps += 1;
        }
        // There may be much time between steps.
        if left > 1 && end - since < LONGEST_SLICE {
            state.phase = Phase::Steps(since, left - 1);
            return false;
        }
        state.end(end);
        true
    }

    /// Time passes, and more was recorded. `now` is the time, and the processor time that the process has used. Says
    /// whether to switch recording on or off now.
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
        let ended = self.state.lock().ok()?.pay((now, used), counts, switches);
        if let Some(slice) = ended {
            self.learn_length(slice, &mut recorded.kernels);
        }
        let mut state = self.state.lock().ok()?;
        match state.phase {
            // Of two threads one began a slice and the other ended it, and the gate heard of them the other way round.
            Phase::Off if switches.is_on => Some(false),
            Phase::Off if is_wanted && state.may_begin(now) => {
                if state.step.is_known() {
                    state.phase = Phase::Armed(now);
                    None
                } else {
                    state.begin_timed(now);
                    Some(true)
                }
            }
            Phase::Armed(since) if now - since >= PATIENCE => {
                // The steps have stopped; what runs now is recorded by time.
                state.begin_timed(now);
                Some(true)
            }
            // A step that does not end is not a step.
            Phase::Steps(since, _) if now - since >= 4 * PATIENCE => {
                state.step.forget();
                state.end(now);
                Some(false)
            }
            Phase::Timed(until) if now >= until => {
                state.end(now);
                Some(false)
            }
            _ => None,
        }
    }

    /// The slice that [`tick`](Self::tick) began is on. It may have taken long until then: a device that is busy is waited for.
    pub(crate) fn is_on(&self, now: i64) {
        if let Ok(mut state) = self.state.lock()
            && let Phase::Timed(_) = state.phase
        {
            state.phase = Phase::Timed(now + state.length.time);
        }
    }

    /// A slice is over, and these are its kernels: how long will the next one be? Nobody waits for the answer meanwhile.
    fn learn_length(&self, slice: Slice, kernels: &mut Kernels) {
        if slice == Slice::OfTime && !kernels.are_few() {
            let period = kernels.period();
            if let Ok(mut state) = self.state.lock() {
                state.length.learn(period);
            }
        }
        kernels.clear();
    }

    /// When [`tick`](Self::tick) may next have something to switch.
    pub(crate) fn next_change(&self) -> Option<i64> {
        let state = self.state.lock().ok()?;
        Some(match state.phase {
            Phase::Off => state.credit.next_slice(),
            Phase::Armed(since) => since + PATIENCE,
            Phase::Steps(since, _) => since + 4 * PATIENCE,
            Phase::Timed(until) => until,
        })
    }

    /// What a launch costs, ns, and from how many steps that is known; 0 where it is assumed.
    pub(crate) fn launch_cost(&self) -> (u64, u64) {
        let state = self.state.lock();
        state.map_or((0, 0), |state| {
            (state.launch.cost as u64, state.launch.samples)
        })
    }
}

impl State {
    fn begin(&mut self, slice: Slice, phase: Phase) {
        if self.slices.owes {
            // CUPTI has not left, and will not.
            self.close_slice();
        }
        self.phase = phase;
        (self.slices.kind, self.slices.owes) = (slice, true);
    }

    fn end(&mut self, now: i64) {
        self.phase = Phase::Off;
        self.slices.ended = now;
    }

    /// Whether there is credit for a slice, and the last one is counted.
    fn may_begin(&self, now: i64) -> bool {
        self.slices.may_begin(now) && self.credit.is_enough()
    }

    /// All of the last slice is counted.
    fn close_slice(&mut self) {
        self.credit.expected = self.slices.close(self.credit.expected);
    }

    /// How many steps the next slice holds: so many that recording them would cost as much as switching, with a launch at
    /// [`PRIOR_COST`] or at what it was measured to be where that is less. Fewer make poor use of what it costs to come and go,
    /// more are fewer slices. Where launches are more expensive (an H200 showed 7 to 12 µs) a slice costs more, and there are fewer.
    fn steps_of_slice(&self) -> u64 {
        let mean = self.step.mean().max(1.0);
        let balanced = self.launch.per_step().map_or(0.0, |launches| {
            self.slices.switching / (launches * self.launch.cost.min(PRIOR_COST))
        });
        let (least, most) = (LEAST_SLICE as f64 / mean, LONGEST_SLICE as f64 / mean);
        balanced.floor().min(most).max(least.ceil()).max(1.0) as u64
    }

    fn begin_timed(&mut self, now: i64) {
        self.begin(Slice::OfTime, Phase::Timed(now + self.length.time));
    }

    /// There was a step. Where there is credit for a slice, it begins with the next one, once the last slice is counted.
    fn earn(&mut self, start: i64, end: i64) {
        self.credit.earn_step(start, end);
        if self.phase == Phase::Off && self.may_begin(end) {
            self.phase = Phase::Armed(end);
        }
    }

    /// Earns, and pays for launches and kernels of graphs; the slice that is over, once all of it is counted.
    fn pay(
        &mut self,
        (now, used): (i64, i64),
        (launches, of_graphs): (f64, f64),
        switches: Switches,
    ) -> Option<Slice> {
        if switches.stays_for_graphs {
            self.credit.stay();
        }
        let earned = self.credit.pass(now, used);
        let switching = self.slices.take_switching(switches.time);
        let of_graphs = KERNEL_OF_GRAPH * of_graphs;
        let launch = self.launch.in_slice(self.slices.kind);
        let counted = switching + launches * launch + of_graphs * self.launch.cost;
        let launches = launches + of_graphs;
        if self.slices.kind == Slice::OfSteps {
            self.launch.launches += launches;
        }
        let paid = self.cycles.pay(counted);
        self.slices.add(paid);
        let is_counted = launches <= 0.0 && !switches.is_on && !switches.is_open_ended;
        let is_on = matches!(self.phase, Phase::Steps(..) | Phase::Timed(_));
        let is_over = !is_on && self.slices.owes && is_counted;
        if is_over {
            self.close_slice();
        }
        self.credit.settle(earned, paid);
        is_over.then_some(self.slices.kind)
    }

    fn learn(&mut self, name: &[u8], range: (i64, i64), recorded: Option<bool>) {
        // A slice ends with what it began with.
        let may_change = !matches!(self.phase, Phase::Steps(..));
        if self.step.learn(name, range, may_change) {
            self.launch.forget_steps();
            self.cycles = Cycles::default();
        }
        if self.step.is(name) {
            self.launch.add_step((range.1 - range.0) as f64, recorded);
        }
    }
}
