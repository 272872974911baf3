//! Functions of one number in a form that compilers turn into vector code: no branch, no call, no table.

/// 1.5 × 2²³: adding it leaves the nearest integer in the low bits of the mantissa.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts, the first with so few bits that its product with a small integer is exact.
const LN_2_HIGH: f32 = 0.693_145_75;
const LN_2_LOW: f32 = 1.428_606_8e-6;

/// `eˣ` within a few units in the last place. It saturates: from −87.3 down at the smallest normal numbers, from 88.3 up
/// at the largest ones.
///
/// `eˣ = 2ⁿ × eʳ` with `n` the integer nearest to `x ÷ ln 2` and `|r| ≤ ln 2 ÷ 2`; `eʳ` by Taylor's series, whose term
/// of degree 7 is below half a unit there.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "loops around it become vector code only when it is inlined"
)]
pub(crate) fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.3, 88.3);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let mut sum = 1.0 / 720.0;
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * r + coefficient;
    }
    let power = f32::from_bits((shifted.to_bits().wrapping_add(127)) << 23);
    sum * power
}

/// `1 ÷ (1 + e⁻ˣ)`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as for exp")]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent; its error is about 1e-7 absolute.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as for exp")]
pub(crate) fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (1.0 + exp(2.0 * x))
}

/// The error function by formula 7.1.26 of Abramowitz and Stegun, whose error is at most 1.5e-7.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as for exp")]
pub(crate) fn erf(x: f32) -> f32 {
    let size = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * size);
    let mut sum = 1.061_405_4;
    for coefficient in [-1.453_152, 1.421_413_8, -0.284_496_74, 0.254_829_6] {
        sum = sum * t + coefficient;
    }
    (1.0 - sum * t * exp(-size * size)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_grid() -> impl Iterator<Item = f32> {
        (-8000..8000).map(|i| i as f32 / 97.3)
    }

    #[test]
    fn exponentials_agree_with_double_precision() {
        for x in test_grid() {
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs() / expected;
            assert!(error < 3e-7, "exp({x}) is off by {error:e}");
        }
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::NEG_INFINITY) < 1.3e-38);
        assert!(exp(1000.0).is_finite());
    }

    #[test]
    fn tanh_and_sigmoid_agree_with_double_precision() {
        for x in test_grid() {
            let wide = f64::from(x);
            assert!((f64::from(tanh(x)) - wide.tanh()).abs() < 3e-7, "tanh({x})");
            let expected = 1.0 / (1.0 + (-wide).exp());
            assert!(
                (f64::from(sigmoid(x)) - expected).abs() < 3e-7,
                "sigmoid({x})"
            );
        }
    }

    #[test]
    fn erf_agrees_with_its_table() {
        for (x, expected) in [
            (0.0, 0.0),
            (0.5, 0.520_499_9),
            (1.0, 0.842_700_8),
            (2.0, 0.995_322_3),
            (-1.0, -0.842_700_8),
            (4.0, 0.999_999_98),
        ] {
            assert!((erf(x) - expected).abs() < 4e-7, "erf({x}) is {}", erf(x));
        }
    }
}
