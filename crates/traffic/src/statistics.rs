//! Percentiles and how sure they are.

// Linear between ranks, as numpy's default and so `vllm bench serve`.
pub use llmprof_units::stats::percentile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Values in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[schemars(rename = "LatencyDistribution")]
pub struct Distribution {
    /// Number of values that the statistics are computed from.
    pub count: u64,
    /// Arithmetic mean, in the unit of the values.
    pub mean: f64,
    /// Standard deviation of the population, as numpy has it.
    pub std: f64,
    /// Smallest value, in the unit of the values.
    pub min: f64,
    /// Median, interpolated linearly between ranks.
    pub p50: f64,
    /// 90th percentile, interpolated linearly between ranks.
    pub p90: f64,
    /// 95th percentile, interpolated linearly between ranks.
    pub p95: f64,
    /// 99th percentile, interpolated linearly between ranks.
    pub p99: f64,
    /// Largest value, in the unit of the values.
    pub max: f64,
    /// 95 % confidence intervals; absent where values are not independent or too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<Intervals>,
}

/// 95 % confidence intervals. `null` where so few values cannot bound it: the 99th percentile needs 368.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Intervals {
    /// Lower and upper bound of the mean.
    pub mean: Option<[f64; 2]>,
    /// Lower and upper bound of the median.
    pub p50: Option<[f64; 2]>,
    /// Lower and upper bound of the 90th percentile.
    pub p90: Option<[f64; 2]>,
    /// Lower and upper bound of the 99th percentile.
    pub p99: Option<[f64; 2]>,
}

impl Distribution {
    /// Distribution of `values` without confidence intervals, since values may depend on each other; `None` if there are none. Values that are not finite are left out.
    pub fn of_values(values: &[f64]) -> Option<Self> {
        Self::of_sorted(&sort_finite(values))
    }

    /// Distribution of (value, count) pairs, as if each value were repeated `count` times. Reorders `values`.
    pub fn of_weighted(values: &mut [(f64, u64)]) -> Option<Self> {
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let count: u64 = values.iter().map(|(_, weight)| weight).sum();
        let last = count.checked_sub(1)?;
        let total = count as f64;
        let mean = values.iter().map(|(v, w)| v * *w as f64).sum::<f64>() / total;
        let squares = values.iter().map(|(v, w)| (v - mean).powi(2) * *w as f64);
        let std = (squares.sum::<f64>() / total).sqrt();
        let ranked = |rank: u64| {
            let mut before = 0;
            let value_at_rank = values.iter().find(|(_, weight)| {
                before += weight;
                before > rank
            });
            value_at_rank.map_or(f64::NAN, |(value, _)| *value)
        };
        let quantile = |p: f64| {
            let place = p * last as f64;
            let (below, share) = (place.floor() as u64, place.fract());
            let low = ranked(below);
            if share > 0.0 {
                low + (ranked((below + 1).min(last)) - low) * share
            } else {
                low
            }
        };
        Some(Self {
            count,
            mean,
            std,
            min: ranked(0),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: ranked(last),
            ci95: None,
        })
    }

    /// Of independent values, with intervals.
    pub fn with_intervals(values: &[f64]) -> Option<Self> {
        let sorted = sort_finite(values);
        let mut distribution = Self::of_sorted(&sorted)?;
        let n = sorted.len() as f64;
        let interval = |p: f64| {
            let (low, high) = quantile_ranks(sorted.len(), p)?;
            Some([sorted[low], sorted[high]])
        };
        distribution.ci95 = Some(Intervals {
            mean: (sorted.len() >= 30).then(|| {
                // The normal approximation, with the sample's standard deviation.
                let half = 1.96 * distribution.std / (n - 1.0).sqrt();
                [distribution.mean - half, distribution.mean + half]
            }),
            p50: interval(0.5),
            p90: interval(0.9),
            p99: interval(0.99),
        });
        Some(distribution)
    }

    fn of_sorted(sorted: &[f64]) -> Option<Self> {
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let n = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / n;
        let variance = sorted.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        Some(Self {
            count: sorted.len() as u64,
            mean,
            std: variance.sqrt(),
            min,
            p50: percentile(sorted, 0.5),
            p90: percentile(sorted, 0.9),
            p95: percentile(sorted, 0.95),
            p99: percentile(sorted, 0.99),
            max,
            ci95: None,
        })
    }

    /// The percentile of this name, or the mean.
    pub fn by_name(&self, name: &str) -> Option<f64> {
        Some(match name {
            "mean" | "avg" => self.mean,
            "p50" | "median" => self.p50,
            "p90" => self.p90,
            "p95" => self.p95,
            "p99" => self.p99,
            "max" => self.max,
            "min" => self.min,
            _ => return None,
        })
    }
}

fn sort_finite(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The ranks (from 0) between which the quantile `p` of the distribution lies with 95 % confidence for any distribution:
/// the number of `n` values below it is binomial. `None` where even the extremes do not bound it.
pub fn quantile_ranks(n: usize, p: f64) -> Option<(usize, usize)> {
    // P(X ≤ k) of the binomial, term by term from its logarithm.
    let (mut low, mut high) = (None, None);
    let mut log_term = n as f64 * (1.0 - p).ln();
    let mut below = 0.0;
    for k in 0..=n {
        // The quantile is under the k-th smallest (rank k − 1) with P(X < k) = `below`.
        if below <= 0.025 {
            low = Some(k);
        }
        below += log_term.exp();
        if high.is_none() && below >= 0.975 {
            high = Some(k);
        }
        let k = k as f64;
        log_term += ((n as f64 - k) / (k + 1.0)).ln() + (p / (1.0 - p)).ln();
    }
    // Rank r (from 1) bounds from below where P(X < r) ≤ 2.5 %, from above where P(X < r) ≥ 97.5 %.
    let (low, high) = (low?.checked_sub(1)?, high?);
    (high < n).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn percentiles_are_numpys() {
        // numpy.percentile([1, 2, 4, 8, 16], [50, 90, 99]) = 4, 12.8, 15.68.
        let values = [16.0, 1.0, 8.0, 2.0, 4.0];
        let distribution = Distribution::of_values(&values).unwrap();
        assert_eq!(distribution.p50, 4.0);
        assert!((distribution.p90 - 12.8).abs() < 1e-12);
        assert!((distribution.p99 - 15.68).abs() < 1e-12);
        assert_eq!(distribution.mean, 6.2);
        assert!((distribution.std - 5.455_272_679).abs() < 1e-8);
        assert_eq!(Distribution::of_values(&[f64::NAN]), None);
    }

    #[test]
    fn weights_are_repetitions() {
        let mut weighted = [(3.0, 4), (1.0, 2), (2.5, 0), (7.0, 1)];
        let plain = Distribution::of_values(&[1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 7.0]).unwrap();
        let distribution = Distribution::of_weighted(&mut weighted).unwrap();
        for name in ["mean", "min", "p50", "p90", "p95", "p99", "max"] {
            let (a, b) = (
                distribution.by_name(name).unwrap(),
                plain.by_name(name).unwrap(),
            );
            assert!((a - b).abs() < 1e-12, "{name}: {a} {b}");
        }
        assert_eq!(
            (distribution.count, distribution.std),
            (plain.count, plain.std)
        );
        assert_eq!(Distribution::of_weighted(&mut [(1.0, 0)]), None);
    }

    #[test]
    fn ranks_are_those_of_the_tables() {
        // Tables of the sign test: the median of 10 lies between the 2nd and the 9th, of 20 between the 6th and the 15th.
        assert_eq!(quantile_ranks(10, 0.5), Some((1, 8)));
        assert_eq!(quantile_ranks(20, 0.5), Some((5, 14)));
        assert_eq!(quantile_ranks(5, 0.5), None);
        assert_eq!(quantile_ranks(100, 0.99), None);
        assert!(quantile_ranks(400, 0.99).is_some());
    }

    #[test]
    fn intervals_hold_the_truth_19_times_of_20() {
        let mut random = Random::new(3, "coverage");
        let (mut held, mut held_mean) = (0, 0);
        let rounds = 1000;
        for _ in 0..rounds {
            let values: Vec<f64> = (0..150).map(|_| random.next_exponential()).collect();
            let ci = Distribution::with_intervals(&values).unwrap().ci95.unwrap();
            let [low, high] = ci.p90.unwrap();
            held += i32::from((low..=high).contains(&10.0_f64.ln()));
            let [low, high] = ci.mean.unwrap();
            held_mean += i32::from((low..=high).contains(&1.0));
        }
        assert!(held >= 940, "{held} of {rounds}");
        assert!(held_mean >= 920, "{held_mean} of {rounds}");
    }
}
