//! What slices really cost, where there are steps: the time from the beginning of a step to that of the next, with a slice
//! in it, against those around it.
//!
//! The time that switching takes and what launches cost are not all: a step after CUPTI has come or gone is slower, and the
//! time of a launch that is recorded differs from one host to another. So what is paid is multiplied by how much more
//! slices took than was counted.

use super::samples::Samples;

/// How much more it is until enough slices have shown it, and without steps: H200 hosts showed 0.9 to 1.7.
const PRIOR: f64 = 1.5;
/// A cycle that takes so many times as long as a plain one is a pause.
const PAUSE: f64 = 8.0;
/// More than so many times what was counted is not believed.
const MOST: f64 = 4.0;

#[derive(Default)]
pub(super) struct Cycles {
    /// When the last step began, and what recording was like then.
    begun: Option<(i64, Moment)>,
    /// Whether it has not ended.
    is_open: bool,
    /// The last plain cycles, ns: what is usual.
    plain: Samples<9>,
    /// By how much those of the last slice were longer, ns; nothing where that cannot be said.
    excess: Option<f64>,
    /// What was counted since the last slice of steps began, ns.
    pub(super) counted: f64,
    /// The excess over that.
    ratios: Samples<33>,
}

/// What recording is like at some moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment {
    /// How often that has changed.
    pub(crate) changes: u64,
    /// Nothing is recorded, and CUPTI is not on its way.
    pub(crate) is_quiet: bool,
}

impl Cycles {
    pub(super) fn begin(&mut self, now: i64, moment: Moment) {
        let overlaps = std::mem::replace(&mut self.is_open, true);
        let Some((since, before)) = self.begun.replace((now, moment)) else {
            return;
        };
        if overlaps {
            // Steps of several threads, or inside of one another: the time between two of them says nothing.
            self.excess = None;
            return;
        }
        let cycle = (now - since) as f64;
        let is_plain = before.is_quiet && moment == before;
        let usual = self.plain.median();
        let is_pause = usual.is_some_and(|usual| cycle > PAUSE * usual);
        if is_plain {
            // Pauses as well: where all steps take as long from now on, that is usual.
            self.plain.add(cycle);
        } else {
            let longer = usual.filter(|_| !is_pause).map(|usual| cycle - usual);
            self.excess = self.excess.zip(longer).map(|(sum, longer)| sum + longer);
        }
    }

    /// The step that began at `start` or shortly before ends.
    pub(super) fn end(&mut self, start: i64) {
        if self.begun.is_some_and(|(since, _)| start >= since) {
            self.is_open = false;
        }
    }

    /// So much was counted, ns; what it is taken to cost with all that comes with a slice.
    pub(super) fn pay(&mut self, counted: f64) -> f64 {
        self.counted += counted;
        counted * self.factor()
    }

    /// The next slice of steps begins.
    pub(super) fn next_slice(&mut self) {
        let cost = std::mem::take(&mut self.counted);
        if let Some(excess) = self.excess.replace(0.0)
            && cost > 0.0
        {
            self.ratios.add(excess / cost);
        }
    }

    /// How much more slices take than is counted, at the upper end of what is known, and no less than that.
    pub(super) fn factor(&self) -> f64 {
        let ratio = self.ratios.upper();
        ratio.map_or(PRIOR, |ratio| ratio.clamp(1.0, MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices of one step every 20 steps, where CUPTI detaches two steps later, as the steps of 100 take: 30 for coming, 40
    /// for recording, 20 for leaving.
    fn factor(counted: f64, spike: impl Fn(i64) -> i64) -> f64 {
        let mut cycles = Cycles::default();
        let (mut now, mut changes) = (0, 0);
        for step in 0..600 {
            let (mut is_quiet, mut cycle) = (true, 100 + spike(step));
            match step % 20 {
                5 => {
                    cycles.begin(now, Moment { changes, is_quiet });
                    cycles.pay(counted);
                    cycles.next_slice();
                    cycles.end(now);
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
            cycles.begin(
                now,
                Moment {
                    changes: changes - u64::from(step % 20 == 7),
                    is_quiet,
                },
            );
            cycles.end(now);
            now += cycle;
        }
        cycles.factor()
    }

    #[test]
    fn what_slices_take_is_measured() {
        assert_eq!(factor(60.0, |_| 0), 1.5);
        assert_eq!(factor(30.0, |_| 0), 3.0);
        // Less than was counted is not believed, nor is much more.
        assert_eq!(factor(120.0, |_| 0), 1.0);
        assert_eq!(factor(5.0, |_| 0), 4.0);
    }

    #[test]
    fn steps_that_take_longer_now_and_then_do_not_matter() {
        let measured = factor(45.0, |step| if step % 23 == 3 { 150 } else { step % 3 });
        assert!((1.9..2.4).contains(&measured), "{measured}");
    }

    #[test]
    fn pauses_are_left_out() {
        let measured = factor(45.0, |step| if step % 60 == 9 { 5000 } else { 0 });
        assert_eq!(measured, 2.0);
    }

    #[test]
    fn steps_that_all_take_longer_are_not_pauses() {
        // Ten times as long, and so is what slices take.
        let mut cycles = Cycles::default();
        let (mut now, mut changes) = (0, 0);
        for step in 0..1000 {
            let usual = if step < 100 { 100 } else { 1000 };
            cycles.begin(
                now,
                Moment {
                    changes,
                    is_quiet: true,
                },
            );
            cycles.end(now);
            now += usual;
            if step % 20 == 5 {
                cycles.pay(50.0);
                cycles.next_slice();
                changes += 2;
                now += if step < 100 { 150 } else { 100 };
            }
        }
        assert_eq!(cycles.factor(), 2.0);
    }

    #[test]
    fn steps_across_each_other_show_nothing() {
        let mut cycles = Cycles::default();
        for step in 0..600 {
            let (now, changes) = (100 * step, (step / 20) as u64);
            cycles.begin(
                now,
                Moment {
                    changes,
                    is_quiet: true,
                },
            );
            if step % 20 == 5 {
                cycles.pay(1.0);
                cycles.next_slice();
            }
            // Of the thread that began the one before.
            cycles.end(now - 100);
        }
        assert_eq!(cycles.factor(), PRIOR);
    }

    #[test]
    fn before_anything_was_measured_more_is_assumed() {
        assert_eq!(Cycles::default().factor(), 1.5);
    }
}
