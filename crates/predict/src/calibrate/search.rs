//! The nearest parameters of a curve: each is multiplied and divided by ever smaller steps while that helps.

/// Parameters smaller than this count as zero.
const LEAST: f64 = 1e-7;

/// Times in seconds beside what a curve says of them.
pub(super) struct Point {
    pub(super) predicted: f64,
    pub(super) measured: f64,
}

/// The mean of |ln(predicted ÷ measured)|.
pub(super) fn mean_log_error(points: impl Iterator<Item = Point>) -> f64 {
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
    let mut best = start.map(|value| value.max(LEAST));
    let mut least = error(&best);
    let mut step = 4.0_f64;
    while step > 1.004 {
        let mut improved = false;
        for index in 0..N {
            for factor in [step, 1.0 / step] {
                let mut tried = best;
                tried[index] = (tried[index] * factor).clamp(LEAST, 1e18);
                let found = error(&tried);
                if found < least {
                    (best, least, improved) = (tried, found, true);
                }
            }
        }
        if !improved {
            step = step.sqrt();
        }
    }
    best.map(|value| if value <= LEAST { 0.0 } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let sizes: Vec<f64> = (0..20).map(|power| f64::from(1 << power)).collect();
        let [fixed, slope] = minimize_error([1.0, 1.0], |[fixed, slope]| {
            mean_log_error(sizes.iter().map(|size| Point {
                predicted: fixed + slope * size,
                measured: 2.5 + 0.04 * size,
            }))
        });
        assert!((fixed - 2.5).abs() < 0.05, "{fixed}");
        assert!((slope - 0.04).abs() < 0.001, "{slope}");
    }
}
