//! Cost of a recorded launch: the time that recording adds to a step, divided by the launches of the step.

use super::pairs::Pairs;
use crate::gate::Slice;

/// Assumed cost of a recorded launch until it was measured: that of an H200 host in a loop of launches only.
pub(super) const LAUNCH_COST_PRIOR_NS: f64 = 3000.0;
/// Assumed cost of a recorded launch without steps. Times the cost factor of 1.5 it is the 12 µs that one H200 host took
/// in a model; another took 7.
const LAUNCH_COST_WITHOUT_STEPS_NS: f64 = 8000.0;
/// Lower measured costs are taken for noise.
const LAUNCH_COST_MIN_NS: f64 = LAUNCH_COST_PRIOR_NS / 8.0;
/// Higher measured costs are taken for noise.
const LAUNCH_COST_MAX_NS: f64 = LAUNCH_COST_PRIOR_NS * 10.0;

pub(super) struct LaunchCost {
    /// Cost of a recorded launch, ns.
    pub(super) cost: f64,
    /// Number of steps it was measured on; 0: assumed.
    pub(super) samples: u64,
    pairs: Pairs,
    /// Steps recorded in slices of steps; `launches` are theirs.
    pub(super) steps: u64,
    pub(super) launches: f64,
}

impl Default for LaunchCost {
    fn default() -> Self {
        Self {
            cost: LAUNCH_COST_PRIOR_NS,
            samples: 0,
            pairs: Pairs::default(),
            steps: 0,
            launches: 0.0,
        }
    }
}

impl LaunchCost {
    /// Another range is the step from now on: drops the samples of the old one and keeps the cost as the best estimate.
    pub(super) fn forget_steps(&mut self) {
        *self = Self {
            cost: self.cost,
            ..Self::default()
        };
    }

    /// Cost of a launch in a slice of this kind, ns.
    pub(super) fn in_slice(&self, slice: Slice) -> f64 {
        match slice {
            Slice::OfTime if self.samples == 0 => LAUNCH_COST_WITHOUT_STEPS_NS,
            _ => self.cost,
        }
    }

    /// Mean launches of a step.
    pub(super) fn per_step(&self) -> Option<f64> {
        (self.steps > 0 && self.launches > 0.0).then(|| self.launches / self.steps as f64)
    }

    /// Adds a step. `recorded`: recording was on (or off) during the whole step; `None` if it was switched meanwhile.
    pub(super) fn add_step(&mut self, duration: f64, recorded: Option<bool>) {
        self.pairs.add_step(duration, recorded);
        let added = self.pairs.added.median_upper_bound();
        if let Some((added, launches)) = added.zip(self.per_step()) {
            self.cost = (added / launches).clamp(LAUNCH_COST_MIN_NS, LAUNCH_COST_MAX_NS);
            self.samples = self.pairs.added.count();
        }
    }
}
