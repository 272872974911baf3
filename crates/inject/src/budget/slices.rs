//! The slices recorded so far and their counted cost.

use crate::gate::Slice;

/// If CUPTI has not detached by then, it will not; the next slice may begin nevertheless.
pub(super) const DETACH_STUCK_AFTER_NS: i64 = 5_000_000_000;

/// The last slice is accounted for until CUPTI has detached, because launches stay slow until then.
pub(super) struct Slices {
    /// Number of slices with a cost.
    pub(super) count: u64,
    /// Kind of the slice being accounted for.
    pub(super) kind: Slice,
    /// Whether a slice has begun that is not fully accounted for.
    pub(super) owes: bool,
    /// When the last slice ended.
    pub(super) ended: i64,
    /// Cost of the slice being accounted for, ns, and the switching time in it as counted.
    cost: f64,
    cost_of_switching: f64,
    /// Total switching time accounted for so far, ns.
    pub(super) switched: i64,
    /// Mean switching time of a slice of steps, ns; 0 until there was one.
    pub(super) switching: f64,
}

impl Default for Slices {
    fn default() -> Self {
        Self {
            count: 0,
            kind: Slice::OfTime,
            owes: false,
            ended: 0,
            cost: 0.0,
            cost_of_switching: 0.0,
            switched: 0,
            switching: 0.0,
        }
    }
}

impl Slices {
    /// Whether the next slice may begin.
    pub(super) fn may_begin(&self, now: i64) -> bool {
        !self.owes || now.saturating_sub(self.ended) >= DETACH_STUCK_AFTER_NS
    }

    /// Switching time not accounted for yet, ns; `all` is the total so far.
    pub(super) fn take_switching(&mut self, all: i64) -> f64 {
        let new = (all - self.switched).max(0) as f64;
        self.switched = all;
        self.cost_of_switching += new;
        new
    }

    /// Adds to the cost of the last slice, ns.
    pub(super) fn add_cost(&mut self, cost: f64) {
        self.cost += cost;
    }

    /// The slice is fully accounted for; returns the expected cost of the next, which was `expected` so far. A slice in which
    /// recording was not wanted cost nothing and is left out.
    pub(super) fn close_slice(&mut self, expected: f64) -> f64 {
        self.owes = false;
        let cost = std::mem::take(&mut self.cost);
        let switching = std::mem::take(&mut self.cost_of_switching);
        if cost <= 0.0 {
            return expected;
        }
        self.count += 1;
        let mean = |known: f64, new: f64, is_first| {
            if is_first {
                new
            } else {
                0.5 * known + 0.5 * new
            }
        };
        if self.kind == Slice::OfSteps {
            self.switching = mean(self.switching, switching, self.switching == 0.0);
        }
        mean(expected, cost, self.count == 1)
    }
}
