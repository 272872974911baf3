//! What slices really cost, where there are steps: the time from the beginning of a step to that of the next, with a slice
//! in it, against those around it.
//!
//! The time that switching takes and what launches cost are not all: a step after CUPTI has come or gone is slower, and the
//! time of a launch that is recorded differs from one host to another. So what is paid is multiplied by how much more
//! slices took than was counted.

use std::collections::VecDeque;

/// How many slices must have shown it.
const SAMPLES: usize = 5;
/// How many of the last ones it is from.
const LAST_SAMPLES: usize = 33;
/// How many plain cycles say what is usual.
const LAST_PLAIN: usize = 9;
/// How much more it is until then: an H200 host showed 1.2 to 1.6.
const PRIOR: f64 = 1.5;
/// A cycle that takes so many times as long as a plain one is a pause.
const PAUSE: f64 = 8.0;
/// More than so many times what was counted is not believed.
const MOST: f64 = 4.0;

/// Cycles of steps.
#[derive(Default)]
pub(super) struct Cycles {
    /// When the last step began, and what recording was like then.
    begun: Option<(i64, Moment)>,
    /// The last plain cycles, ns, the newest last.
    plain: VecDeque<f64>,
    /// By how much those of the last slice were longer, ns; nothing where that cannot be said.
    excess: Option<f64>,
    /// That over what was counted, the newest last.
    ratios: VecDeque<f64>,
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
    /// A step begins.
    pub(super) fn begin(&mut self, now: i64, moment: Moment) {
        let Some((since, before)) = self.begun.replace((now, moment)) else {
            return;
        };
        let cycle = (now - since) as f64;
        let is_plain = before.is_quiet && moment == before;
        let usual = median(&self.plain);
        let is_pause = usual.is_some_and(|usual| cycle > PAUSE * usual);
        if !is_plain {
            let longer = usual.filter(|_| !is_pause).map(|usual| cycle - usual);
            self.excess = self.excess.zip(longer).map(|(sum, longer)| sum + longer);
        } else if !is_pause {
            keep(&mut self.plain, cycle, LAST_PLAIN);
        }
    }

    /// The next slice begins; the last one was counted as `cost`, ns.
    pub(super) fn next_slice(&mut self, cost: f64) {
        if let Some(excess) = self.excess.replace(0.0)
            && cost > 0.0
        {
            keep(&mut self.ratios, excess / cost, LAST_SAMPLES);
        }
    }

    /// How much more slices take than is counted, at the upper end of what is known, and no less than that.
    pub(super) fn factor(&self) -> f64 {
        super::pairs::upper(&self.ratios, SAMPLES).map_or(PRIOR, |ratio| ratio.clamp(1.0, MOST))
    }
}

fn keep(values: &mut VecDeque<f64>, value: f64, most: usize) {
    values.push_back(value);
    if values.len() > most {
        values.pop_front();
    }
}

fn median(values: &VecDeque<f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices of one step every 20 steps, where CUPTI leaves two steps later, as the steps of 100 take: 30 for coming, 40
    /// for recording, 20 for leaving.
    fn factor(counted: f64, spike: impl Fn(i64) -> i64) -> f64 {
        let mut cycles = Cycles::default();
        let (mut now, mut changes) = (0, 0);
        for step in 0..600 {
            let (mut is_quiet, mut cycle) = (true, 100 + spike(step));
            match step % 20 {
                5 => {
                    cycles.begin(now, Moment { changes, is_quiet });
                    cycles.next_slice(counted);
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
    fn before_anything_was_measured_more_is_assumed() {
        assert_eq!(Cycles::default().factor(), 1.5);
    }
}
