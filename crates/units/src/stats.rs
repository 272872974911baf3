//! Statistics that several crates need.

/// The value at a share (0 to 1) of sorted values, linear between ranks as numpy's default; NaN of none.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = share * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The middle value, or the mean of the two in the middle. Reorders `values`; `None` of none.
pub fn median(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let is_even = values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp);
    Some(
        lower
            .filter(|_| is_even)
            .map_or(upper, |lower| lower.midpoint(upper)),
    )
}

/// The middle value, or the larger of the two in the middle: one of the values, as counts and shapes must be. Reorders `values`.
pub fn upper_median<T: Copy + Ord>(values: &mut [T]) -> Option<T> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable(middle).1)
}

/// The middle value, or the smaller of the two in the middle. Reorders `values`.
pub fn lower_median<T: Copy + Ord>(values: &mut [T]) -> Option<T> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(middle).1)
}

/// [`median`] of whole numbers that a double may not hold, such as times since 1970 in ns. Reorders `values`.
pub fn whole_median(values: &mut [i64]) -> Option<i64> {
    let lower = lower_median(values)?;
    let above = values[values.len() / 2..].iter().copied().min();
    let upper = above.filter(|_| values.len().is_multiple_of(2));
    Some(upper.map_or(lower, |upper| lower.midpoint(upper)))
}

/// The lower median and the lower median of the distances from it. Reorders `values`.
pub fn median_deviation(values: &mut [i64]) -> Option<(i64, i64)> {
    let middle = lower_median(values)?;
    let distance = |value: &i64| value.saturating_sub(middle).saturating_abs();
    let mut distances: Vec<i64> = values.iter().map(distance).collect();
    Some((middle, lower_median(&mut distances)?))
}

/// The share of standard normal values below `x`, Φ(x), by Abramowitz and Stegun 26.2.17; the error is below 7.5e-8.
pub fn normal_below(x: f64) -> f64 {
    const TERMS: [f64; 5] = [
        0.319_381_530,
        -0.356_563_782,
        1.781_477_937,
        -1.821_255_978,
        1.330_274_429,
    ];
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let sum = TERMS.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let above = density * sum;
    if x < 0.0 { above } else { 1.0 - above }
}

/// The standard normal value with a share (between 0 and 1) below it, by Abramowitz and Stegun 26.2.23; the error is below 4.5e-4.
pub fn normal_quantile(share: f64) -> f64 {
    let t = (-2.0 * share.min(1.0 - share).ln()).sqrt();
    let numerator = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let denominator = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let distance = t - numerator / denominator;
    if share < 0.5 { -distance } else { distance }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `numpy.percentile([1, 2, 3, 4], [0, 25, 50, 90, 100])`.
    #[test]
    fn percentiles_are_numpys() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        for (share, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 2.5), (0.9, 3.7), (1.0, 4.0)] {
            assert!((percentile(&sorted, share) - expected).abs() < 1e-12);
        }
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn medians_of_an_even_number_differ_by_name() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 9.0, 3.0]), Some(3.5));
        assert_eq!(median(&mut []), None);
        let even = [9, 1, 4, 3];
        assert_eq!(upper_median(&mut even.clone()), Some(4));
        assert_eq!(lower_median(&mut even.clone()), Some(3));
        assert_eq!(whole_median(&mut [7624, 534]), Some(4079));
        let since_1970 = 1_763_476_785_000_000_001;
        assert_eq!(
            whole_median(&mut [since_1970 + 2, since_1970]),
            Some(since_1970 + 1)
        );
        type Median = fn(&mut [i64]) -> Option<i64>;
        let all: [Median; 3] = [upper_median, lower_median, whole_median];
        for odd in all {
            assert_eq!(odd(&mut [5, 1, 9]), Some(5));
            assert_eq!(odd(&mut []), None);
        }
        assert_eq!(median_deviation(&mut [7, 1, 3, 100, 4]), Some((4, 3)));
        assert_eq!(median_deviation(&mut []), None);
    }

    #[test]
    fn the_normal_distribution_is_that_of_tables() {
        for (x, share) in [
            (0.0, 0.5),
            (1.0, 0.841_345),
            (-1.959_964, 0.025),
            (3.0, 0.998_650),
        ] {
            assert!((normal_below(x) - share).abs() < 1e-6, "{x}");
            assert!((normal_quantile(share) - x).abs() < 4.6e-4, "{x}");
        }
    }
}
