//! Step times from a prediction of the model on a device.

use std::{cell::RefCell, collections::BTreeMap};

use llmprof_predict::{PredictError, StepTime};
use llmprof_theory::{Part, Sequences, Step};
use llmprof_units::Nanos;

use crate::{
    shift::Shift,
    step::{StepTimer, neighbor_contexts},
};

/// Predicts a step: on one device or on several.
pub type PredictStep<'p> = dyn Fn(&Step) -> Result<StepTime, PredictError> + 'p;

/// A predictor of steps, and why it failed if it did.
pub struct Predicted<'p> {
    predict: &'p PredictStep<'p>,
    /// Added to every step: what the engine does between two of them.
    overhead: Nanos,
    shift: Shift,
    failed: RefCell<Option<PredictError>>,
}

impl<'p> Predicted<'p> {
    pub fn new(predict: &'p PredictStep<'p>, overhead: Nanos) -> Result<Self, PredictError> {
        // A step that cannot be predicted is an error before the first step.
        let sequence = |new, cached| {
            Step::of_sequences([Sequences {
                count: 1,
                new,
                cached,
            }])
        };
        predict(&sequence(16, 0))?;
        predict(&sequence(1, 16))?;
        Ok(Self {
            predict,
            overhead,
            shift: Shift::default(),
            failed: RefCell::default(),
        })
    }

    /// The same with step times that benches shifted.
    #[must_use]
    pub fn with_shift(self, shift: Shift) -> Self {
        Self { shift, ..self }
    }

    fn predict_step(&self, step: &Step) -> Result<Nanos, PredictError> {
        let whole = (self.predict)(step)?.time_ns;
        if self.shift.is_none() {
            return Ok(whole);
        }
        let has_both = step.prefill.sequences() > 0 && step.decode.sequences() > 0;
        let decode = if has_both {
            (self.predict)(&Step::all_decode(step.decode.clone()))?.time_ns
        } else if step.decode.sequences() > 0 {
            whole
        } else {
            Nanos(0)
        };
        Ok(self.shift.shift_time(whole, decode))
    }

    /// Why a step had no prediction, if one had none: its time then counted as the overhead alone.
    pub fn first_failure(&self) -> Option<PredictError> {
        self.failed.borrow().clone()
    }
}

/// The decoding sequences at the nearest contexts of a grid, so that the predictor meets the same ones again: each counts at the grid's
/// context below and above by its distance, so that their number stays and the sum of contexts hardly changes. Time is as good as linear
/// between them.
fn on_grid(decode: &Part) -> Part {
    let mut weights: BTreeMap<u64, f64> = BTreeMap::new();
    for group in decode.sequence_groups() {
        let [low, high] = neighbor_contexts(group.cached);
        let above = group.cached.saturating_sub(low) as f64 / (high - low) as f64;
        let count = group.count as f64;
        *weights.entry(low).or_default() += count * (1.0 - above);
        *weights.entry(high).or_default() += count * above;
    }
    let mut left = 0.0;
    let mut groups = Vec::with_capacity(weights.len());
    for (cached, weight) in weights {
        let count = (weight + left).round();
        left += weight - count;
        if count > 0.0 {
            groups.push(Sequences {
                count: count as u64,
                new: 1,
                cached,
            });
        }
    }
    Part::Groups(groups)
}

impl StepTimer for Predicted<'_> {
    fn step_time(&self, step: &Step) -> Nanos {
        let step = Step {
            prefill: step.prefill.clone(),
            decode: on_grid(&step.decode),
            logits: step.logits,
        };
        match self.predict_step(&step) {
            Ok(time) => time + self.overhead,
            Err(error) => {
                self.failed.borrow_mut().get_or_insert(error);
                self.overhead
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_keeps_sequences_and_contexts() {
        assert_eq!(neighbor_contexts(1), [1, 2]);
        assert_eq!(neighbor_contexts(37), [36, 38]);
        assert_eq!(neighbor_contexts(4096), [4096, 4352]);
        let group = |count, cached| Sequences {
            count,
            new: 1,
            cached,
        };
        let exact = vec![group(3, 5), group(1, 700), group(40, 4100), group(7, 4200)];
        let exact = Part::Groups(exact);
        let rounded = on_grid(&exact);
        assert_eq!(rounded.sequences(), exact.sequences());
        let [rounded, exact] = [rounded, exact].map(|part| part.cached_tokens().unwrap() as f64);
        // Rounding moves less than one sequence from one place of the grid to the next.
        assert!((rounded - exact).abs() < 256.0, "{rounded} {exact}");
    }
}
