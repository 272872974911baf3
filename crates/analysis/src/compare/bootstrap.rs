//! Intervals of a ratio by resampling.
//!
//! Times are compared as logarithms, so that B ÷ A and A ÷ B have the same interval turned around. Rounds are pairs: both sides ran
//! one after the other, and a round is drawn as a whole. The location of the log ratios is their Hodges–Lehmann estimate (the
//! median of the means of all pairs of values): contention only ever adds time, and a mean would follow the worst round.
//!
//! Percentile intervals of few values are too narrow, so the percentiles are those at which Student's interval has its coverage:
//! α′ = Φ(−√(n ÷ (n − 1)) × t(0.975, n − 1)) (Hesterberg, What Teachers Should Know About the Bootstrap, 2015, §5.3, "expanded
//! percentile interval"). Below [`RESAMPLE_VALUES_MIN`] values resampling cannot reach 95 %, and Student's interval of the logs stands in.

use llmprof_traffic::statistics::quantile_ranks;
use llmprof_units::{
    stats::normal_below,
    stats::{median, percentile},
};
use serde::{Deserialize, Serialize};

use crate::stats::{RepeatSummary, student_t_975};

/// Minimum number of values for a resampled interval: the range of six values already holds their median in 1 − 2 × 0.5⁶ = 97 % of
/// cases.
pub(super) const RESAMPLE_VALUES_MIN: usize = 6;

/// Number of resamples: the ends of an interval are then known to about a hundredth of its width.
pub(super) const RESAMPLES: usize = 4000;

/// A ratio and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioInterval {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

impl RatioInterval {
    /// The same for the inverse ratio.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self {
            ratio: 1.0 / self.ratio,
            low: 1.0 / self.high,
            high: 1.0 / self.low,
        }
    }

    /// high ÷ low − 1.
    pub fn width(&self) -> f64 {
        self.high / self.low - 1.0
    }
}

/// The interval of B ÷ A of rounds in which both ran; `None` for fewer than two, or if a value has no logarithm.
pub fn paired_interval(rounds: &[(f64, f64)]) -> Option<RatioInterval> {
    let logs: Option<Vec<f64>> = rounds.iter().map(|(a, b)| log_of(b / a)).collect();
    let logs = logs.filter(|logs| logs.len() > 1)?;
    if logs.len() < RESAMPLE_VALUES_MIN {
        return student_interval(&logs);
    }
    let mut random = SplitMix64::new(logs.len());
    let mut drawn = vec![0.0; logs.len()];
    let estimates = (0..RESAMPLES)
        .map(|_| {
            draw_sample(&logs, &mut random, &mut drawn);
            hodges_lehmann(&drawn)
        })
        .collect();
    Some(resampled_interval(
        hodges_lehmann(&logs),
        estimates,
        logs.len(),
    ))
}

/// The interval of B ÷ A of values that were measured apart; `None` if a side has fewer than two.
pub fn unpaired_interval(a: &[f64], b: &[f64]) -> Option<RatioInterval> {
    let logs = |values: &[f64]| -> Option<Vec<f64>> {
        let logs: Option<Vec<f64>> = values.iter().copied().map(log_of).collect();
        logs.filter(|logs| logs.len() > 1)
    };
    let (a, b) = (logs(a)?, logs(b)?);
    let least = a.len().min(b.len());
    if least < RESAMPLE_VALUES_MIN {
        return welch_interval(&a, &b);
    }
    let mut random = SplitMix64::new(a.len() + b.len());
    let (mut drawn_a, mut drawn_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
    let estimates = (0..RESAMPLES)
        .map(|_| {
            draw_sample(&a, &mut random, &mut drawn_a);
            draw_sample(&b, &mut random, &mut drawn_b);
            hodges_lehmann(&drawn_b) - hodges_lehmann(&drawn_a)
        })
        .collect();
    Some(resampled_interval(
        hodges_lehmann(&b) - hodges_lehmann(&a),
        estimates,
        least,
    ))
}

/// The interval of B ÷ A of the medians of values that were measured apart; `None` if a side has fewer than [`RESAMPLE_VALUES_MIN`].
pub fn unpaired_medians(a: &[f64], b: &[f64]) -> Option<RatioInterval> {
    let least = a.len().min(b.len());
    if least < RESAMPLE_VALUES_MIN || a.iter().chain(b).any(|value| log_of(*value).is_none()) {
        return None;
    }
    let median_of = |values: &mut [f64]| median(values).unwrap_or(f64::NAN);
    let log_ratio = |a: &mut [f64], b: &mut [f64]| (median_of(b) / median_of(a)).ln();
    let mut random = SplitMix64::new(a.len() + b.len());
    let (mut drawn_a, mut drawn_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
    let estimates = (0..RESAMPLES)
        .map(|_| {
            draw_sample(a, &mut random, &mut drawn_a);
            draw_sample(b, &mut random, &mut drawn_b);
            log_ratio(&mut drawn_a, &mut drawn_b)
        })
        .collect();
    let center = log_ratio(&mut a.to_vec(), &mut b.to_vec());
    Some(resampled_interval(center, estimates, least))
}

/// The estimate of each side: their quotient is the ratio of [`unpaired_interval`].
pub(super) fn central_values(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let logs =
        |values: &[f64]| -> Option<Vec<f64>> { values.iter().copied().map(log_of).collect() };
    let (a, b) = (logs(a)?, logs(b)?);
    let centre = |logs: &[f64]| {
        if a.len().min(b.len()) < RESAMPLE_VALUES_MIN {
            RepeatSummary::from_values(logs).map(|summary| summary.mean.exp())
        } else {
            Some(hodges_lehmann(logs).exp())
        }
    };
    Some((centre(&a)?, centre(&b)?))
}

/// The interval of the value at share `p` of some values, by their order as in the report of a load: resampling cannot reach
/// beyond the maximum, and its interval of a p99 of 100 values would be too narrow. `None` for too few values.
pub fn percentile_interval(values: &[f64], p: f64) -> Option<RatioInterval> {
    if !(0.0 < p && p < 1.0) || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let (low, high) = quantile_ranks(values.len(), p)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(RatioInterval {
        ratio: percentile(&sorted, p),
        low: sorted[low],
        high: sorted[high],
    })
}

fn log_of(value: f64) -> Option<f64> {
    Some(value.ln()).filter(|log| log.is_finite())
}

fn draw_sample(values: &[f64], random: &mut SplitMix64, drawn: &mut [f64]) {
    for place in drawn {
        *place = values[random.below(values.len())];
    }
}

/// Above this number of values [`hodges_lehmann`] is their median: the pairs cost more than they add.
const PAIRED_VALUES_MAX: usize = 64;

/// The Hodges–Lehmann estimate: the median of the means of all pairs, each value paired with itself too.
pub(crate) fn hodges_lehmann(values: &[f64]) -> f64 {
    if values.len() > PAIRED_VALUES_MAX {
        return median(&mut values.to_vec()).unwrap_or(f64::NAN);
    }
    let mut means = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (index, first) in values.iter().enumerate() {
        means.extend(
            values[index..]
                .iter()
                .map(|second| f64::midpoint(*first, *second)),
        );
    }
    median(&mut means).unwrap_or(f64::NAN)
}

fn resampled_interval(estimate: f64, mut estimates: Vec<f64>, values: usize) -> RatioInterval {
    estimates.sort_by(f64::total_cmp);
    let (low, high) = percentile_ends(&estimates, values);
    RatioInterval {
        ratio: estimate.exp(),
        low: low.exp(),
        high: high.exp(),
    }
}

/// The ends of the expanded percentile interval of sorted estimates.
fn percentile_ends(sorted: &[f64], values: usize) -> (f64, f64) {
    let n = values as f64;
    let t = student_t_975(values as u64 - 1);
    let alpha = normal_below(-(n / (n - 1.0)).sqrt() * t);
    let last = sorted.len() - 1;
    let cut = (alpha * last as f64).floor() as usize;
    (sorted[cut.min(last)], sorted[last - cut.min(last)])
}

fn student_interval(logs: &[f64]) -> Option<RatioInterval> {
    let summary = RepeatSummary::from_values(logs)?;
    let half = summary.ci95_half_width?;
    Some(RatioInterval {
        ratio: summary.mean.exp(),
        low: (summary.mean - half).exp(),
        high: (summary.mean + half).exp(),
    })
}

/// Student's interval of a difference of means with unequal deviations (Welch, 1947), degrees of freedom rounded down.
fn welch_interval(a: &[f64], b: &[f64]) -> Option<RatioInterval> {
    let (first, second) = (
        RepeatSummary::from_values(a)?,
        RepeatSummary::from_values(b)?,
    );
    let part = |summary: &RepeatSummary| Some(summary.deviation?.powi(2) / summary.count as f64);
    let (va, vb) = (part(&first)?, part(&second)?);
    let difference = second.mean - first.mean;
    let spread = |variance: f64, count: u64| variance.powi(2) / (count - 1) as f64;
    let freedom = (va + vb).powi(2) / (spread(va, first.count) + spread(vb, second.count));
    let half = if va + vb > 0.0 {
        student_t_975(freedom.floor().max(1.0) as u64) * (va + vb).sqrt()
    } else {
        0.0
    };
    Some(RatioInterval {
        ratio: difference.exp(),
        low: (difference - half).exp(),
        high: (difference + half).exp(),
    })
}

/// SplitMix64 with a fixed seed: the same runs give the same interval.
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: usize) -> Self {
        Self(0x5eed_0000 + seed as u64)
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next_u64()) * count as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_centres_of_two_sides_have_their_ratio() {
        let few = ([22.0, 23.0, 24.0], [10.0, 33.0, 34.0]);
        let many = (
            [1.0, 2.0, 3.0, 4.0, 5.0, 60.0],
            [2.0, 3.0, 5.0, 7.0, 11.0, 13.0],
        );
        for (a, b) in [(&few.0[..], &few.1[..]), (&many.0[..], &many.1[..])] {
            let (of_a, of_b) = central_values(a, b).unwrap();
            let ratio = unpaired_interval(a, b).unwrap().ratio;
            assert!((of_b / of_a / ratio - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn medians_have_their_ratio_and_need_six_values() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 60.0];
        let b = a.map(|value| value * 2.0);
        let interval = unpaired_medians(&a, &b).unwrap();
        assert!((interval.ratio - 2.0).abs() < 1e-12, "{interval:?}");
        assert!(interval.low < 2.0 && interval.high > 2.0, "{interval:?}");
        assert_eq!(unpaired_medians(&a[..5], &b), None);
        assert_eq!(unpaired_medians(&a, &[0.0; 6]), None);
    }

    #[test]
    fn location_and_median_by_hand() {
        // Means of pairs of 0, 1, 8: 0, 0.5, 4, 1, 4.5, 8. Their median is (1 + 4) ÷ 2.
        assert_eq!(hodges_lehmann(&[0.0, 1.0, 8.0]), 2.5);
    }

    /// Logs of 1.1, 1.1, 1.1…: no spread, so that the interval is the ratio.
    #[test]
    fn equal_rounds_have_an_interval_without_width() {
        let rounds = vec![(10.0, 11.0); 8];
        let interval = paired_interval(&rounds).unwrap();
        assert!((interval.ratio - 1.1).abs() < 1e-12 && interval.width() < 1e-12);
        let few = paired_interval(&rounds[..3]).unwrap();
        assert!((few.low - 1.1).abs() < 1e-12);
        assert_eq!(paired_interval(&rounds[..1]), None);
        assert_eq!(paired_interval(&[(0.0, 1.0), (1.0, 1.0)]), None);
    }

    /// A side that is noisy together with the other in each round is no difference.
    #[test]
    fn noise_that_a_round_shares_cancels() {
        let rounds: Vec<(f64, f64)> = (1..=10)
            .map(|i| (f64::from(i), f64::from(i) * 1.02))
            .collect();
        let pairs = paired_interval(&rounds).unwrap();
        assert!((pairs.low - 1.02).abs() < 1e-9 && (pairs.high - 1.02).abs() < 1e-9);
        let (a, b): (Vec<f64>, Vec<f64>) = rounds.into_iter().unzip();
        let apart = unpaired_interval(&a, &b).unwrap();
        assert!(apart.low < 0.8 && apart.high > 1.2, "{apart:?}");
    }

    /// Normal values: 95 % intervals hold the truth in about 95 % of cases.
    #[test]
    fn intervals_cover_the_truth() {
        let mut random = SplitMix64::new(7);
        let mut normal = || {
            (0..12)
                .map(|_| random.below(1_000_000) as f64 / 1e6)
                .sum::<f64>()
                - 6.0
        };
        let mut covered = 0;
        for _ in 0..60 {
            let rounds: Vec<(f64, f64)> = (0..8).map(|_| (1.0, (0.03 * normal()).exp())).collect();
            let interval = paired_interval(&rounds).unwrap();
            covered += u32::from(interval.low <= 1.0 && interval.high >= 1.0);
        }
        assert!((52..=60).contains(&covered), "{covered} of 60");
    }

    /// Welch by hand: a = 0, 2; b = 1, 3 as logs. Means 1 and 2, variances ÷ n 1 and 1: difference 1, freedom 2, t 4.303.
    #[test]
    fn few_values_apart_have_students_interval() {
        let interval = unpaired_interval(&[1.0, 2_f64.exp()], &[1_f64.exp(), 3_f64.exp()]).unwrap();
        assert!((interval.ratio.ln() - 1.0).abs() < 1e-9);
        assert!((interval.high.ln() - (1.0 + 4.3027 * 2_f64.sqrt())).abs() < 1e-3);
    }

    #[test]
    fn a_percentile_has_an_interval_around_it() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let interval = percentile_interval(&values, 0.9).unwrap();
        assert!((interval.ratio - 89.1).abs() < 1e-9);
        assert!(interval.low > 75.0 && interval.high <= 99.0 && interval.low < interval.ratio);
        assert_eq!(percentile_interval(&values[..5], 0.5), None);
        // The table of a load has no interval of this p99 either: that takes 368 values.
        assert_eq!(percentile_interval(&values, 0.99), None);
        let values: Vec<f64> = (0..368).map(f64::from).collect();
        assert!(percentile_interval(&values, 0.99).is_some());
    }
}
