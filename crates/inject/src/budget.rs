//! Keeping the cost of recording within a share of the time.
//!
//! Recording is on in slices. Time earns credit at the rate of the share: that of steps where there are any, else that in
//! which the process used a processor, since one that rests has nothing to lose. A slice begins when there is credit for
//! what the last ones cost, and its cost is taken off afterwards: the time that switching took, and every launch it
//! recorded at what a launch costs. Credit does not pile up beyond one slice, so that a busy time after an idle one pays
//! no more than its share.
//!
//! Slices hold whole steps where ranges show them: the longest range that comes back, up to [`LONGEST_STEP`], is taken
//! for a step. Without such ranges a slice is a stretch of time, and whoever reads the trace finds the steps in it.
//!
//! What a launch costs is measured where there are steps: the time of a recorded step less the mean of the plain steps
//! before and after it, since the speed of a host drifts. The median of these differences, at the upper end of its
//! uncertainty, over the launches of a step is the cost. Before that, and without steps, [`PRIOR_COST`] is assumed.

mod pairs;

use std::collections::HashMap;
use std::sync::Mutex;

use self::pairs::Pairs;
use crate::gate::Switches;
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
/// How long a slice is without steps, ns.
const TIMED_SLICE: i64 = 100_000_000;
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
    slice_cost: f64,
    slices: u64,
    /// Whether the slice that is being counted holds whole steps.
    is_of_steps: bool,
    /// Steps that were recorded in slices of steps, and the launches in them.
    steps_recorded: u64,
    step_launches: f64,
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
                slices: 0,
                is_of_steps: false,
                steps_recorded: 0,
                step_launches: 0.0,
            }),
        })
    }

    /// A range of this name begins; true if a slice begins with it.
    pub(crate) fn begins(&self, name: &[u8], now: i64) -> bool {
        let Ok(mut state) = self.state.lock() else {
            return false;
        };
        let is_step = state.step.as_deref() == Some(name);
        if !is_step || !matches!(state.phase, Phase::Armed(_)) {
            return false;
        }
        let length = state.ranges.get(name).map_or(0.0, |range| range.mean);
        let steps = (LEAST_SLICE as f64 / length.max(1.0)).ceil().max(1.0);
        state.phase = Phase::Steps(now, steps as u64);
        state.is_of_steps = true;
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

    /// Time passes, and `launches` more launches were recorded, a kernel of a graph being [`KERNEL_OF_GRAPH`]. `now` is
    /// the time, and the processor time that the process has used. Says whether to switch recording on or off now.
    pub(crate) fn tick(
        &self,
        (now, used): (i64, i64),
        launches: f64,
        switches: Switches,
        is_wanted: bool,
    ) -> Option<bool> {
        let mut state = self.state.lock().ok()?;
        state.pay((now, used), launches, switches);
        match state.phase {
            // Of two threads one began a slice and the other ended it, and the gate heard of them the other way round.
            Phase::Off if switches.is_on => Some(false),
            Phase::Off if is_wanted && state.credit >= state.expected => {
                if state.step.is_some() {
                    state.phase = Phase::Armed(now);
                    None
                } else {
                    state.phase = Phase::Timed(now + TIMED_SLICE);
                    state.is_of_steps = false;
                    Some(true)
                }
            }
            Phase::Armed(since) if now - since >= PATIENCE => {
                // The steps have stopped; what runs now is recorded by time.
                state.is_of_steps = false;
                state.phase = Phase::Timed(now + TIMED_SLICE);
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

    fn pay(&mut self, (now, used): (i64, i64), launches: f64, switches: Switches) {
        let since = self.last.max(self.earned_until);
        let busy = (now - since).min(used - self.used).max(0);
        let earned = self.share * busy as f64;
        self.last = now;
        self.used = used;
        let switching = (switches.time - self.switched).max(0) as f64;
        self.switched = switches.time;
        let paid = switching + launches * self.cost;
        if self.is_of_steps {
            self.step_launches += launches;
        }
        if paid > 0.0 {
            self.slice_cost += paid;
        }
        let is_counted = launches <= 0.0 && !switches.is_open_ended;
        if self.phase == Phase::Off && self.slice_cost > 0.0 && is_counted {
            // The slice is over and all of it is counted.
            self.slices += 1;
            self.expected = match self.slices {
                1 => self.slice_cost,
                _ => 0.5 * self.expected + 0.5 * self.slice_cost,
            };
            self.slice_cost = 0.0;
        }
        self.credit = (self.credit + earned).min(self.expected) - paid;
    }

    fn learn(&mut self, name: &[u8], (start, end): (i64, i64), recorded: Option<bool>) {
        if !self.ranges.contains_key(name) && self.ranges.len() >= MOST_NAMES {
            return;
        }
        let duration = (end - start) as f64;
        let range = self.ranges.entry(name.into()).or_default();
        range.count += 1;
        range.mean += (duration - range.mean) / range.count as f64;
        range.last = (start, end);
        let (count, mean) = (range.count, range.mean);
        let may_be = count >= REPEATS && mean <= LONGEST_STEP && !range.is_inside;
        let is_new = self.step.as_deref() != Some(name);
        if may_be && is_new && !matches!(self.phase, Phase::Steps(..)) {
            let known = self
                .step
                .as_ref()
                .and_then(|step| self.ranges.get_mut(step));
            let is_longer = known.is_none_or(|known| {
                // The model is nearly all of a step, and in prefill longer; but the step is what is around it.
                known.is_inside = start <= known.last.0 && known.last.1 <= end;
                // By more than a little, or two that are alike would change places for ever.
                known.is_inside || mean > 1.2 * known.mean
            });
            if is_longer {
                self.step = Some(name.into());
                self.pairs = Pairs::default();
            }
        }
        if self.step.as_deref() == Some(name) {
            self.pairs.add(duration, recorded);
            self.measure();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Nothing has happened before `start`.
    fn begin(budget: &Budget, start: i64) {
        let mut state = budget.state.lock().unwrap();
        (state.last, state.used) = (start, start);
    }

    /// A program whose every step makes `launches` launches and takes `step`, plus `cost` per launch when recorded.
    /// Returns the share of time that recording cost, the steps recorded whole and the steps in all.
    fn simulate(ppm: u32, step: i64, launches: u64, cost: i64, ranges: bool) -> (f64, u64, u64) {
        simulate_switching(ppm, (step, launches, cost), ranges, (MS / 10, MS / 10, 0))
    }

    /// The same, where it takes so long to put recording on and off, and a step later for CUPTI to leave.
    fn simulate_switching(
        ppm: u32,
        (step, launches, cost): (i64, u64, i64),
        ranges: bool,
        (starting, stopping, leaving): (i64, i64, i64),
    ) -> (f64, u64, u64) {
        let budget = Budget::new(ppm, leaving > 0).unwrap();
        let start = sys::now();
        begin(&budget, start);
        let (mut now, mut on, mut paid) = (start, false, 0);
        let mut switches = Switches::default();
        let (mut whole, mut steps, mut pending) = (0, 0, 0.0);
        let switch =
            |on: &mut bool, to: bool, switches: &mut Switches, now: &mut i64, paid: &mut i64| {
                assert_ne!(*on, to);
                *on = to;
                let took = if to { starting } else { stopping };
                switches.count += 1;
                switches.time += took;
                switches.is_open_ended = !to && leaving > 0;
                *now += took;
                *paid += took;
            };
        while now - start < 20_000 * MS {
            if ranges && budget.begins(b"decode_step", now) {
                switch(&mut on, true, &mut switches, &mut now, &mut paid);
            }
            let began = (now, on);
            let mut mixed = false;
            // Our thread ticks during the step.
            for _ in 0..4 {
                now += step / 4;
                if on {
                    let extra = cost * launches as i64 / 4;
                    now += extra;
                    paid += extra;
                    pending += launches as f64 / 4.0;
                }
                let counted = if on {
                    0.0
                } else {
                    std::mem::take(&mut pending)
                };
                if let Some(to) = budget.tick((now, now), counted, switches, true) {
                    switch(&mut on, to, &mut switches, &mut now, &mut paid);
                    mixed = true;
                }
            }
            if switches.is_open_ended && !on && !mixed {
                switches.is_open_ended = false;
                switches.time += leaving;
                now += leaving;
                paid += leaving;
                mixed = true;
            }
            steps += 1;
            whole += u64::from(began.1 && !mixed);
            if ranges {
                let recorded = (!mixed).then_some(began.1);
                if budget.ends(b"decode_step", (began.0, now), recorded) {
                    switch(&mut on, false, &mut switches, &mut now, &mut paid);
                }
            }
        }
        (paid as f64 / (now - start) as f64, whole, steps)
    }

    #[test]
    fn the_share_is_kept_and_used() {
        for ranges in [true, false] {
            for (step, launches, cost) in [
                (20 * MS, 1000, 2500),
                (2 * MS, 4, 2500),
                (60 * MS, 3000, 500),
            ] {
                let (share, whole, steps) = simulate(20_000, step, launches, cost, ranges);
                assert!(
                    share <= 0.0205,
                    "{share} at {step} {launches} {cost} {ranges}"
                );
                assert!(whole > 3 && whole < steps, "{whole} of {steps}");
            }
        }
    }

    #[test]
    fn the_share_is_kept_where_cupti_leaves_and_comes_back() {
        let switching = [
            (15 * MS, MS / 10, 5 * MS),
            (5 * MS, MS / 10, 15 * MS),
            (MS, MS / 10, MS),
        ];
        for switching in switching {
            for ranges in [true, false] {
                let step = (15 * MS, 1000, 2500);
                let (share, whole, steps) = simulate_switching(20_000, step, ranges, switching);
                assert!(share <= 0.0205, "{share} at {switching:?} {ranges}");
                assert!(share >= 0.015, "{share} at {switching:?} {ranges}");
                assert!(whole > 10 && whole < steps, "{whole} of {steps}");
            }
        }
    }

    #[test]
    fn a_launch_that_costs_more_than_assumed_is_noticed() {
        let (share, ..) = simulate(20_000, 20 * MS, 1000, 9_000, true);
        assert!(share <= 0.025, "{share}");
    }

    #[test]
    fn the_cost_of_a_launch_is_measured_on_a_host_that_drifts() {
        let budget = Budget::new(20_000, false).unwrap();
        budget.state.lock().unwrap().step = Some(b"step".as_slice().into());
        for round in 0..20 {
            // The host halves its speed midway, and every seventh step is three times as long.
            let speed = if round < 10 { 1 } else { 2 };
            for step in 0..6 {
                let spike = if (round * 6 + step) % 7 == 3 { 3 } else { 1 };
                let recorded = step == 3;
                let length = 15 * MS * speed * spike + if recorded { 2 * MS } else { 0 };
                budget.ends(b"step", (0, length), Some(recorded));
            }
            let mut state = budget.state.lock().unwrap();
            state.steps_recorded += 1;
            state.step_launches += 1000.0;
        }
        let (cost, samples) = budget.launch_cost();
        assert_eq!(samples, 20);
        assert!(
            (1900..2600).contains(&cost),
            "{cost} ns where 2000 were added"
        );
    }

    #[test]
    fn a_larger_share_records_more() {
        let (_, few, _) = simulate(10_000, 20 * MS, 1000, 2500, true);
        let (_, many, _) = simulate(50_000, 20 * MS, 1000, 2500, true);
        assert!(many > 3 * few, "{few} {many}");
    }

    #[test]
    fn the_longest_range_that_comes_back_is_the_step() {
        let budget = Budget::new(20_000, false).unwrap();
        for _ in 0..4 {
            budget.ends(b"layer", (0, MS), Some(false));
            budget.ends(b"layer", (0, MS), Some(false));
            budget.ends(b"decode_step", (0, 20 * MS), Some(false));
            budget.ends(b"request", (0, 900 * MS), Some(false));
        }
        let state = budget.state.lock().unwrap();
        assert_eq!(state.step.as_deref(), Some(b"decode_step".as_slice()));
    }

    #[test]
    fn a_step_is_what_is_around_a_model_and_hardly_longer() {
        let budget = Budget::new(20_000, false).unwrap();
        for step in 0..6 {
            let begin = 300 * step * MS;
            // The model of a prefill is longer than one of decode, and comes first.
            let end = begin + if step == 0 { 200 * MS } else { 19 * MS };
            budget.ends(b"model", (begin + 1, end), Some(false));
            if step > 0 {
                budget.ends(b"decode_step", (begin, end + MS / 2), Some(false));
            }
        }
        let state = budget.state.lock().unwrap();
        assert_eq!(state.step.as_deref(), Some(b"decode_step".as_slice()));
    }

    #[test]
    fn a_slice_that_began_after_its_end_is_ended() {
        let budget = Budget::new(20_000, false).unwrap();
        let stray = Switches {
            is_on: true,
            ..Switches::default()
        };
        let now = (sys::now(), 0);
        assert_eq!(budget.tick(now, 0.0, stray, true), Some(false));
    }

    #[test]
    fn a_process_that_rests_earns_nothing() {
        let budget = Budget::new(20_000, false).unwrap();
        let start = sys::now();
        begin(&budget, start);
        let off = Switches::default();
        let mut used = start;
        // It works for a tenth of the time, and the first slice is worth 150 ms of work.
        let mut slices = Vec::new();
        for step in 1..=200 {
            used += MS;
            let now = start + step * 10 * MS;
            if budget.tick((now, used), 0.0, off, true).is_some() {
                slices.push(step);
                break;
            }
        }
        assert_eq!(slices, [150]);
    }

    #[test]
    fn nothing_is_switched_while_recording_is_not_wanted() {
        let budget = Budget::new(20_000, false).unwrap();
        let start = sys::now();
        begin(&budget, start);
        for second in 0..100 {
            let now = start + second * 1000 * MS;
            let off = Switches::default();
            assert_eq!(budget.tick((now, now), 0.0, off, false), None);
        }
        // What was earned meanwhile is worth one slice.
        let now = start + 200_000 * MS;
        let off = Switches::default();
        assert_eq!(budget.tick((now, now), 0.0, off, true), Some(true));
        let state = budget.state.lock().unwrap();
        assert!(state.credit <= state.expected);
    }
}
