//! Mean, deviation, confidence interval and percentiles.

use llmprof_units::stats::percentile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Mean and spread of repeated measurements of one thing. The unit is in the name of the field that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RepeatSummary {
    /// Number of measurements that it sums up.
    pub count: u64,
    /// x̄ = Σ x ÷ n.
    pub mean: f64,
    /// Sample deviation s = √(Σ (x − x̄)² ÷ (n − 1)); absent for one measurement.
    pub deviation: Option<f64>,
    /// Half the width of the 95 % confidence interval of the mean, t₀.₉₇₅(n − 1) × s ÷ √n with Student's t; absent for
    /// one measurement.
    pub ci95_half_width: Option<f64>,
    /// Smallest of all the measurements.
    pub min: f64,
    /// Largest of all the measurements.
    pub max: f64,
}

impl RepeatSummary {
    /// `None` for an empty list, or if a value is not finite.
    pub fn from_values(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let deviation = (values.len() > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            (squares / (n - 1.0)).sqrt()
        });
        Some(Self {
            count: values.len() as u64,
            mean,
            deviation,
            ci95_half_width: deviation
                .map(|deviation| student_t_975(values.len() as u64 - 1) * deviation / n.sqrt()),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// Sums up rates, each an amount over a time, as all amounts over all times: their mean would let a fast pass outweigh
    /// the time of a slow one. Deviation and interval are those of a ratio, from what amounts differ from rate × time by
    /// (Cochran, Sampling Techniques, 1977, §6.4).
    pub(crate) fn of_rates(rates: &[(f64, f64)]) -> Option<Self> {
        let each: Vec<f64> = rates.iter().map(|(amount, time)| amount / time).collect();
        let spread = Self::from_values(&each)?;
        let amounts: f64 = rates.iter().map(|(amount, _)| amount).sum();
        let times: f64 = rates.iter().map(|(_, time)| time).sum();
        let (rate, n) = (amounts / times, rates.len() as f64);
        let differences: Vec<f64> = rates
            .iter()
            .map(|(amount, time)| (amount - rate * time) * n / times)
            .collect();
        let differences = Self::from_values(&differences)?;
        Some(Self {
            mean: rate,
            deviation: differences.deviation,
            ci95_half_width: differences.ci95_half_width,
            ..spread
        })
    }
}

/// Percentiles of single values. The unit is in the name of the field that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ValueDistribution {
    /// Number of values that it sums up.
    pub count: u64,
    /// Arithmetic mean of the values.
    pub mean: f64,
    /// Smallest of all the values.
    pub min: f64,
    /// The median, interpolated between neighbours.
    pub p50: f64,
    /// 90th percentile, interpolated between neighbours.
    pub p90: f64,
    /// 99th percentile, interpolated between neighbours.
    pub p99: f64,
    /// Largest of all the values.
    pub max: f64,
}

impl ValueDistribution {
    /// `None` for an empty list, or if a value is not finite.
    pub fn from_values(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            count: sorted.len() as u64,
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            min: sorted[0],
            p50: percentile(&sorted, 0.50),
            p90: percentile(&sorted, 0.90),
            p99: percentile(&sorted, 0.99),
            max: sorted[sorted.len() - 1],
        })
    }
}

/// The t that 97.5 % of Student's distribution with `freedom` degrees lie below, found by bisection.
pub(crate) fn student_t_975(freedom: u64) -> f64 {
    // Beyond this the value differs from the normal distribution's in the fifth digit.
    let freedom = freedom.clamp(1, 10_000);
    let (mut low, mut high) = (0.0, 13.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, freedom) < 0.95 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// P(|T| < t) by the finite series for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
fn two_sided(t: f64, freedom: u64) -> f64 {
    let theta = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = theta.sin_cos();
    let odd = freedom % 2 == 1;
    if freedom == 1 {
        return theta * std::f64::consts::FRAC_2_PI;
    }
    // Terms cosᵏ with factors 2/3, 4/5, … (odd) or 1/2, 3/4, … (even).
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = term;
    let mut index = if odd { 2 } else { 1 };
    while index + 3 <= freedom {
        term *= index as f64 / (index + 1) as f64 * cosine * cosine;
        sum += term;
        index += 2;
    }
    if odd {
        (theta + sine * sum) * std::f64::consts::FRAC_2_PI
    } else {
        sine * sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the printed tables of Student's t, two-sided 95 %.
    #[test]
    fn student_t_agrees_with_the_tables() {
        for (freedom, expected) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (9, 2.262),
            (10, 2.228),
            (30, 2.042),
            (120, 1.980),
            (10_000, 1.960),
        ] {
            let t = student_t_975(freedom);
            assert!((t - expected).abs() < 6e-4, "{freedom}: {t} {expected}");
        }
    }

    /// 16 tokens in 1 s and 16 in 3 s are 32 in 4 s: 8 a second, where the mean of 16 and 5.33 would be 10.67. Differences
    /// are 16 − 8 × 1 = 8 and 16 − 8 × 3 = −8, over the mean time of 2 s ±4: s = √(32 ÷ 1) = 5.657.
    #[test]
    fn rates_are_sums_over_sums() {
        let rate = RepeatSummary::of_rates(&[(16.0, 1.0), (16.0, 3.0)]).unwrap();
        assert_eq!((rate.count, rate.mean), (2, 8.0));
        assert!((rate.deviation.unwrap() - 32_f64.sqrt()).abs() < 1e-12);
        assert!((rate.ci95_half_width.unwrap() - 12.706 * 4.0).abs() < 0.01);
        assert_eq!((rate.min, rate.max), (16.0 / 3.0, 16.0));
        assert_eq!(RepeatSummary::of_rates(&[]), None);
        assert_eq!(RepeatSummary::of_rates(&[(1.0, 0.0)]), None);
        // Times that are equal leave the mean.
        let equal = RepeatSummary::of_rates(&[(10.0, 1.0), (12.0, 1.0), (14.0, 1.0)]);
        assert_eq!(equal, RepeatSummary::from_values(&[10.0, 12.0, 14.0]));
    }

    /// 10, 12, 14: mean 12, squares 4 + 0 + 4, s = √(8 ÷ 2) = 2, half width 4.303 × 2 ÷ √3 = 4.968.
    #[test]
    fn three_repeats_by_hand() {
        let summary = RepeatSummary::from_values(&[10.0, 12.0, 14.0]).unwrap();
        assert_eq!((summary.count, summary.mean), (3, 12.0));
        assert_eq!(summary.deviation, Some(2.0));
        assert!((summary.ci95_half_width.unwrap() - 4.968).abs() < 1e-3);
        assert_eq!((summary.min, summary.max), (10.0, 14.0));
    }

    #[test]
    fn one_repeat_has_no_deviation_and_none_no_summary() {
        let summary = RepeatSummary::from_values(&[7.0]).unwrap();
        assert_eq!((summary.deviation, summary.ci95_half_width), (None, None));
        assert_eq!(RepeatSummary::from_values(&[]), None);
        assert_eq!(RepeatSummary::from_values(&[1.0, f64::NAN]), None);
    }

    /// 1…11: rank 0.9 × 10 = 9 is the tenth value; rank 0.99 × 10 = 9.9 lies 0.9 of the way from 10 to 11.
    #[test]
    fn percentiles_by_hand() {
        let values: Vec<f64> = (1..=11).rev().map(f64::from).collect();
        let spread = ValueDistribution::from_values(&values).unwrap();
        assert_eq!((spread.p50, spread.p90), (6.0, 10.0));
        assert!((spread.p99 - 10.9).abs() < 1e-9);
        assert_eq!(ValueDistribution::from_values(&[5.0]).unwrap().p99, 5.0);
    }
}
