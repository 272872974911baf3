//! Keeping the cost of recording within a share of the time.
//!
//! Recording is on in slices. Time earns credit at the rate of the share: that of steps where there are any, else that in
//! which the process used a processor, since one that rests has nothing to lose. A slice begins when there is credit for
//! what the last ones cost, and its cost is taken off afterwards: the time that switching took, and every launch it
//! recorded at what a launch costs. Credit does not pile up beyond one slice, so that a busy time after an idle one pays
//! no more than its share.
//!
//! Slices hold whole steps where ranges show them (`step`). Without such ranges a slice is a stretch of time that is long
//! enough to hold whole steps (`length`), by the `pattern` of the kernels of those before it; whoever reads the trace finds
//! the steps in it.
//!
//! What a launch costs is measured where there are steps: the time of a recorded step less the mean of the plain steps
//! before and after it, since the speed of a host drifts. The median of these differences, at the upper end of its
//! uncertainty, over the launches of a step is the cost. Before that, and without steps, [`PRIOR_COST`] is assumed. What is
//! counted in that way is checked against what slices really take, with all that comes with them (`cycles`).

mod cycles;
mod length;
mod pairs;
mod pattern;
mod samples;
mod step;
#[cfg(test)]
mod tests;

use std::sync::Mutex;

use self::cycles::Cycles;
pub(crate) use self::cycles::Moment;
use self::length::Length;
use self::pairs::Pairs;
pub(crate) use self::pattern::{Kernels, Stream};
use self::step::Step;
use crate::gate::{Slice, Switches};
use crate::step_label::recurring_name;
use crate::sys;

/// What a launch costs while it is recorded, ns, until steps have shown it: what an H200 host showed where nothing but launches
/// was made.
const PRIOR_COST: f64 = 3000.0;
/// What it is taken to cost where there are no steps to show it, ns: with all that comes with a slice that makes the 12 µs that
/// an H200 host showed in a model, where another showed 7.
const UNMEASURED_COST: f64 = 8000.0;
/// What a slice costs, ns, until one has shown it: a thousand launches.
const PRIOR_SLICE: f64 = 1000.0 * PRIOR_COST;
/// What it costs for CUPTI to leave and come back, ns, until it was measured: an H200 showed 11 to 30 ms.
const PRIOR_RETURN: f64 = 20e6;
/// A measured cost is believed down to this part of the prior one, ns.
const LEAST_COST: f64 = PRIOR_COST / 8.0;
/// A measured cost is believed up to this many times the prior one.
const MOST_COST: f64 = PRIOR_COST * 10.0;
/// What a kernel of a graph costs, in launches: an H200 showed 0.27 µs, and 3 for a launch.
const KERNEL_OF_GRAPH: f64 = 0.1;
/// The part of the time that graphs take longer while CUPTI stays for them and nothing is recorded: an H200 showed 0.7 to 1.9 %
/// for a small model.
const STANDING: f64 = 0.018;
/// The least part of the share that is left for slices, whatever else costs.
const LEAST_LEFT: f64 = 0.1;
/// The shortest range that counts as a step, ns.
const SHORTEST_STEP: i64 = 500_000;
/// A slice is at least this long, ns: short steps are taken several at a time.
const LEAST_SLICE: i64 = 10_000_000;
/// A slice of steps is at most this long, ns, or one step.
const LONGEST_SLICE: i64 = 250_000_000;
/// How long a slice waits for the next step to begin before it begins without, ns.
const PATIENCE: i64 = 500_000_000;
/// When no step has ended for so long, ns, time earns credit again.
const STEPS_STOP: i64 = 1_000_000_000;
/// When CUPTI has not left so long after a slice, ns, it will not, and the next slice may begin all the same.
const STUCK: i64 = 5_000_000_000;
/// How long our thread waits for credit at least, ns.
const PAUSE: i64 = 10_000_000;

/// The budget of a session.
pub(crate) struct Budget {
    state: Mutex<State>,
}

struct State {
    share: f64,
    /// What of the share is left for slices.
    left: f64,
    /// Whether CUPTI stays for graphs.
    stays: bool,
    credit: f64,
    /// What the next slice will cost, ns.
    expected: f64,
    last: i64,
    /// Processor time of the process by then.
    used: i64,
    /// Up to when time or steps have earned. Steps of two threads, or inside of one another, do not earn twice.
    earned_to: i64,
    /// Until when time earns nothing, since steps do.
    steps_until: i64,
    phase: Phase,
    step: Step,
    /// What a launch costs, ns, and from how many steps that is known.
    cost: f64,
    cost_samples: u64,
    pairs: Pairs,
    switched: i64,
    /// Whether a slice has begun that is not all counted.
    owes: bool,
    /// When the last slice ended.
    ended: i64,
    /// What it costs, ns.
    slice_cost: f64,
    /// The part of that, as it is counted, which is switching.
    slice_switching: f64,
    /// What switching comes to in a slice of steps, ns.
    switching: f64,
    /// What switching and launches came to since the last slice of steps began, ns.
    counted: f64,
    cycles: Cycles,
    slices: u64,
    /// What the slice that is being counted was made for.
    slice: Slice,
    /// How long slices of time are.
    length: Length,
    /// Steps that were recorded in slices of steps, and the launches in them.
    steps_recorded: u64,
    step_launches: f64,
}

/// What was read of the records of a slice since the budget was last told.
#[derive(Default)]
pub(crate) struct Recorded {
    /// Launches.
    pub(crate) launches: f64,
    /// Kernels of graphs.
    pub(crate) of_graphs: f64,
    /// Kernels, of all of the slice.
    pub(crate) kernels: Kernels,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Earning credit.
    Off,
    /// Waiting for a step, since then.
    Armed(i64),
    /// Recording steps since then; so many are left.
    Steps(i64, u64),
    /// Recording until then.
    Timed(i64),
}

impl Budget {
    /// A budget of so many millionths of the time; none for 0. With `leaves` CUPTI is taken out between slices.
    pub(crate) fn new(ppm: u32, leaves: bool) -> Option<Self> {
        (ppm > 0).then(|| Self {
            state: Mutex::new(State {
                share: f64::from(ppm) / 1e6,
                left: f64::from(ppm) / 1e6,
                stays: false,
                credit: 0.0,
                expected: PRIOR_SLICE + if leaves { PRIOR_RETURN } else { 0.0 },
                last: sys::now(),
                used: sys::time_of_others(),
                earned_to: i64::MIN,
                steps_until: i64::MIN,
                phase: Phase::Off,
                step: Step::default(),
                cost: PRIOR_COST,
                cost_samples: 0,
                pairs: Pairs::default(),
                switched: 0,
                owes: false,
                ended: 0,
                slice_cost: 0.0,
                slice_switching: 0.0,
                switching: 0.0,
                counted: 0.0,
                cycles: Cycles::default(),
                slices: 0,
                slice: Slice::OfTime,
                length: Length::default(),
                steps_recorded: 0,
                step_launches: 0.0,
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
        let cost = std::mem::take(&mut state.counted);
        state.cycles.next_slice(cost);
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
            state.steps_recorded += 1;
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
            Phase::Off if is_wanted && state.is_ready(now) && state.credit >= state.expected => {
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
            Phase::Off => {
                let missing = (state.expected - state.credit).max(0.0);
                // Not sooner, or the thread would spin while the process rests or recording is not wanted.
                state.last + ((missing / state.left) as i64).max(PAUSE)
            }
            Phase::Armed(since) => since + PATIENCE,
            Phase::Steps(since, _) => since + 4 * PATIENCE,
            Phase::Timed(until) => until,
        })
    }

    /// What a launch costs, ns, and from how many steps that is known; 0 where it is assumed.
    pub(crate) fn launch_cost(&self) -> (u64, u64) {
        let state = self.state.lock();
        state.map_or((0, 0), |state| (state.cost as u64, state.cost_samples))
    }
}

impl State {
    /// A slice begins.
    fn begin(&mut self, slice: Slice, phase: Phase) {
        if self.owes {
            // CUPTI has not left, and will not.
            self.count_slice();
        }
        (self.slice, self.phase) = (slice, phase);
        self.owes = true;
    }

    /// It ends.
    fn end(&mut self, now: i64) {
        self.phase = Phase::Off;
        self.ended = now;
    }

    /// Whether the last slice is counted: until CUPTI has left, launches are slow.
    fn is_ready(&self, now: i64) -> bool {
        !self.owes || now.saturating_sub(self.ended) >= STUCK
    }

    /// How many steps the next slice holds: so many that recording them would cost as much as switching, with a launch at
    /// [`PRIOR_COST`] or at what it was measured to be where that is less. Fewer make poor use of what it costs to come and go,
    /// more are fewer slices. Where launches are dearer (an H200 showed 7 to 12 µs) a slice costs more, and there are fewer.
    fn steps_of_slice(&self) -> u64 {
        let mean = self.step.mean().max(1.0);
        let balanced = if self.steps_recorded > 0 && self.step_launches > 0.0 {
            let launches = self.step_launches / self.steps_recorded as f64;
            self.switching / (launches * self.cost.min(PRIOR_COST))
        } else {
            0.0
        };
        let (least, most) = (LEAST_SLICE as f64 / mean, LONGEST_SLICE as f64 / mean);
        balanced.floor().min(most).max(least.ceil()).max(1.0) as u64
    }

    fn begin_timed(&mut self, now: i64) {
        self.begin(Slice::OfTime, Phase::Timed(now + self.length.time));
    }

    /// There was a step. Where there is credit for a slice, it begins with the next one, once the last slice is counted.
    fn earn(&mut self, start: i64, end: i64) {
        let earned = (end - start.max(self.earned_to)).max(0);
        self.credit = (self.credit + self.left * earned as f64).min(self.expected);
        self.earned_to = self.earned_to.max(end);
        self.steps_until = end + STEPS_STOP;
        if self.phase == Phase::Off && self.is_ready(end) && self.credit >= self.expected {
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
        let since = self.last.max(self.steps_until);
        let busy = (now - since).min(used - self.used).max(0);
        if switches.stays_for_graphs && !std::mem::replace(&mut self.stays, true) {
            // It need not come back from now on.
            self.expected = self.expected.min(PRIOR_SLICE);
        }
        self.left = if self.stays {
            (self.share - STANDING).max(LEAST_LEFT * self.share)
        } else {
            self.share
        };
        let earned = self.left * busy as f64;
        if now > since {
            self.earned_to = now;
        }
        self.last = now;
        self.used = used;
        let switching = (switches.time - self.switched).max(0) as f64;
        self.switched = switches.time;
        let launch = match self.slice {
            Slice::OfTime if self.cost_samples == 0 => UNMEASURED_COST,
            _ => self.cost,
        };
        let of_graphs = KERNEL_OF_GRAPH * of_graphs;
        let counted = switching + launches * launch + of_graphs * self.cost;
        let launches = launches + of_graphs;
        // All that comes with a slice.
        let paid = counted * self.cycles.factor();
        if self.slice == Slice::OfSteps {
            self.step_launches += launches;
        }
        self.counted += counted;
        self.slice_cost += paid;
        self.slice_switching += switching;
        let is_counted = launches <= 0.0 && !switches.is_on && !switches.is_open_ended;
        let is_on = matches!(self.phase, Phase::Steps(..) | Phase::Timed(_));
        let is_over = !is_on && self.owes && is_counted;
        if is_over {
            self.count_slice();
        }
        self.credit = (self.credit + earned).min(self.expected) - paid;
        is_over.then_some(self.slice)
    }

    /// All of a slice is counted. One in which recording was not wanted cost nothing, and says nothing of the next.
    fn count_slice(&mut self) {
        self.owes = false;
        let cost = std::mem::take(&mut self.slice_cost);
        let switching = std::mem::take(&mut self.slice_switching);
        if cost <= 0.0 {
            return;
        }
        self.slices += 1;
        let mean = |known: f64, new: f64, is_first| {
            if is_first {
                new
            } else {
                0.5 * known + 0.5 * new
            }
        };
        self.expected = mean(self.expected, cost, self.slices == 1);
        if self.slice == Slice::OfSteps {
            self.switching = mean(self.switching, switching, self.switching == 0.0);
        }
    }

    fn learn(&mut self, name: &[u8], range: (i64, i64), recorded: Option<bool>) {
        // A slice ends with what it began with.
        let may_change = !matches!(self.phase, Phase::Steps(..));
        if self.step.learn(name, range, may_change) {
            self.pairs = Pairs::default();
            self.cycles = Cycles::default();
            (self.steps_recorded, self.step_launches) = (0, 0.0);
            self.cost_samples = 0;
        }
        if self.step.is(name) {
            self.pairs.add((range.1 - range.0) as f64, recorded);
            self.measure();
        }
    }

    fn measure(&mut self) {
        let Some(added) = self.pairs.added.upper() else {
            return;
        };
        if self.steps_recorded > 0 && self.step_launches > 0.0 {
            let launches = self.step_launches / self.steps_recorded as f64;
            self.cost = (added / launches).clamp(LEAST_COST, MOST_COST);
            self.cost_samples = self.pairs.added.count();
        }
    }
}
