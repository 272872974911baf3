//! Credit for slices: earned by the time of steps or of the processor, spent on what recording costs.

use super::launch::PRIOR_COST;

/// What a slice costs, ns, until one has shown it: a thousand launches.
pub(super) const PRIOR_SLICE: f64 = 1000.0 * PRIOR_COST;
/// What it costs for CUPTI to leave and come back, ns, until it was measured: an H200 showed 11 to 30 ms.
const PRIOR_RETURN: f64 = 20e6;
/// The part of the time that graphs take longer while CUPTI stays for them and nothing is recorded: an H200 showed 0.7 to 1.9 %
/// for a small model.
const STANDING: f64 = 0.018;
/// The least part of the share that is left for slices, whatever else costs.
const LEAST_LEFT: f64 = 0.1;
/// When no step has ended for so long, ns, time earns credit again.
pub(super) const STEPS_STOP: i64 = 1_000_000_000;
/// How long our thread waits for credit at least, ns.
const PAUSE: i64 = 10_000_000;

/// What may be spent, ns: no more than one slice is expected to cost.
pub(super) struct Credit {
    pub(super) share: f64,
    pub(super) amount: f64,
    /// What the next slice will cost, ns.
    pub(super) expected: f64,
    /// Whether CUPTI stays for graphs, which is paid from the share as well.
    stays: bool,
    /// When time was last counted, and the processor time of the process by then.
    pub(super) last: i64,
    pub(super) used: i64,
    /// Up to when time or steps have earned. Steps of two threads, or inside of one another, do not earn twice.
    earned_to: i64,
    /// Until when time earns nothing, since steps do.
    steps_until: i64,
}

impl Credit {
    /// None yet. With `detaches` CUPTI is detached between slices.
    pub(super) fn new(share: f64, detaches: bool, (now, used): (i64, i64)) -> Self {
        Self {
            share,
            amount: 0.0,
            expected: PRIOR_SLICE + if detaches { PRIOR_RETURN } else { 0.0 },
            stays: false,
            last: now,
            used,
            earned_to: i64::MIN,
            steps_until: i64::MIN,
        }
    }

    /// What of the share is left for slices.
    fn left(&self) -> f64 {
        if self.stays {
            (self.share - STANDING).max(LEAST_LEFT * self.share)
        } else {
            self.share
        }
    }

    /// Whether there is credit for a slice.
    pub(super) fn is_enough(&self) -> bool {
        self.amount >= self.expected
    }

    /// When there may be credit for a slice. Not at once, or the thread would spin while the process rests or recording is not
    /// wanted.
    pub(super) fn next_slice(&self) -> i64 {
        let missing = (self.expected - self.amount).max(0.0);
        self.last + ((missing / self.left()) as i64).max(PAUSE)
    }

    /// CUPTI stays for graphs: it need not come back from now on.
    pub(super) fn stay(&mut self) {
        if !std::mem::replace(&mut self.stays, true) {
            self.expected = self.expected.min(PRIOR_SLICE);
        }
    }

    pub(super) fn earn_step(&mut self, start: i64, end: i64) {
        let earned = (end - start.max(self.earned_to)).max(0);
        self.amount = (self.amount + self.left() * earned as f64).min(self.expected);
        self.earned_to = self.earned_to.max(end);
        self.steps_until = end + STEPS_STOP;
    }

    /// Time passes, of which the process has used a processor for so long in all; what that earns, for [`Self::settle`].
    pub(super) fn pass(&mut self, now: i64, used: i64) -> f64 {
        let since = self.last.max(self.steps_until);
        let busy = (now - since).min(used - self.used).max(0);
        if now > since {
            self.earned_to = now;
        }
        (self.last, self.used) = (now, used);
        self.left() * busy as f64
    }

    /// Adds what was earned, as far as there is room for it, and takes off what was spent.
    pub(super) fn settle(&mut self, earned: f64, spent: f64) {
        self.amount = (self.amount + earned).min(self.expected) - spent;
    }
}
