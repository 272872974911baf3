//! The real cost of slices of steps: cycles (from the begin of a step to the begin of the next) with a slice in them,
//! compared with the cycles around them.
//!
//! Switching time and launch costs are not everything: the step after attaching or detaching CUPTI is slower, and the cost
//! of a recorded launch differs between hosts. So the counted cost is multiplied by the ratio of measured to counted cost.

use super::samples::Samples;

/// Ratio of real to counted cost, assumed until enough slices were measured and without steps: 0.9 to 1.7 on H200 hosts.
const COST_FACTOR_PRIOR: f64 = 1.5;
/// A cycle this many times as long as a usual one is a pause of the program, not a cost of recording.
const PAUSE_MIN_CYCLES: f64 = 8.0;
/// Larger ratios are taken for outliers.
const COST_FACTOR_MAX: f64 = 4.0;

#[derive(Default)]
pub(super) struct Cycles {
    /// When the last step began, and the state of recording then.
    begun: Option<(i64, Moment)>,
    /// Whether that step has not ended yet.
    is_open: bool,
    /// The last cycles without recording, ns.
    plain: Samples<9>,
    /// By how much the cycles since the last slice began were longer than usual, ns; `None` if that cannot be told.
    excess: Option<f64>,
    /// Cost counted since the last slice of steps began, ns.
    pub(super) counted: f64,
    /// `excess` ÷ `counted` of past slices.
    ratios: Samples<33>,
}

/// State of recording at some moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment {
    /// How often recording was switched so far.
    pub(crate) changes: u64,
    /// Nothing is recorded and CUPTI is not being attached or detached.
    pub(crate) is_quiet: bool,
}

impl Cycles {
    pub(super) fn step_begins(&mut self, now: i64, moment: Moment) {
        let overlaps = std::mem::replace(&mut self.is_open, true);
        let Some((since, before)) = self.begun.replace((now, moment)) else {
            return;
        };
        if overlaps {
            // Overlapping steps (several threads, nesting): the time between their begins is not a cycle.
            self.excess = None;
            return;
        }
        let cycle = (now - since) as f64;
        let is_plain = before.is_quiet && moment == before;
        let usual = self.plain.median();
        let is_pause = usual.is_some_and(|usual| cycle > PAUSE_MIN_CYCLES * usual);
        if is_plain {
            // Pauses too: if all steps take that long from now on, it becomes the usual cycle.
            self.plain.add_value(cycle);
        } else {
            let longer = usual.filter(|_| !is_pause).map(|usual| cycle - usual);
            self.excess = self.excess.zip(longer).map(|(sum, longer)| sum + longer);
        }
    }

    /// A step ends that began at `start`.
    pub(super) fn step_ends(&mut self, start: i64) {
        if self.begun.is_some_and(|(since, _)| start >= since) {
            self.is_open = false;
        }
    }

    /// Returns the real cost for a counted cost, ns.
    pub(super) fn scale_cost(&mut self, counted: f64) -> f64 {
        self.counted += counted;
        counted * self.cost_factor()
    }

    /// The next slice of steps begins.
    pub(super) fn next_slice(&mut self) {
        let cost = std::mem::take(&mut self.counted);
        if let Some(excess) = self.excess.replace(0.0)
            && cost > 0.0
        {
            self.ratios.add_value(excess / cost);
        }
    }

    /// Ratio of real to counted cost: upper bound of the median, at least 1.
    pub(super) fn cost_factor(&self) -> f64 {
        let ratio = self.ratios.median_upper_bound();
        ratio.map_or(COST_FACTOR_PRIOR, |ratio| ratio.clamp(1.0, COST_FACTOR_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Factor after slices of one step in every 20 steps of 100: attaching takes 30, recording 40, and detaching two steps
    /// later 20.
    fn cost_factor_of(counted: f64, spike: impl Fn(i64) -> i64) -> f64 {
        let mut cycles = Cycles::default();
        let (mut now, mut changes) = (0, 0);
        for step in 0..600 {
            let (mut is_quiet, mut cycle) = (true, 100 + spike(step));
            match step % 20 {
                5 => {
                    cycles.step_begins(now, Moment { changes, is_quiet });
                    cycles.scale_cost(counted);
                    cycles.next_slice();
                    cycles.step_ends(now);
                    changes += 2;
                    now += cycle + 70;
                    continue;
                }
                // CUPTI is on its way, and takes its time in the second of these.
                6 => is_quiet = false,
                7 => {
                    is_quiet = false;
                    cycle += 20;
                    changes += 1;
                }
                _ => {}
            }
            cycles.step_begins(
                now,
                Moment {
                    changes: changes - u64::from(step % 20 == 7),
                    is_quiet,
                },
            );
            cycles.step_ends(now);
            now += cycle;
        }
        cycles.cost_factor()
    }

    #[test]
    fn what_slices_take_is_measured() {
        assert_eq!(cost_factor_of(60.0, |_| 0), 1.5);
        assert_eq!(cost_factor_of(30.0, |_| 0), 3.0);
        // Less than was counted is not believed, nor is much more.
        assert_eq!(cost_factor_of(120.0, |_| 0), 1.0);
        assert_eq!(cost_factor_of(5.0, |_| 0), 4.0);
    }

    #[test]
    fn steps_that_take_longer_now_and_then_do_not_matter() {
        let measured = cost_factor_of(45.0, |step| if step % 23 == 3 { 150 } else { step % 3 });
        assert!((1.9..2.4).contains(&measured), "{measured}");
    }

    #[test]
    fn pauses_are_left_out() {
        let measured = cost_factor_of(45.0, |step| if step % 60 == 9 { 5000 } else { 0 });
        assert_eq!(measured, 2.0);
    }

    #[test]
    fn steps_that_all_take_longer_are_not_pauses() {
        // Ten times as long, and so is what slices take.
        let mut cycles = Cycles::default();
        let (mut now, mut changes) = (0, 0);
        for step in 0..1000 {
            let usual = if step < 100 { 100 } else { 1000 };
            cycles.step_begins(
                now,
                Moment {
                    changes,
                    is_quiet: true,
                },
            );
            cycles.step_ends(now);
            now += usual;
            if step % 20 == 5 {
                cycles.scale_cost(50.0);
                cycles.next_slice();
                changes += 2;
                now += if step < 100 { 150 } else { 100 };
            }
        }
        assert_eq!(cycles.cost_factor(), 2.0);
    }

    #[test]
    fn steps_across_each_other_show_nothing() {
        let mut cycles = Cycles::default();
        for step in 0..600 {
            let (now, changes) = (100 * step, (step / 20) as u64);
            cycles.step_begins(
                now,
                Moment {
                    changes,
                    is_quiet: true,
                },
            );
            if step % 20 == 5 {
                cycles.scale_cost(1.0);
                cycles.next_slice();
            }
            // Of the thread that began the one before.
            cycles.step_ends(now - 100);
        }
        assert_eq!(cycles.cost_factor(), COST_FACTOR_PRIOR);
    }

    #[test]
    fn before_anything_was_measured_more_is_assumed() {
        assert_eq!(Cycles::default().cost_factor(), 1.5);
    }
}
