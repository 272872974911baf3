//! Step times from a recorded server: least squares over its engine steps.

use llmprof_theory::Step;
use llmprof_units::{Nanos, stats::upper_median};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{request::mix_bits, step::StepTimer};

/// Minimum steps for a fit: three for each of the four features.
const STEPS_MIN: usize = 12;
const FEATURE_COUNT: usize = 4;
/// Parts into which cross-validation divides the steps.
const FOLDS: u64 = 5;

/// An engine step as a trace shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    pub start: Nanos,
    pub end: Nanos,
    /// New tokens of all sequences.
    pub tokens: u64,
    pub sequences: u64,
    /// New and cached tokens, where the trace says so.
    pub context: Option<u64>,
}

/// Step time = step + tokens × new tokens + sequence × sequences + context × (new and cached tokens), none of them below zero.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct FittedSteps {
    /// Time of any step before its tokens and sequences are counted.
    pub step_ns: f64,
    /// Time of a step for each new token.
    pub token_ns: f64,
    /// Time of a step for each sequence.
    pub sequence_ns: f64,
    /// Time of a step for each token in the KV cache.
    pub context_token_ns: f64,
    /// Engine steps it rests on.
    pub steps: usize,
    /// Whether contexts were recorded; without, they have no cost.
    pub has_context: bool,
    /// Relative error of steps that a fit without them did not see: median and 90th percentile.
    pub median_error: f64,
    /// Error that 90 % of the steps stay below, relative.
    pub p90_error: f64,
    /// New tokens and sequences of the largest recorded step: beyond, it extrapolates.
    pub most_tokens: u64,
    /// Most sequences of a step that was fitted.
    pub most_sequences: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FittedStepsError {
    #[error("{found} engine steps are too few to calibrate by; {needed} are needed")]
    TooFew { found: usize, needed: usize },
    #[error("no step takes any time")]
    NoTime,
}

struct FitRow {
    features: [f64; FEATURE_COUNT],
    seconds: f64,
}

impl FittedSteps {
    /// Fits relative errors, so that a long step counts no more than a short one.
    pub fn fit_steps(observed: &[Observation]) -> Result<Self, FittedStepsError> {
        let has_context = observed.iter().all(|step| step.context.is_some());
        let rows = observed_rows(observed);
        if rows.len() < STEPS_MIN {
            return Err(FittedStepsError::TooFew {
                found: rows.len(),
                needed: STEPS_MIN,
            });
        }
        let weights = solve_weights(rows.iter(), has_context).ok_or(FittedStepsError::NoTime)?;
        let mut errors = Vec::with_capacity(rows.len());
        // By a hash: every so many steps something recurs (a prompt, say), and a fold must not hold all of it.
        let fold_of = |index: usize| (mix_bits(index as u64) % FOLDS) as usize;
        for fold in 0..FOLDS as usize {
            let (left_out, seen): (Vec<_>, Vec<_>) = rows
                .iter()
                .enumerate()
                .partition(|(index, _)| fold_of(*index) == fold);
            let Some(weights) = solve_weights(seen.into_iter().map(|(_, row)| row), has_context)
            else {
                continue;
            };
            errors.extend(
                left_out.into_iter().map(|(_, row)| {
                    (dot_product(&weights, &row.features) / row.seconds - 1.0).abs()
                }),
            );
        }
        errors.sort_unstable_by(f64::total_cmp);
        let quantile = |p: f64| llmprof_units::stats::percentile(&errors, p);
        let [step, token, sequence, context] = weights.map(|seconds| seconds * 1e9);
        Ok(Self {
            step_ns: step,
            token_ns: token,
            sequence_ns: sequence,
            context_token_ns: context,
            steps: rows.len(),
            has_context,
            median_error: quantile(0.5),
            p90_error: quantile(0.9),
            most_tokens: observed.iter().map(|step| step.tokens).max().unwrap_or(0),
            most_sequences: observed
                .iter()
                .map(|step| step.sequences)
                .max()
                .unwrap_or(0),
        })
    }
}

impl StepTimer for FittedSteps {
    fn step_time(&self, step: &Step) -> Nanos {
        let tokens = step.new_tokens();
        let context = step.cached_tokens().unwrap_or(0) + tokens;
        let time = self.step_ns
            + self.token_ns * tokens as f64
            + self.sequence_ns * step.sequences() as f64
            + self.context_token_ns * context as f64;
        Nanos(time.round() as i64)
    }
}

/// The time of a step is the time to the next one's start. Where the engine had nothing to do between the two (a gap longer than
/// both steps), it is the step's own time and the usual gap.
fn observed_rows(observed: &[Observation]) -> Vec<FitRow> {
    let mut steps: Vec<Observation> = observed.to_vec();
    steps.retain(|step| step.end > step.start && step.tokens > 0);
    steps.sort_by_key(|step| step.start);
    let step_ns = |step: &Observation| (step.end - step.start).0;
    let gaps: Vec<i64> = steps
        .windows(2)
        .map(|pair| (pair[1].start - pair[0].end).0.max(0))
        .collect();
    let is_idle: Vec<bool> = steps
        .windows(2)
        .zip(&gaps)
        .map(|(pair, gap)| *gap > step_ns(&pair[0]).max(step_ns(&pair[1])))
        .collect();
    let mut busy: Vec<i64> = gaps
        .iter()
        .zip(&is_idle)
        .filter_map(|(gap, is_idle)| (!is_idle).then_some(*gap))
        .collect();
    let usual = upper_median(&mut busy).unwrap_or(0);
    let of = |(index, step): (usize, &Observation)| {
        let gap = match (gaps.get(index), is_idle.get(index)) {
            (Some(gap), Some(false)) => *gap,
            _ => usual,
        };
        FitRow {
            features: [
                1.0,
                step.tokens as f64,
                step.sequences as f64,
                step.context.unwrap_or(0) as f64,
            ],
            seconds: (step_ns(step) + gap) as f64 / 1e9,
        }
    };
    steps.iter().enumerate().map(of).collect()
}

fn dot_product(weights: &[f64; FEATURE_COUNT], features: &[f64; FEATURE_COUNT]) -> f64 {
    weights.iter().zip(features).map(|(w, f)| w * f).sum()
}

/// Non-negative least squares on relative errors. With four features, every choice of those that are not zero is tried: the best
/// one without a negative weight is the solution.
fn solve_weights<'r>(
    rows: impl Iterator<Item = &'r FitRow>,
    has_context: bool,
) -> Option<[f64; FEATURE_COUNT]> {
    let mut normal = [[0.0; FEATURE_COUNT]; FEATURE_COUNT];
    let mut right = [0.0; FEATURE_COUNT];
    for row in rows {
        let scaled = row.features.map(|feature| feature / row.seconds);
        for (i, a) in scaled.iter().enumerate() {
            right[i] += a;
            for (j, b) in scaled.iter().enumerate() {
                normal[i][j] += a * b;
            }
        }
    }
    let features = if has_context {
        FEATURE_COUNT
    } else {
        FEATURE_COUNT - 1
    };
    let mut best: Option<(f64, [f64; FEATURE_COUNT])> = None;
    for chosen in 1..1_usize << features {
        let places: Vec<usize> = (0..features).filter(|i| chosen >> i & 1 == 1).collect();
        let Some(weights) = solve_subset(&normal, &right, &places) else {
            continue;
        };
        if weights.iter().any(|weight| *weight < 0.0) {
            continue;
        }
        // ‖Aw − 1‖² without its constant: wᵀNw − 2wᵀr, which is −wᵀr at a solution of its own.
        let value: f64 = -weights.iter().zip(&right).map(|(w, r)| w * r).sum::<f64>();
        if best.is_none_or(|(least, _)| value < least) {
            best = Some((value, weights));
        }
    }
    best.map(|(_, weights)| weights)
}

/// Solves the normal equations of the features at `places`, the others being zero; `None` where they do not determine it.
fn solve_subset(
    normal: &[[f64; FEATURE_COUNT]; FEATURE_COUNT],
    right: &[f64; FEATURE_COUNT],
    places: &[usize],
) -> Option<[f64; FEATURE_COUNT]> {
    let count = places.len();
    // Columns scaled to a unit diagonal, so that one threshold tells dependent ones.
    let scale: Vec<f64> = places.iter().map(|&i| normal[i][i].sqrt()).collect();
    if scale.iter().any(|scale| *scale <= 0.0) {
        return None;
    }
    let mut matrix = vec![vec![0.0; count + 1]; count];
    for (i, &row) in places.iter().enumerate() {
        for (j, &column) in places.iter().enumerate() {
            matrix[i][j] = normal[row][column] / (scale[i] * scale[j]);
        }
        matrix[i][count] = right[row] / scale[i];
    }
    for pivot in 0..count {
        let best = (pivot..count)
            .max_by(|a, b| matrix[*a][pivot].abs().total_cmp(&matrix[*b][pivot].abs()))?;
        if matrix[best][pivot].abs() < 1e-9 {
            return None;
        }
        matrix.swap(pivot, best);
        let (upper, lower) = matrix.split_at_mut(pivot + 1);
        let pivot_row = &upper[pivot];
        for row in lower {
            let factor = row[pivot] / pivot_row[pivot];
            for (cell, above) in row.iter_mut().zip(pivot_row).skip(pivot) {
                *cell -= factor * above;
            }
        }
    }
    let mut solution = vec![0.0; count];
    for row in (0..count).rev() {
        let solved_sum: f64 = (row + 1..count).map(|j| matrix[row][j] * solution[j]).sum();
        solution[row] = (matrix[row][count] - solved_sum) / matrix[row][row];
    }
    let mut weights = [0.0; FEATURE_COUNT];
    for (i, &place) in places.iter().enumerate() {
        weights[place] = solution[i] / scale[i];
    }
    Some(weights)
}

#[cfg(test)]
mod tests {
    use llmprof_theory::{Part, Sequences};

    use super::*;

    fn observe_steps(of: impl Fn(u64, u64, u64) -> f64, gap: i64) -> Vec<Observation> {
        let mut at = 0;
        let mut observations = Vec::new();
        for index in 0..60_u64 {
            let (sequences, prompt) = (
                1 + index * 7 % 11,
                if index % 5 == 0 { 64 + index } else { 0 },
            );
            let tokens = sequences + prompt;
            let context = tokens + sequences * (40 + index * 13 % 97);
            let time = (of(tokens, sequences, context) * 1e3) as i64;
            observations.push(Observation {
                start: Nanos(at),
                end: Nanos(at + time),
                tokens,
                sequences,
                context: Some(context),
            });
            at += time + gap;
        }
        observations
    }

    #[test]
    fn what_is_linear_is_found_with_the_gap_between_steps() {
        let fit = FittedSteps::fit_steps(&observe_steps(
            |t, s, c| 900.0 + 3.0 * t as f64 + 11.0 * s as f64 + 0.25 * c as f64,
            20_000,
        ))
        .unwrap();
        assert!((fit.step_ns / 920_000.0 - 1.0).abs() < 1e-3, "{fit:?}");
        assert!((fit.token_ns / 3_000.0 - 1.0).abs() < 1e-3, "{fit:?}");
        assert!((fit.sequence_ns / 11_000.0 - 1.0).abs() < 1e-3, "{fit:?}");
        assert!((fit.context_token_ns / 250.0 - 1.0).abs() < 1e-2, "{fit:?}");
        assert!(fit.p90_error < 1e-4, "{fit:?}");
    }

    #[test]
    fn an_idle_engine_is_no_long_step() {
        let mut observed = observe_steps(|t, _, _| 1000.0 + 2.0 * t as f64, 10_000);
        for step in &mut observed[30..] {
            step.start += Nanos(5_000_000_000);
            step.end += Nanos(5_000_000_000);
        }
        let fit = FittedSteps::fit_steps(&observed).unwrap();
        assert!((fit.step_ns / 1_010_000.0 - 1.0).abs() < 1e-3, "{fit:?}");
    }

    #[test]
    fn a_cost_that_falls_with_the_batch_is_zero_not_negative() {
        let fit = FittedSteps::fit_steps(&observe_steps(
            |t, s, _| 5000.0 + 3.0 * t as f64 - 4.0 * s as f64,
            0,
        ))
        .unwrap();
        assert_eq!(fit.sequence_ns, 0.0);
        assert!(fit.token_ns >= 0.0 && fit.step_ns > 0.0);
    }

    #[test]
    fn few_steps_are_refused_and_equal_ones_are_not() {
        let observed = observe_steps(|_, _, _| 100.0, 0);
        assert!(FittedSteps::fit_steps(&observed[..5]).is_err());
        let same = vec![observed[3]; 20];
        // Steps at one time: no gaps, one shape.
        let fit = FittedSteps::fit_steps(&same).unwrap();
        let step = Step::all_decode(Part::Groups(vec![Sequences {
            count: observed[3].sequences,
            new: 1,
            cached: (observed[3].context.unwrap() - observed[3].tokens) / observed[3].sequences,
        }]));
        let time = fit.step_time(&step).0 as f64;
        assert!((time / 100_000.0 - 1.0).abs() < 0.5, "{time}");
    }
}
