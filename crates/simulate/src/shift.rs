//! Predicted step times, shifted by benches of one server: each bench is simulated as it was run, and measured ÷ simulated medians of TTFT and
//! TPOT become factors on the time that prompts and decoding add to a step.

use llmprof_units::{Nanos, stats::median};
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use crate::request::RequestLoad;

/// Factors beyond this are no correction: the server ran something else.
const FACTOR_MAX: f64 = 10.0;
/// A round changes a factor at most this much: a queue makes TTFT grow faster than step times.
const ROUND_FACTOR_MAX: f64 = 1.5;
const ROUNDS_MAX: usize = 16;
/// Medians this close to the measured ones end the search.
const SETTLED_ERROR_SHARE: f64 = 0.005;

/// Measured ÷ predicted: of the time that prompts add to a step, and of the decoding in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Shift {
    /// Factor of the time that prompts add to a step.
    pub prefill: f64,
    /// Factor of the decoding in a step.
    pub decode: f64,
}

impl Default for Shift {
    fn default() -> Self {
        Self {
            prefill: 1.0,
            decode: 1.0,
        }
    }
}

impl Shift {
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// The time of a step that takes `whole`, and without its prompts `decode`.
    #[must_use]
    pub fn shift_time(self, whole: Nanos, decode: Nanos) -> Nanos {
        let prompts = (whole.seconds() - decode.seconds()).max(0.0);
        Nanos::from_seconds(self.prefill * prompts + self.decode * decode.seconds())
    }
}

/// Median latencies of a load, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Medians {
    /// Median time to the first token.
    pub ttft_ms: f64,
    /// Median time per output token; absent where answers have one.
    pub tpot_ms: Option<f64>,
}

/// A bench of a server.
#[derive(Clone, Debug)]
pub struct Bench {
    pub name: String,
    pub load: RequestLoad,
    pub measured: Medians,
}

/// A bench: its medians as measured and as simulated.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedBench {
    /// File that the bench was read from.
    pub name: String,
    /// As the bench measured it.
    pub measured: Medians,
    /// Medians of the simulation with predicted step times, without a shift.
    pub predicted: Medians,
    /// With the shift of all benches.
    pub shifted: Medians,
    /// With the shift of all others; absent where there is no other.
    pub left_out: Option<Medians>,
}

/// What benches say of a server's step times.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ShiftFit {
    /// The factors that fit all benches.
    pub shift: Shift,
    /// Each bench, measured and predicted.
    pub benches: Vec<ComparedBench>,
    /// Errors of the simulations without a shift.
    pub predicted_error: BenchErrors,
    /// Errors of benches that were left out in turn; absent where there is one bench.
    pub left_out_error: Option<BenchErrors>,
}

/// |predicted ÷ measured − 1| over benches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BenchErrors {
    /// Error of the median TTFT.
    pub ttft: ErrorSpread,
    /// Of the median TPOT; absent where no bench has one.
    pub tpot: Option<ErrorSpread>,
}

/// Relative errors over benches: 0.1 is 10 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ErrorSpread {
    /// Median of the relative errors.
    pub median: f64,
    /// Largest of the relative errors.
    pub worst: f64,
}

#[derive(Debug, Error, PartialEq)]
pub enum ShiftError<E> {
    #[error(transparent)]
    Simulation(#[from] E),
    #[error("the benches take {times:.1} times as long as predicted in {phase}")]
    TooFar { times: f64, phase: &'static str },
}

/// Fits a shift to benches; `simulate` repeats the load of one with shifted step times.
pub fn fit_shift<E>(
    benches: &[Bench],
    simulate: &dyn Fn(&RequestLoad, Shift) -> Result<Medians, E>,
) -> Result<ShiftFit, ShiftError<E>> {
    let all: Vec<&Bench> = benches.iter().collect();
    let shift = shift_of(&all, simulate)?;
    let mut compared = Vec::with_capacity(benches.len());
    for (index, bench) in benches.iter().enumerate() {
        let mut others = all.clone();
        others.remove(index);
        let left_out = if others.is_empty() {
            None
        } else {
            Some(simulate(&bench.load, shift_of(&others, simulate)?)?)
        };
        compared.push(ComparedBench {
            name: bench.name.clone(),
            measured: bench.measured,
            predicted: simulate(&bench.load, Shift::default())?,
            shifted: simulate(&bench.load, shift)?,
            left_out,
        });
    }
    Ok(ShiftFit {
        shift,
        predicted_error: bench_errors(&compared, |bench| Some(bench.predicted))
            .expect("there is a bench, and each is simulated"),
        left_out_error: bench_errors(&compared, |bench| bench.left_out),
        benches: compared,
    })
}

/// The shift whose simulations come nearest to what was measured, in the mean of logarithms.
fn shift_of<E>(
    benches: &[&Bench],
    simulate: &dyn Fn(&RequestLoad, Shift) -> Result<Medians, E>,
) -> Result<Shift, ShiftError<E>> {
    let mut shift = Shift::default();
    let mut nearest = (f64::INFINITY, shift);
    for _ in 0..ROUNDS_MAX {
        let (mut ttft, mut tpot) = (Vec::new(), Vec::new());
        for bench in benches {
            let simulated = simulate(&bench.load, shift)?;
            ttft.extend(log_ratio(bench.measured.ttft_ms, simulated.ttft_ms));
            if let (Some(measured), Some(simulated)) = (bench.measured.tpot_ms, simulated.tpot_ms) {
                tpot.extend(log_ratio(measured, simulated));
            }
        }
        let [ttft, tpot] = [ttft, tpot].map(|logs| {
            let count = logs.len().max(1) as f64;
            logs.into_iter().sum::<f64>() / count
        });
        let distance = ttft.abs().max(tpot.abs());
        if distance < nearest.0 {
            nearest = (distance, shift);
        }
        if distance < SETTLED_ERROR_SHARE {
            break;
        }
        let most = ROUND_FACTOR_MAX.ln();
        shift.prefill *= ttft.clamp(-most, most).exp();
        shift.decode *= tpot.clamp(-most, most).exp();
        for (times, phase) in [(shift.prefill, "prefill"), (shift.decode, "decode")] {
            if !(1.0 / FACTOR_MAX..=FACTOR_MAX).contains(&times) {
                return Err(ShiftError::TooFar { times, phase });
            }
        }
    }
    Ok(nearest.1)
}

fn log_ratio(measured: f64, predicted: f64) -> Option<f64> {
    (measured > 0.0 && predicted > 0.0).then(|| (measured / predicted).ln())
}

fn bench_errors(
    benches: &[ComparedBench],
    predicted: impl Fn(&ComparedBench) -> Option<Medians>,
) -> Option<BenchErrors> {
    let spread = |latency: fn(&Medians) -> Option<f64>| {
        let errors = benches.iter().filter_map(|bench| {
            let (predicted, measured) = (latency(&predicted(bench)?)?, latency(&bench.measured)?);
            Some((predicted / measured - 1.0).abs())
        });
        let mut errors: Vec<f64> = errors.collect();
        Some(ErrorSpread {
            median: median(&mut errors)?,
            worst: errors.iter().copied().max_by(f64::total_cmp)?,
        })
    };
    Some(BenchErrors {
        ttft: spread(|latency| Some(latency.ttft_ms))?,
        tpot: spread(|latency| latency.tpot_ms),
    })
}
