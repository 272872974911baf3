//! Credit for slices, ns: earned by step time or CPU time, spent on the cost of recording.

use super::launch::LAUNCH_COST_PRIOR_NS;

/// Assumed cost of a slice until one was measured: a thousand launches.
pub(super) const SLICE_COST_PRIOR_NS: f64 = 1000.0 * LAUNCH_COST_PRIOR_NS;
/// Assumed cost of detaching and attaching CUPTI until it was measured: an H200 took 11 to 30 ms.
const REATTACH_COST_PRIOR_NS: f64 = 20e6;
/// Slowdown of CUDA Graphs while CUPTI is attached and nothing is recorded: 0.7 to 1.9 % on an H200 with a small model.
const ATTACHED_GRAPHS_SLOWDOWN: f64 = 0.018;
/// At least this part of the budget is left for slices, so that something is recorded even if graphs use up the budget.
const SLICES_MIN_SHARE: f64 = 0.1;
/// If no step has ended for this long, CPU time earns credit again.
pub(super) const STEPS_STOPPED_AFTER_NS: i64 = 1_000_000_000;
/// Minimum wait of our thread for credit, so that it does not spin.
const CREDIT_WAIT_MIN_NS: i64 = 10_000_000;

/// The credit is capped at the expected cost of one slice.
pub(super) struct Credit {
    pub(super) share: f64,
    pub(super) amount: f64,
    /// Expected cost of the next slice, ns.
    pub(super) expected: f64,
    /// Whether CUPTI stays attached for CUDA Graphs, whose slowdown is paid from the budget as well.
    stays: bool,
    /// When time last earned credit, and the CPU time of the process then.
    pub(super) last: i64,
    pub(super) used: i64,
    /// Time up to this moment has earned credit. Overlapping steps (two threads, nesting) do not earn twice.
    earned_to: i64,
    /// Until this moment only steps earn credit.
    steps_until: i64,
}

impl Credit {
    /// No credit yet. With `detaches` CUPTI detaches between slices, so a slice is expected to cost more.
    pub(super) fn new(share: f64, detaches: bool, (now, used): (i64, i64)) -> Self {
        Self {
            share,
            amount: 0.0,
            expected: SLICE_COST_PRIOR_NS
                + if detaches {
                    REATTACH_COST_PRIOR_NS
                } else {
                    0.0
                },
            stays: false,
            last: now,
            used,
            earned_to: i64::MIN,
            steps_until: i64::MIN,
        }
    }

    /// Part of the budget that is left for slices.
    fn share_for_slices(&self) -> f64 {
        if self.stays {
            (self.share - ATTACHED_GRAPHS_SLOWDOWN).max(SLICES_MIN_SHARE * self.share)
        } else {
            self.share
        }
    }

    /// Whether there is credit for a slice.
    pub(super) fn is_enough(&self) -> bool {
        self.amount >= self.expected
    }

    /// Earliest time with credit for a slice; never immediately, or our thread would spin while the process is idle or
    /// recording is not wanted.
    pub(super) fn next_slice(&self) -> i64 {
        let missing = (self.expected - self.amount).max(0.0);
        self.last + ((missing / self.share_for_slices()) as i64).max(CREDIT_WAIT_MIN_NS)
    }

    /// CUPTI stays attached for CUDA Graphs: slices no longer pay for attaching it.
    pub(super) fn keep_attached(&mut self) {
        if !std::mem::replace(&mut self.stays, true) {
            self.expected = self.expected.min(SLICE_COST_PRIOR_NS);
        }
    }

    pub(super) fn earn_step(&mut self, start: i64, end: i64) {
        let earned = (end - start.max(self.earned_to)).max(0);
        self.amount = (self.amount + self.share_for_slices() * earned as f64).min(self.expected);
        self.earned_to = self.earned_to.max(end);
        self.steps_until = end + STEPS_STOPPED_AFTER_NS;
    }

    /// Returns the credit earned since the last call, to be passed to [`Self::settle_credit`]. `used` is the CPU time of the
    /// process in total.
    pub(super) fn earn_time(&mut self, now: i64, used: i64) -> f64 {
        let since = self.last.max(self.steps_until);
        let busy = (now - since).min(used - self.used).max(0);
        if now > since {
            self.earned_to = now;
        }
        (self.last, self.used) = (now, used);
        self.share_for_slices() * busy as f64
    }

    /// Adds `earned` up to the cap, then deducts `spent`.
    pub(super) fn settle_credit(&mut self, earned: f64, spent: f64) {
        self.amount = (self.amount + earned).min(self.expected) - spent;
    }
}
