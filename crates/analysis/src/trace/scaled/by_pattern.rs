//! How many steps there are where the pattern of launches shows them and slices show a part.
//!
//! Slice j, of length l, holds c steps: the whole ones, and of steps that its edges cut the part of their launches that it
//! holds. Parts are counted so that a step is seen in proportion to the time that is recorded of it: to count whole steps
//! alone would miss one at every edge, long ones more often. Where CUPTI leaves between slices, the length is that of the
//! device: a slice begins after a pause in which CUPTI came back and the device caught up with its host, and the host gets ahead
//! again in the slice. It launches more than it could go on launching, and the device takes longer for it by as much as
//! launches wait longer at the slice's end than at its beginning. Slices without such pauses fall into bursts of launches as
//! often as into waits, and need no correction. Slices do not come evenly: a budget lets more of them come
//! first. So each speaks for the time T around it, up to halfway to its neighbours, at its own rate r = c ÷ l, and there
//! are N = Σ T r steps: one unit of each of as many strata (Cochran, Sampling Techniques, 1977, §5A.12, collapsed strata).
//! The variance inside a stratum is that of the rate between neighbours, d² = ½ (r − r')², averaged over the two; of N it is
//! Σ T² (1 − l/T) d² (Wolter, Introduction to Variance Estimation, 2007, §8.2, successive differences). Its degrees of
//! freedom follow from how evenly the slices contribute (Satterthwaite, 1946).
//!
//! What a step holds has mean ȳ over the n whole steps, with variance (1 − n/N) s² ÷ n (§2.8). The sum over all steps is
//! N ȳ. The two factors are estimated from different things, when steps came and what they held, so that the variance of
//! the product is ȳ² var N + N² var ȳ (Goodman, On the Exact Variance of Products, JASA 55, 1960, without its small last
//! term). Intervals take Student's t with the fewer degrees of freedom of the two.

use llmprof_record::trace::Trace;
use llmprof_units::stats::upper_median;

use crate::stats::{RepeatSummary, student_t_975};
use crate::steps::{LaunchSource, Repetition};
use crate::timeline::slices;
use crate::trace::scaled::Estimate;

/// Minimum number of whole steps in a sample.
const WHOLE_STEPS_MIN: usize = 4;

/// How many steps there are, by estimate.
pub(crate) struct StepCount {
    /// Kernels of the usual step.
    pub(crate) usual_kernels: u64,
    /// Host thread or stream that launches the steps.
    pub(crate) source: Option<LaunchSource>,
    steps: f64,
    /// The root of the variance of `steps`.
    error: f64,
    /// The degrees of freedom of that.
    freedom: u64,
}

impl StepCount {
    /// Counts the steps of the pattern that most steps have; the second answer is when those that were recorded whole
    /// launched their first and last kernel.
    pub(crate) fn from_repetitions(
        trace: &Trace,
        repetitions: &[Repetition],
        slices: &[(i64, i64)],
        whole: (i64, i64),
    ) -> Option<(Self, Vec<(i64, i64)>)> {
        let repetition = repetitions
            .iter()
            .find(|repetition| !repetition.units.is_empty())?;
        let mut counts = vec![0.0; slices.len()];
        for &(slice, part) in &repetition.parts {
            *counts.get_mut(slice as usize)? += part;
        }
        let mut lengths: Vec<f64> = slices.iter().map(|&slice| length_of(slice)).collect();
        if slices::follow_pauses(trace) {
            for &(slice, delay) in &repetition.delays {
                let length = lengths.get_mut(slice as usize)?;
                *length = device_length(*length, delay);
            }
        }
        let mut windows = Vec::new();
        let mut kernels = Vec::new();
        for step in repetition.steps().filter(|step| step.pattern == Some(0)) {
            *counts.get_mut(step.slice as usize)? += 1.0;
            windows.push((step.launched, step.last_launched));
            kernels.push(step.kernels);
        }
        if windows.len() < WHOLE_STEPS_MIN || slices.len() < 2 {
            return None;
        }
        let count = Self {
            usual_kernels: upper_median(&mut kernels)?,
            source: Some(repetition.source),
            ..Self::from_rates(slices, &lengths, &counts, whole)?
        };
        Some((count, windows))
    }

    /// The steps in the whole time, by those in each slice, for which the device took so long.
    fn from_rates(
        slices: &[(i64, i64)],
        lengths: &[f64],
        counts: &[f64],
        whole: (i64, i64),
    ) -> Option<Self> {
        if slices.len() < 2 || lengths.iter().any(|&length| length <= 0.0) {
            return None;
        }
        let rates: Vec<f64> = counts
            .iter()
            .zip(lengths)
            .map(|(count, length)| count / length)
            .collect();
        let differences: Vec<f64> = rates
            .windows(2)
            .map(|pair| 0.5 * (pair[1] - pair[0]).powi(2))
            .collect();
        let (mut steps, mut parts) = (0.0, Vec::new());
        for (index, &slice) in slices.iter().enumerate() {
            let half = |a: i64, b: i64| a.saturating_add(b.saturating_sub(a) / 2);
            let from = index
                .checked_sub(1)
                .map_or(whole.0, |before| half(slices[before].1, slice.0));
            let until = slices
                .get(index + 1)
                .map_or(whole.1, |next| half(slice.1, next.0));
            let time = length_of((from, until));
            let around = &differences[index.saturating_sub(1)..(index + 1).min(differences.len())];
            let difference = around.iter().sum::<f64>() / around.len().max(1) as f64;
            steps += time * rates[index];
            parts.push(time * (time - length_of(slice)).max(0.0) * difference);
        }
        let variance: f64 = parts.iter().sum();
        let squares: f64 = parts.iter().map(|part| part * part).sum();
        let freedom = if squares > 0.0 {
            variance * variance / squares
        } else {
            parts.len() as f64
        };
        Some(Self {
            usual_kernels: 0,
            source: None,
            steps,
            error: variance.sqrt(),
            freedom: (freedom.round() as u64).max(1),
        })
    }

    pub(crate) fn estimate(&self) -> Estimate {
        Estimate::around(self.steps, student_t_975(self.freedom) * self.error)
    }

    /// Mean and root of its variance of what whole steps held.
    fn mean_of_steps(&self, held: &[f64]) -> Option<(f64, f64)> {
        let summary = RepeatSummary::from_values(held)?;
        let n = held.len() as f64;
        let unseen = (1.0 - n / self.steps.max(n)).max(0.0);
        Some((summary.mean, summary.deviation? * (unseen / n).sqrt()))
    }

    /// Estimates what one step holds from what each recorded step `held`.
    pub(crate) fn estimate_step(&self, held: &[f64]) -> Option<Estimate> {
        let (mean, error) = self.mean_of_steps(held)?;
        let t = student_t_975(held.len() as u64 - 1);
        Some(Estimate::around(mean, t * error))
    }

    /// Estimates what all steps hold from what each recorded step `held`.
    pub(crate) fn estimate_total(&self, held: &[f64]) -> Option<Estimate> {
        let (mean, error) = self.mean_of_steps(held)?;
        let t = student_t_975(self.freedom.min(held.len() as u64 - 1));
        let error = (mean * self.error).hypot(self.steps * error);
        Some(Estimate::around(self.steps * mean, t * error))
    }
}

/// How long the device takes for the launches of a slice in which launches come to wait `delay` longer. Clamped to 0.5 to 4 times the
/// length of the slice: more or less is not understood.
fn device_length(length: f64, delay: i64) -> f64 {
    (length + delay as f64).clamp(0.5 * length, 4.0 * length)
}

fn length_of((start, end): (i64, i64)) -> f64 {
    end.saturating_sub(start) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices of 10 at 0, 40 and 80 hold 1, 2 and 3 steps and speak for 25, 40 and 25: 25 × 0.1 + 40 × 0.2 + 25 × 0.3 = 18
    /// steps. Rates of neighbours differ by 0.1, d² = 0.005; variance 25 × 15 × 0.005 × 2 + 40 × 30 × 0.005 = 9.75; degrees of
    /// freedom 9.75² ÷ (2 × 1.875² + 6²) = 2.2.
    #[test]
    fn three_slices_by_hand() {
        let slices = [(0, 10), (40, 50), (80, 90)];
        let count = StepCount::from_rates(&slices, &[10.0; 3], &[1.0, 2.0, 3.0], (0, 90)).unwrap();
        assert!((count.steps - 18.0).abs() < 1e-9);
        assert!((count.error - 9.75_f64.sqrt()).abs() < 1e-9);
        assert_eq!(count.freedom, 2);
        // Steps that hold the same leave the uncertainty of their number: 4 × 18 ± t₀.₉₇₅(2) × 4 × 3.122.
        let total = count.estimate_total(&[4.0; 6]).unwrap();
        assert!((total.value - 72.0).abs() < 1e-9);
        assert!((total.high - total.value - 4.3027 * 4.0 * 9.75_f64.sqrt()).abs() < 0.01);
        // 3, 4 and 5 have mean 4 and deviation 1: ± t₀.₉₇₅(2) × √(1 − 3/18) ÷ √3.
        let step = count.estimate_step(&[3.0, 4.0, 5.0]).unwrap();
        let half = 4.3027 * (15.0_f64 / 18.0).sqrt() / 3.0_f64.sqrt();
        assert!((step.high - step.value - half).abs() < 1e-3, "{step:?}");
    }

    /// Three steps were launched in slices of 10, and the device took 15 for them: 0.2 steps in the time of 1.
    #[test]
    fn the_length_is_that_of_the_device() {
        let slices = [(0, 10), (40, 50), (80, 90)];
        let lengths: Vec<f64> = slices
            .map(|slice| device_length(length_of(slice), 5))
            .to_vec();
        let count = StepCount::from_rates(&slices, &lengths, &[3.0; 3], (0, 90)).unwrap();
        assert!((count.steps - 18.0).abs() < 1e-9);
        assert_eq!(device_length(10.0, i64::MAX), 40.0);
        assert_eq!(device_length(10.0, i64::MIN), 5.0);
    }

    #[test]
    fn slices_without_length_say_nothing() {
        let two = StepCount::from_rates(&[(0, 10), (40, 40)], &[10.0, 0.0], &[1.0, 0.0], (0, 90));
        assert!(two.is_none());
        assert!(StepCount::from_rates(&[(0, 10)], &[10.0], &[1.0], (0, 90)).is_none());
    }
}
