//! Intervals of a ratio by resampling.
//!
//! Times are compared as logarithms, so that B ÷ A and A ÷ B have the same interval turned around. Rounds are pairs: both sides ran
//! one after the other, and a round is drawn as a whole. The location of the log ratios is their Hodges–Lehmann estimate (the
//! median of the means of all pairs of values): contention only ever adds time, and a mean would follow the worst round.
//!
//! Percentile intervals of few values are too narrow, so the percentiles are those at which Student's interval has its coverage:
//! α′ = Φ(−√(n ÷ (n − 1)) × t(0.975, n − 1)) (Hesterberg, What Teachers Should Know About the Bootstrap, 2015, §5.3, "expanded
//! percentile interval"). Below [`FEWEST`] values resampling cannot reach 95 %, and Student's interval of the logs stands in.

use llmprof_units::{
    stats::normal_below,
    stats::{median, percentile},
};
use serde::{Deserialize, Serialize};

use crate::stats::{Summary, student_t_975};

/// Values from which on an interval is resampled: the range of six values already holds their median in 1 − 2 × 0.5⁶ = 97 % of cases.
pub(super) const FEWEST: usize = 6;

/// Resamples. The end of an interval is then known to about a hundredth of its width.
pub(super) const RESAMPLES: usize = 4000;

/// A ratio and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
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

/// The interval of B ÷ A of rounds in which both ran; nothing for fewer than two, or for values that have no logarithm.
pub fn paired(rounds: &[(f64, f64)]) -> Option<Interval> {
    let logs: Option<Vec<f64>> = rounds.iter().map(|(a, b)| log_of(b / a)).collect();
    let logs = logs.filter(|logs| logs.len() > 1)?;
    if logs.len() < FEWEST {
        return student(&logs);
    }
    let mut random = Random::new(logs.len());
    let mut drawn = vec![0.0; logs.len()];
    let estimates = (0..RESAMPLES)
        .map(|_| {
            draw(&logs, &mut random, &mut drawn);
            location(&drawn)
        })
        .collect();
    Some(interval(location(&logs), estimates, logs.len()))
}

/// The interval of B ÷ A of values that were measured apart; nothing where a side has fewer than two.
pub fn unpaired(a: &[f64], b: &[f64]) -> Option<Interval> {
    let logs = |values: &[f64]| -> Option<Vec<f64>> {
        let logs: Option<Vec<f64>> = values.iter().copied().map(log_of).collect();
        logs.filter(|logs| logs.len() > 1)
    };
    let (a, b) = (logs(a)?, logs(b)?);
    let least = a.len().min(b.len());
    if least < FEWEST {
        return welch(&a, &b);
    }
    let mut random = Random::new(a.len() + b.len());
    let (mut drawn_a, mut drawn_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
    let estimates = (0..RESAMPLES)
        .map(|_| {
            draw(&a, &mut random, &mut drawn_a);
            draw(&b, &mut random, &mut drawn_b);
            location(&drawn_b) - location(&drawn_a)
        })
        .collect();
    Some(interval(location(&b) - location(&a), estimates, least))
}

/// The interval of B ÷ A of the medians of values that were measured apart; nothing where a side has fewer than [`FEWEST`].
pub fn unpaired_medians(a: &[f64], b: &[f64]) -> Option<Interval> {
    let least = a.len().min(b.len());
    if least < FEWEST || a.iter().chain(b).any(|value| log_of(*value).is_none()) {
        return None;
    }
    let median_of = |values: &mut [f64]| median(values).unwrap_or(f64::NAN);
    let log_ratio = |a: &mut [f64], b: &mut [f64]| (median_of(b) / median_of(a)).ln();
    let mut random = Random::new(a.len() + b.len());
    let (mut drawn_a, mut drawn_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
    let estimates = (0..RESAMPLES)
        .map(|_| {
            draw(a, &mut random, &mut drawn_a);
            draw(b, &mut random, &mut drawn_b);
            log_ratio(&mut drawn_a, &mut drawn_b)
        })
        .collect();
    let center = log_ratio(&mut a.to_vec(), &mut b.to_vec());
    Some(interval(center, estimates, least))
}

/// What stands for each side beside [`unpaired`]: their quotient is its ratio.
pub(super) fn centres(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let logs =
        |values: &[f64]| -> Option<Vec<f64>> { values.iter().copied().map(log_of).collect() };
    let (a, b) = (logs(a)?, logs(b)?);
    let centre = |logs: &[f64]| {
        if a.len().min(b.len()) < FEWEST {
            Summary::of(logs).map(|summary| summary.mean.exp())
        } else {
            Some(location(logs).exp())
        }
    };
    Some((centre(&a)?, centre(&b)?))
}

/// The interval of the value at share `p` of some values, by resampling; nothing for fewer than [`FEWEST`].
pub fn percentile_interval(values: &[f64], p: f64) -> Option<Interval> {
    let at = |values: &mut [f64]| {
        values.sort_by(f64::total_cmp);
        percentile(values, p)
    };
    if values.len() < FEWEST || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut random = Random::new(values.len());
    let mut drawn = vec![0.0; values.len()];
    let mut estimates: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            draw(values, &mut random, &mut drawn);
            at(&mut drawn)
        })
        .collect();
    estimates.sort_by(f64::total_cmp);
    let (low, high) = ends(&estimates, values.len());
    Some(Interval {
        ratio: at(&mut values.to_vec()),
        low,
        high,
    })
}

fn log_of(value: f64) -> Option<f64> {
    Some(value.ln()).filter(|log| log.is_finite())
}

fn draw(values: &[f64], random: &mut Random, drawn: &mut [f64]) {
    for place in drawn {
        *place = values[random.below(values.len())];
    }
}

/// Pairs of more values than this cost more than they add; then it is the median.
const MOST_PAIRED: usize = 64;

/// The Hodges–Lehmann estimate: the median of the means of all pairs, each value paired with itself too.
pub(crate) fn location(values: &[f64]) -> f64 {
    if values.len() > MOST_PAIRED {
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

fn interval(estimate: f64, mut estimates: Vec<f64>, values: usize) -> Interval {
    estimates.sort_by(f64::total_cmp);
    let (low, high) = ends(&estimates, values);
    Interval {
        ratio: estimate.exp(),
        low: low.exp(),
        high: high.exp(),
    }
}

/// The ends of the expanded percentile interval of sorted estimates.
fn ends(sorted: &[f64], values: usize) -> (f64, f64) {
    let n = values as f64;
    let t = student_t_975(values as u64 - 1);
    let alpha = normal_below(-(n / (n - 1.0)).sqrt() * t);
    let last = sorted.len() - 1;
    let cut = (alpha * last as f64).floor() as usize;
    (sorted[cut.min(last)], sorted[last - cut.min(last)])
}

fn student(logs: &[f64]) -> Option<Interval> {
    let summary = Summary::of(logs)?;
    let half = summary.ci95_half_width?;
    Some(Interval {
        ratio: summary.mean.exp(),
        low: (summary.mean - half).exp(),
        high: (summary.mean + half).exp(),
    })
}

/// Student's interval of a difference of means with unequal deviations (Welch, 1947), degrees of freedom rounded down.
fn welch(a: &[f64], b: &[f64]) -> Option<Interval> {
    let (first, second) = (Summary::of(a)?, Summary::of(b)?);
    let part = |summary: &Summary| Some(summary.deviation?.powi(2) / summary.count as f64);
    let (va, vb) = (part(&first)?, part(&second)?);
    let difference = second.mean - first.mean;
    let spread = |variance: f64, count: u64| variance.powi(2) / (count - 1) as f64;
    let freedom = (va + vb).powi(2) / (spread(va, first.count) + spread(vb, second.count));
    let half = if va + vb > 0.0 {
        student_t_975(freedom.floor().max(1.0) as u64) * (va + vb).sqrt()
    } else {
        0.0
    };
    Some(Interval {
        ratio: difference.exp(),
        low: (difference - half).exp(),
        high: (difference + half).exp(),
    })
}

/// SplitMix64 with a fixed seed: the same runs give the same interval.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: usize) -> Self {
        Self(0x5eed_0000 + seed as u64)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
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
            let (of_a, of_b) = centres(a, b).unwrap();
            let ratio = unpaired(a, b).unwrap().ratio;
            assert!((of_b / of_a / ratio - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn medians_have_their_ratio_and_need_six_values() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 60.0];
        let b = a.map(|value| value * 2.0);
        let found = unpaired_medians(&a, &b).unwrap();
        assert!((found.ratio - 2.0).abs() < 1e-12, "{found:?}");
        assert!(found.low < 2.0 && found.high > 2.0, "{found:?}");
        assert_eq!(unpaired_medians(&a[..5], &b), None);
        assert_eq!(unpaired_medians(&a, &[0.0; 6]), None);
    }

    #[test]
    fn location_and_median_by_hand() {
        // Means of pairs of 0, 1, 8: 0, 0.5, 4, 1, 4.5, 8. Their median is (1 + 4) ÷ 2.
        assert_eq!(location(&[0.0, 1.0, 8.0]), 2.5);
    }

    /// Logs of 1.1, 1.1, 1.1…: no spread, so that the interval is the ratio.
    #[test]
    fn equal_rounds_have_an_interval_without_width() {
        let rounds = vec![(10.0, 11.0); 8];
        let found = paired(&rounds).unwrap();
        assert!((found.ratio - 1.1).abs() < 1e-12 && found.width() < 1e-12);
        let few = paired(&rounds[..3]).unwrap();
        assert!((few.low - 1.1).abs() < 1e-12);
        assert_eq!(paired(&rounds[..1]), None);
        assert_eq!(paired(&[(0.0, 1.0), (1.0, 1.0)]), None);
    }

    /// A side that is noisy together with the other in each round is no difference.
    #[test]
    fn noise_that_a_round_shares_cancels() {
        let rounds: Vec<(f64, f64)> = (1..=10)
            .map(|i| (f64::from(i), f64::from(i) * 1.02))
            .collect();
        let pairs = paired(&rounds).unwrap();
        assert!((pairs.low - 1.02).abs() < 1e-9 && (pairs.high - 1.02).abs() < 1e-9);
        let (a, b): (Vec<f64>, Vec<f64>) = rounds.into_iter().unzip();
        let apart = unpaired(&a, &b).unwrap();
        assert!(apart.low < 0.8 && apart.high > 1.2, "{apart:?}");
    }

    /// Normal values: 95 % intervals hold the truth in about 95 % of cases.
    #[test]
    fn intervals_cover_the_truth() {
        let mut random = Random::new(7);
        let mut normal = || {
            (0..12)
                .map(|_| random.below(1_000_000) as f64 / 1e6)
                .sum::<f64>()
                - 6.0
        };
        let mut covered = 0;
        for _ in 0..60 {
            let rounds: Vec<(f64, f64)> = (0..8).map(|_| (1.0, (0.03 * normal()).exp())).collect();
            let found = paired(&rounds).unwrap();
            covered += u32::from(found.low <= 1.0 && found.high >= 1.0);
        }
        assert!((52..=60).contains(&covered), "{covered} of 60");
    }

    /// Welch by hand: a = 0, 2; b = 1, 3 as logs. Means 1 and 2, variances ÷ n 1 and 1: difference 1, freedom 2, t 4.303.
    #[test]
    fn few_values_apart_have_students_interval() {
        let found = unpaired(&[1.0, 2_f64.exp()], &[1_f64.exp(), 3_f64.exp()]).unwrap();
        assert!((found.ratio.ln() - 1.0).abs() < 1e-9);
        assert!((found.high.ln() - (1.0 + 4.3027 * 2_f64.sqrt())).abs() < 1e-3);
    }

    #[test]
    fn a_percentile_has_an_interval_around_it() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let found = percentile_interval(&values, 0.9).unwrap();
        assert!((found.ratio - 89.1).abs() < 1e-9);
        assert!(found.low > 75.0 && found.high <= 99.0 && found.low < found.ratio);
        assert_eq!(percentile_interval(&values[..5], 0.9), None);
    }
}
