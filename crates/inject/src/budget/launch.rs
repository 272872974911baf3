//! What a launch costs while it is recorded, by what recording adds to steps and how many launches they make.

use super::pairs::Pairs;
use crate::gate::Slice;

/// What a launch costs while it is recorded, ns, until steps have shown it: what an H200 host showed where nothing but launches
/// was made.
pub(super) const PRIOR_COST: f64 = 3000.0;
/// What it is taken to cost where there are no steps to show it, ns: with all that comes with a slice that makes the 12 µs that
/// an H200 host showed in a model, where another showed 7.
const UNMEASURED_COST: f64 = 8000.0;
/// A measured cost is believed down to this part of the prior one, ns.
const LEAST_COST: f64 = PRIOR_COST / 8.0;
/// A measured cost is believed up to this many times the prior one.
const MOST_COST: f64 = PRIOR_COST * 10.0;

/// The cost of a launch, and what shows it.
pub(super) struct LaunchCost {
    /// So much, ns.
    pub(super) cost: f64,
    /// From how many steps that is known; 0 where it is assumed.
    pub(super) samples: u64,
    pairs: Pairs,
    /// Steps that were recorded in slices of steps, and the launches in them.
    pub(super) steps: u64,
    pub(super) launches: f64,
}

impl Default for LaunchCost {
    fn default() -> Self {
        Self {
            cost: PRIOR_COST,
            samples: 0,
            pairs: Pairs::default(),
            steps: 0,
            launches: 0.0,
        }
    }
}

impl LaunchCost {
    /// Another range is the step from now on: what was seen of the last one says nothing of it, but the cost is the best that is
    /// known.
    pub(super) fn forget_steps(&mut self) {
        *self = Self {
            cost: self.cost,
            ..Self::default()
        };
    }

    /// What a launch is taken to cost in such a slice, ns.
    pub(super) fn in_slice(&self, slice: Slice) -> f64 {
        match slice {
            Slice::OfTime if self.samples == 0 => UNMEASURED_COST,
            _ => self.cost,
        }
    }

    /// Launches of a step.
    pub(super) fn per_step(&self) -> Option<f64> {
        (self.steps > 0 && self.launches > 0.0).then(|| self.launches / self.steps as f64)
    }

    /// A step took so long, ns; `recorded` says whether recording was on or off throughout, if either.
    pub(super) fn add_step(&mut self, duration: f64, recorded: Option<bool>) {
        self.pairs.add(duration, recorded);
        let added = self.pairs.added.upper();
        if let Some((added, launches)) = added.zip(self.per_step()) {
            self.cost = (added / launches).clamp(LEAST_COST, MOST_COST);
            self.samples = self.pairs.added.count();
        }
    }
}
