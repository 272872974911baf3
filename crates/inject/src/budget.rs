//! Keeping the cost of recording within a share of the time.
//!
//! Recording is on in slices. Time earns credit at the rate of the share: that of steps where there are any, else that in
//! which the process used a processor, since one that rests has nothing to lose. A slice begins when there is credit for
//! what the last ones cost, and its cost is taken off afterwards: the time that switching took, and every launch it
//! recorded at what a launch costs. Credit does not pile up beyond one slice, so that a busy time after an idle one pays
//! no more than its share.
//!
//! Slices hold whole steps where ranges show them: of those that come back, up to [`LONGEST_STEP`] long and not inside of
//! one another, the range that most of the time is spent in is taken for a step. Without such ranges a slice is a stretch of time that is long enough to hold whole steps, by the `pattern`
//! of the kernels of those before it; whoever reads the trace finds the steps in it.
//!
//! What a launch costs is measured where there are steps: the time of a recorded step less the mean of the plain steps
//! before and after it, since the speed of a host drifts. The median of these differences, at the upper end of its
//! uncertainty, over the launches of a step is the cost. Before that, and without steps, [`PRIOR_COST`] is assumed. What is
//! counted in that way is checked against what slices really take, with all that comes with them (`cycles`).

mod cycles;
mod length;
mod pairs;
mod pattern;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Mutex;

use self::cycles::Cycles;
pub(crate) use self::cycles::Moment;
use self::length::Length;
use self::pairs::Pairs;
pub(crate) use self::pattern::Kernels;
use crate::gate::{Slice, Switches};
use crate::sys;

/// What a launch costs while it is recorded, ns, until it was measured: the upper end of what an H200 host showed.
const PRIOR_COST: f64 = 3000.0;
/// What it costs for CUPTI to leave and come back, ns, until it was measured: an H200 showed 11 to 30 ms.
const PRIOR_RETURN: f64 = 20e6;
/// A measured cost is believed down to this part of the prior one, ns.
const LEAST_COST: f64 = PRIOR_COST / 8.0;
/// A measured cost is believed up to this many times the prior one.
const MOST_COST: f64 = PRIOR_COST * 10.0;
/// What a kernel of a graph costs, in launches: an H200 showed 0.27 µs, and 2.6 for a launch.
pub(crate) const KERNEL_OF_GRAPH: f64 = 0.1;
/// The longest range that counts as a step, ns.
const LONGEST_STEP: f64 = 250e6;
/// The shortest.
const SHORTEST_STEP: i64 = 500_000;
/// A slice is at least this long, ns: short steps are taken several at a time.
const LEAST_SLICE: i64 = 10_000_000;
/// How long a slice waits for the next step to begin before it begins without, ns.
const PATIENCE: i64 = 500_000_000;
/// When no step has ended for so long, ns, time earns credit again.
const STEPS_STOP: i64 = 1_000_000_000;
/// How long our thread waits for credit at least, ns.
const PAUSE: i64 = 10_000_000;
/// How many names of ranges are followed.
const MOST_NAMES: usize = 256;
/// How often a range must have come back to count as a step.
const REPEATS: u64 = 3;

/// The budget of a session.
pub(crate) struct Budget {
    state: Mutex<State>,
}

struct State {
    share: f64,
    credit: f64,
    expected: f64,
    last: i64,
    /// Processor time of the process by then.
    used: i64,
    /// Until when time earns nothing, since steps do.
    earned_until: i64,
    phase: Phase,
    ranges: HashMap<Box<[u8]>, Durations>,
    step: Option<Box<[u8]>>,
    cost: f64,
    pairs: Pairs,
    switched: i64,
    /// What the slice that is being counted costs, ns.
    slice_cost: f64,
    /// What its switching and launches came to, and what those of the last one did.
    counted: f64,
    last_cost: f64,
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
    /// Launches; a kernel of a graph is [`KERNEL_OF_GRAPH`] of one.
    pub(crate) launches: f64,
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

/// How long ranges of one name took.
#[derive(Default)]
struct Durations {
    count: u64,
    mean: f64,
    /// Start and end of the last one.
    last: (i64, i64),
    /// Whether it lies inside one that comes back too.
    is_inside: bool,
}

impl Durations {
    /// All of them, ns.
    fn total(&self) -> f64 {
        self.mean * self.count as f64
    }
}

impl Budget {
    /// A budget of so many millionths of the time; none for 0. With `leaves` CUPTI is taken out between slices.
    pub(crate) fn new(ppm: u32, leaves: bool) -> Option<Self> {
        (ppm > 0).then(|| Self {
            state: Mutex::new(State {
                share: f64::from(ppm) / 1e6,
                credit: 0.0,
                // Until a slice has shown its cost: a thousand launches.
                expected: 1000.0 * PRIOR_COST + if leaves { PRIOR_RETURN } else { 0.0 },
                last: sys::now(),
                used: sys::time_of_others(),
                earned_until: i64::MIN,
                phase: Phase::Off,
                ranges: HashMap::new(),
                step: None,
                cost: PRIOR_COST,
                pairs: Pairs::default(),
                switched: 0,
                slice_cost: 0.0,
                counted: 0.0,
                last_cost: 0.0,
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
        let Ok(mut state) = self.state.lock() else {
            return false;
        };
        if state.step.as_deref() != Some(name) {
            return false;
        }
        state.cycles.begin(now, moment);
        if !matches!(state.phase, Phase::Armed(_)) {
            return false;
        }
        let cost = std::mem::take(&mut state.last_cost);
        state.cycles.next_slice(cost);
        let length = state.ranges.get(name).map_or(0.0, |range| range.mean);
        let steps = (LEAST_SLICE as f64 / length.max(1.0)).ceil().max(1.0);
        state.phase = Phase::Steps(now, steps as u64);
        state.slice = Slice::OfSteps;
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
        let duration = end - start;
        if duration < SHORTEST_STEP {
            return false;
        }
        let Ok(mut state) = self.state.lock() else {
            return false;
        };
        state.learn(name, (start, end), recorded);
        if state.step.as_deref() == Some(name) {
            state.earn(duration, end);
        }
        let Phase::Steps(since, left) = state.phase else {
            return false;
        };
        if state.step.as_deref() != Some(name) {
            return false;
        }
        if recorded != Some(false) {
            state.steps_recorded += 1;
        }
        if left > 1 {
            state.phase = Phase::Steps(since, left - 1);
            return false;
        }
        state.phase = Phase::Off;
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
        let launches = std::mem::take(&mut recorded.launches);
        let ended = self.state.lock().ok()?.pay((now, used), launches, switches);
        if let Some(slice) = ended {
            self.learn_length(slice, &mut recorded.kernels);
        }
        let mut state = self.state.lock().ok()?;
        match state.phase {
            // Of two threads one began a slice and the other ended it, and the gate heard of them the other way round.
            Phase::Off if switches.is_on => Some(false),
            Phase::Off if is_wanted && state.credit >= state.expected => {
                if state.step.is_some() {
                    state.phase = Phase::Armed(now);
                    None
                } else {
                    state.phase = Phase::Timed(now + state.length.time);
                    state.slice = Slice::OfTime;
                    Some(true)
                }
            }
            Phase::Armed(since) if now - since >= PATIENCE => {
                // The steps have stopped; what runs now is recorded by time.
                state.slice = Slice::OfTime;
                state.phase = Phase::Timed(now + state.length.time);
                Some(true)
            }
            // A step that does not end is not a step.
            Phase::Steps(since, _) if now - since >= 4 * PATIENCE => {
                state.step = None;
                state.phase = Phase::Off;
                Some(false)
            }
            Phase::Timed(until) if now >= until => {
                state.phase = Phase::Off;
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
                state.last + ((missing / state.share) as i64).max(PAUSE)
            }
            Phase::Armed(since) => since + PATIENCE,
            Phase::Steps(since, _) => since + 4 * PATIENCE,
            Phase::Timed(until) => until,
        })
    }

    /// What a launch costs, ns, and from how many steps that is known; 0 where it is assumed.
    pub(crate) fn launch_cost(&self) -> (u64, u64) {
        self.state.lock().map_or((0, 0), |state| {
            (state.cost as u64, state.pairs.added.len() as u64)
        })
    }
}

impl State {
    /// A step took so long and ended then. Where there is credit for a slice, it begins with the next step.
    fn earn(&mut self, duration: i64, end: i64) {
        self.credit = (self.credit + self.share * duration as f64).min(self.expected);
        self.earned_until = end + STEPS_STOP;
        if self.phase == Phase::Off && self.slice_cost == 0.0 && self.credit >= self.expected {
            self.phase = Phase::Armed(end);
        }
    }

    /// Earns and pays; the slice that is over, once all of it is counted.
    fn pay(&mut self, (now, used): (i64, i64), launches: f64, switches: Switches) -> Option<Slice> {
        let since = self.last.max(self.earned_until);
        let busy = (now - since).min(used - self.used).max(0);
        let earned = self.share * busy as f64;
        self.last = now;
        self.used = used;
        let switching = (switches.time - self.switched).max(0) as f64;
        self.switched = switches.time;
        let counted = switching + launches * self.cost;
        // All that comes with a slice; without steps the assumed cost of a launch has room for it.
        let paid = match self.slice {
            Slice::OfSteps => counted * self.cycles.factor(),
            _ => counted,
        };
        if self.slice == Slice::OfSteps {
            self.step_launches += launches;
        }
        self.counted += counted;
        self.slice_cost += paid;
        let is_counted = launches <= 0.0 && !switches.is_open_ended;
        let is_over = self.phase == Phase::Off && self.slice_cost > 0.0 && is_counted;
        if is_over {
            self.slices += 1;
            self.expected = match self.slices {
                1 => self.slice_cost,
                _ => 0.5 * self.expected + 0.5 * self.slice_cost,
            };
            self.slice_cost = 0.0;
            self.last_cost = std::mem::take(&mut self.counted);
        }
        self.credit = (self.credit + earned).min(self.expected) - paid;
        is_over.then_some(self.slice)
    }

    fn learn(&mut self, name: &[u8], (start, end): (i64, i64), recorded: Option<bool>) {
        let duration = (end - start) as f64;
        if !self.ranges.contains_key(name) && !self.makes_room(duration) {
            return;
        }
        let range = self.ranges.entry(name.into()).or_default();
        range.count += 1;
        range.mean += (duration - range.mean) / range.count as f64;
        range.last = (start, end);
        let (count, mean, total) = (range.count, range.mean, range.total());
        let may_be = count >= REPEATS && mean <= LONGEST_STEP && !range.is_inside;
        let is_new = self.step.as_deref() != Some(name);
        if may_be && is_new && !matches!(self.phase, Phase::Steps(..)) {
            let known = self
                .step
                .as_ref()
                .and_then(|step| self.ranges.get_mut(step));
            let is_more = known.is_none_or(|known| {
                // The model is nearly all of a step, and runs in prefill too; but the step is what is around it.
                known.is_inside = start <= known.last.0 && known.last.1 <= end;
                // By more than a little, or two that are alike would change places for ever.
                known.is_inside || total > 1.2 * known.total()
            });
            if is_more {
                self.step = Some(name.into());
                self.pairs = Pairs::default();
                self.cycles = Cycles::default();
            }
        }
        if self.step.as_deref() == Some(name) {
            self.pairs.add(duration, recorded);
            self.measure();
        }
    }

    /// Whether there is a place for a range that takes so long. Where there is none, the shortest one goes: what is inside of
    /// a step ends before it, and may be of more names than are followed.
    fn makes_room(&mut self, duration: f64) -> bool {
        if self.ranges.len() < MOST_NAMES {
            return true;
        }
        let others = self.ranges.iter();
        let shortest = others
            .filter(|(name, range)| self.step.as_ref() != Some(*name) && range.mean < duration)
            .min_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean))
            .map(|(name, _)| name.clone());
        shortest.is_some_and(|name| self.ranges.remove(&name).is_some())
    }

    fn measure(&mut self) {
        let Some(added) = self.pairs.upper() else {
            return;
        };
        if self.steps_recorded > 0 && self.step_launches > 0.0 {
            let launches = self.step_launches / self.steps_recorded as f64;
            self.cost = (added / launches).clamp(LEAST_COST, MOST_COST);
        }
    }
}
