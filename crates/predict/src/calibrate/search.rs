//! The nearest parameters of a curve: each is multiplied and divided by ever smaller steps while that helps.

/// Lower bound of a fitted parameter: the search only multiplies, so a zero would never grow again. Parameters that end here become 0.
const PARAMETER_MIN: f64 = 1e-7;

/// A measured time and the curve's prediction, in seconds.
pub(super) struct FitPoint {
    pub(super) predicted: f64,
    pub(super) measured: f64,
}

/// Mean of |ln(predicted ÷ measured)|, so that factors of 2 and 1/2 weigh alike.
pub(super) fn mean_log_error(points: impl Iterator<Item = FitPoint>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for point in points {
        sum += (point.predicted.max(1e-12) / point.measured).ln().abs();
        count += 1.0;
    }
    sum / f64::max(count, 1.0)
}

/// Parameters, from `start`, that make `error` small. Parameters stay positive; those that do not matter shrink to nothing.
pub(super) fn minimize_error<const N: usize>(
    start: [f64; N],
    error: impl Fn(&[f64; N]) -> f64,
) -> [f64; N] {
    let mut best = start.map(|value| value.max(PARAMETER_MIN));
    let mut least = error(&best);
    let mut step = 4.0_f64;
    while step > 1.004 {
        let mut improved = false;
        for index in 0..N {
            for factor in [step, 1.0 / step] {
                let mut tried = best;
                tried[index] = (tried[index] * factor).clamp(PARAMETER_MIN, 1e18);
                let tried_error = error(&tried);
                if tried_error < least {
                    (best, least, improved) = (tried, tried_error, true);
                }
            }
        }
        if !improved {
            step = step.sqrt();
        }
    }
    best.map(|value| if value <= PARAMETER_MIN { 0.0 } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let sizes: Vec<f64> = (0..20).map(|power| f64::from(1 << power)).collect();
        let [fixed, slope] = minimize_error([1.0, 1.0], |[fixed, slope]| {
            mean_log_error(sizes.iter().map(|size| FitPoint {
                predicted: fixed + slope * size,
                measured: 2.5 + 0.04 * size,
            }))
        });
        assert!((fixed - 2.5).abs() < 0.05, "{fixed}");
        assert!((slope - 0.04).abs() < 0.001, "{slope}");
    }
}
