//! Step times from a prediction of the model on a device.
//!
//! A predictor knows batches of equal sequences; a step of an engine mixes any. Its linear layers run over all new tokens at once,
//! attention over each sequence, so that a step is put together from three tables, each filled where it is asked:
//! prefill of `b` prompts of `n` tokens; what `c` cached tokens add to a chunk of `n`; a decode step of `b` sequences at context `c`.
//! Sequences of different lengths stand as equal ones with the same number of tokens and the same Σ new² (prefill) or Σ context
//! (decode). Decoding sequences of a mixed step are rows of its linear layers, and add what their context adds to a decode step.
//! A step with prompts takes at least what the host needs to launch it.

use std::cell::{Cell, RefCell};

use llmprof_predict::{PredictError, Prediction};
use llmprof_theory::Workload;
use llmprof_units::Nanos;

use crate::step::{Shape, StepTime};

/// Places of a table: whole numbers, two an octave (1, 2, 3, 4, 6, 8, 12, …). Between them time is linear.
fn place(value: f64) -> (u32, f64) {
    let value = value.clamp(1.0, MOST);
    let octave = (value as u64).ilog2();
    let low = if octave == 0 {
        0
    } else {
        let middle = 3_u64 << (octave - 1);
        2 * octave - 1 + u32::from(value >= middle as f64)
    };
    let (a, b) = (node(low), node(low + 1));
    (low, (value - a) / (b - a))
}

const PLACES: u32 = 60;
const MOST: f64 = (1_u64 << 29) as f64;

fn node(place: u32) -> f64 {
    // 1, 2, 3, 4, 6, 8, 12: there is nothing whole between 1 and 2.
    match place {
        0 => 1.0,
        place => {
            let octave = 1_u64 << place.div_ceil(2);
            let value = if place % 2 == 1 {
                octave
            } else {
                octave / 2 * 3
            };
            value as f64
        }
    }
}

/// Seconds of the device and of the host. Of steps that are captured, both together come first.
type Seconds = [f64; 2];

/// Seconds by two places; NaN where nobody asked yet.
struct Table(Vec<Cell<Seconds>>);

impl Default for Table {
    fn default() -> Self {
        Self(vec![Cell::new([f64::NAN; 2]); (PLACES * PLACES) as usize])
    }
}

/// A share of the way from one to another.
fn between(low: Seconds, high: Seconds, share: f64) -> Seconds {
    [0, 1].map(|of| low[of] + (high[of] - low[of]) * share)
}

impl Table {
    fn at(&self, i: u32, j: u32, fill: &impl Fn(u64, u64) -> Seconds) -> Seconds {
        let cell = &self.0[(i * PLACES + j) as usize];
        if cell.get()[0].is_nan() {
            cell.set(fill(node(i) as u64, node(j) as u64));
        }
        cell.get()
    }

    /// Linear between the four places around.
    fn look_up(&self, first: f64, second: f64, fill: impl Fn(u64, u64) -> Seconds) -> Seconds {
        let (row, row_share) = place(first);
        let (column, column_share) = place(second);
        let along = |column: u32| {
            let low = self.at(row, column, &fill);
            if row_share > 0.0 {
                between(low, self.at(row + 1, column, &fill), row_share)
            } else {
                low
            }
        };
        let low = along(column);
        if column_share > 0.0 {
            between(low, along(column + 1), column_share)
        } else {
            low
        }
    }

    fn filled(&self) -> usize {
        self.0.iter().filter(|cell| !cell.get()[0].is_nan()).count()
    }
}

/// Predicts a workload: on one device or on several.
pub type Predict<'p> = dyn Fn(&Workload) -> Result<Prediction, PredictError> + 'p;

/// A predictor, and what it answered.
pub struct Predicted<'p> {
    predict: &'p Predict<'p>,
    base: Workload,
    prefill: Table,
    cached: Table,
    decode: Table,
    /// Beside what the predictor knows: time of the engine between two steps.
    overhead: f64,
    failed: RefCell<Option<PredictError>>,
}

impl<'p> Predicted<'p> {
    /// Formats and routing are those of `base`; `overhead` is added to every step.
    pub fn new(
        predict: &'p Predict<'p>,
        base: &Workload,
        overhead: Nanos,
    ) -> Result<Self, PredictError> {
        let predicted = Self {
            predict,
            base: Workload {
                chunk: None,
                cached: 0,
                ..*base
            },
            prefill: Table::default(),
            cached: Table::default(),
            decode: Table::default(),
            overhead: overhead.seconds(),
            failed: RefCell::default(),
        };
        // What cannot be predicted is found before the first step.
        predicted.ask(1, 16, 0, 2)?;
        Ok(predicted)
    }

    /// Why a step had no prediction, if one had none: its time then counted as the overhead alone.
    pub fn failure(&self) -> Option<PredictError> {
        self.failed.borrow().clone()
    }

    /// Predictions that were made.
    pub fn predictions(&self) -> usize {
        [&self.prefill, &self.cached, &self.decode]
            .iter()
            .map(|table| table.filled())
            .sum()
    }

    /// Prefill; and a decode step.
    fn ask(
        &self,
        batch: u64,
        prompt: u64,
        cached: u64,
        new_tokens: u64,
    ) -> Result<[Seconds; 2], PredictError> {
        let found = (self.predict)(&Workload {
            batch,
            prompt,
            cached,
            new_tokens,
            ..self.base
        })?;
        let step = found.tpot_ns.map_or(0.0, Nanos::seconds);
        let prefill = &found.prefill;
        let (time, device) = (prefill.time_ns.seconds(), prefill.device_ns.seconds());
        // TTFT goes with the longer one of the two, whatever a pipeline makes of it.
        let seen = found.ttft_ns.seconds() / time.max(1e-12);
        Ok(match prefill.host_ns {
            Some(host) => [[seen * device, seen * host.seconds()], [step, 0.0]],
            // Of a captured prefill as of decode steps.
            None => [[seen * time, 0.0], [step, 0.0]],
        })
    }

    fn asked(&self, batch: u64, prompt: u64, cached: u64, new_tokens: u64) -> [Seconds; 2] {
        self.ask(batch, prompt, cached, new_tokens)
            .unwrap_or_else(|error| {
                self.failed.borrow_mut().get_or_insert(error);
                [[0.0; 2]; 2]
            })
    }

    /// The prefill of `batch` prompts of `tokens` each.
    fn prefill(&self, batch: f64, tokens: f64) -> Seconds {
        self.prefill.look_up(batch, tokens, |batch, tokens| {
            self.asked(batch, tokens, 0, 1)[0]
        })
    }

    /// Seconds that cached tokens add to a chunk of one prompt.
    fn cached(&self, tokens: f64, cached: f64) -> f64 {
        if cached < 1.0 {
            return 0.0;
        }
        let found = self.cached.look_up(tokens, cached, |tokens, cached| {
            let with = self.asked(1, tokens, cached, 1)[0][0];
            [(with - self.asked(1, tokens, 0, 1)[0][0]).max(0.0), 0.0]
        });
        found[0].max(0.0)
    }

    /// Seconds of a decode step.
    fn decode(&self, batch: f64, context: f64) -> f64 {
        let found = self.decode.look_up(batch, context, |batch, context| {
            self.asked(batch, context, 0, 2)[1]
        });
        found[0]
    }

    fn seconds(&self, shape: &Shape) -> f64 {
        let decoding = shape.decode_sequences as f64;
        let context = shape.decode_context as f64 / decoding.max(1.0);
        if shape.prefill_tokens == 0 {
            return if shape.decode_sequences == 0 {
                0.0
            } else {
                self.decode(decoding, context)
            };
        }
        let new = shape.prefill_tokens as f64;
        let length = shape.prefill_squared as f64 / new;
        let prompts = new / length;
        let [rows, host] = self.prefill((new + decoding) / length, length);
        let cached = prompts * self.cached(length, shape.prefill_cached as f64 / new);
        let attention = if shape.decode_sequences == 0 {
            0.0
        } else {
            (self.decode(decoding, context) - self.decode(decoding, 1.0)).max(0.0)
        };
        host.max(rows + cached + attention)
    }
}

impl StepTime for Predicted<'_> {
    fn time(&self, shape: &Shape) -> Nanos {
        Nanos::from_seconds(self.seconds(shape) + self.overhead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_whole_and_bracket_a_value() {
        let nodes: Vec<f64> = (0..9).map(node).collect();
        assert_eq!(nodes, [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0]);
        for value in [1.0, 1.5, 2.0, 2.9, 7.0, 100.0, 8192.0, 1e6, 1e12] {
            let (low, share) = place(value);
            let (a, b) = (node(low), node(low + 1));
            let value = value.min(MOST);
            assert!(a <= value && value <= b, "{value}: {a} {b}");
            assert!((a + (b - a) * share - value).abs() < 1e-6 * value);
        }
    }
}
