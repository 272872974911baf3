//! Step times from a prediction of the model on a device.

use std::cell::RefCell;

use llmprof_predict::{PredictError, StepTime};
use llmprof_theory::{Sequences, Step};
use llmprof_units::Nanos;

use crate::step::StepTimer;

/// Predicts a step: on one device or on several.
pub type PredictStep<'p> = dyn Fn(&Step) -> Result<StepTime, PredictError> + 'p;

/// A predictor of steps, and why it failed if it did.
pub struct Predicted<'p> {
    predict: &'p PredictStep<'p>,
    /// Added to every step: what the engine does between two of them.
    overhead: Nanos,
    failed: RefCell<Option<PredictError>>,
}

impl<'p> Predicted<'p> {
    pub fn new(predict: &'p PredictStep<'p>, overhead: Nanos) -> Result<Self, PredictError> {
        // What cannot be predicted is found before the first step.
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
            failed: RefCell::default(),
        })
    }

    /// Why a step had no prediction, if one had none: its time then counted as the overhead alone.
    pub fn failure(&self) -> Option<PredictError> {
        self.failed.borrow().clone()
    }
}

impl StepTimer for Predicted<'_> {
    fn time(&self, step: &Step) -> Nanos {
        match (self.predict)(step) {
            Ok(found) => found.time_ns + self.overhead,
            Err(error) => {
                self.failed.borrow_mut().get_or_insert(error);
                self.overhead
            }
        }
    }
}
