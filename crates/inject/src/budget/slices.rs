//! The slices that were made, and what they cost by all that is counted.

use crate::gate::Slice;

/// When CUPTI has not left so long after a slice, ns, it will not, and the next slice may begin all the same.
pub(super) const STUCK: i64 = 5_000_000_000;

/// What is known of slices. The last one is counted until CUPTI has detached: until then launches are slow.
pub(super) struct Slices {
    /// How many cost anything.
    pub(super) count: u64,
    /// What the one that is being counted was made for.
    pub(super) kind: Slice,
    /// Whether one has begun that is not all counted.
    pub(super) owes: bool,
    /// When the last one ended.
    pub(super) ended: i64,
    /// What it costs, ns, and the part of that, as it is counted, which is switching.
    cost: f64,
    cost_of_switching: f64,
    /// The time of all switching, as far as it is counted, ns.
    pub(super) switched: i64,
    /// What switching comes to in a slice of steps, ns; 0 until there was one.
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
    /// Whether the next one may begin.
    pub(super) fn may_begin(&self, now: i64) -> bool {
        !self.owes || now.saturating_sub(self.ended) >= STUCK
    }

    /// The time of switching that is not counted yet, of so much in all, ns.
    pub(super) fn take_switching(&mut self, all: i64) -> f64 {
        let new = (all - self.switched).max(0) as f64;
        self.switched = all;
        self.cost_of_switching += new;
        new
    }

    /// The last slice costs so much more, ns.
    pub(super) fn add(&mut self, cost: f64) {
        self.cost += cost;
    }

    /// All of a slice is counted. Gives what the next one is to be expected to cost, where so much was `expected` so far. One in
    /// which recording was not wanted cost nothing, and says nothing of the next.
    pub(super) fn close(&mut self, expected: f64) -> f64 {
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
