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

/// The middle value, or the mean of the two in the middle. Sorts `values`; `None` of none.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    (!values.is_empty()).then(|| percentile(values, 0.5))
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
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut []), None);
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
        }
    }
}
