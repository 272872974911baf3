use llmprof_theory::block::NormKind;
use rayon::prelude::*;

use super::isa::vectorized;

/// The floats of an AVX-512 register, two of AVX2.
const LANES: usize = 16;

/// The sum of `f` over values, in lanes that fit vector registers.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "takes on its caller's instruction set"
)]
fn sum_of(values: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += f(*value);
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += f(*value);
    }
    sums.iter().sum()
}

vectorized! {
    /// One row; `weight` already holds the one that Gemma leaves out.
    fn normalize_row(kind: NormKind, weight: &[f32], bias: Option<&[f32]>, epsilon: f32, from: &[f32], to: &mut [f32]) {
        let count = from.len() as f32;
        match kind {
            NormKind::Rms | NormKind::RmsUnitOffset => {
                let factor = 1.0 / (sum_of(from, |x| x * x) / count + epsilon).sqrt();
                for ((to, from), weight) in to.iter_mut().zip(from).zip(weight) {
                    *to = from * factor * weight;
                }
            }
            NormKind::Layer => {
                let mean = sum_of(from, |x| x) / count;
                let factor = 1.0 / (sum_of(from, |x| (x - mean) * (x - mean)) / count + epsilon).sqrt();
                for ((to, from), weight) in to.iter_mut().zip(from).zip(weight) {
                    *to = (from - mean) * factor * weight;
                }
            }
        }
        if let Some(bias) = bias {
            for (to, bias) in to.iter_mut().zip(bias) {
                *to += bias;
            }
        }
    }
}

/// Normalizes each row of `from` into `to`; a row is as long as `weight`.
pub(crate) fn normalize_rows(
    kind: NormKind,
    weight: &[f32],
    bias: Option<&[f32]>,
    epsilon: f32,
    from: &[f32],
    to: &mut [f32],
) {
    let width = weight.len();
    // Rows are short: a task takes enough of them to be worth handing over.
    let chunk = (1_usize << 14).div_ceil(width) * width;
    to.par_chunks_mut(chunk)
        .zip(from.par_chunks(chunk))
        .for_each(|(to, from)| {
            for (to, from) in to.chunks_mut(width).zip(from.chunks(width)) {
                normalize_row(kind, weight, bias, epsilon, from, to);
            }
        });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rms_and_layer_norm_by_hand() {
        let mut to = [0.0; 4];
        // Σx² ÷ 4 = 7.5.
        normalize_rows(
            NormKind::Rms,
            &[1.0, 1.0, 1.0, 2.0],
            None,
            0.0,
            &[1.0, 2.0, 3.0, 4.0],
            &mut to,
        );
        let root = 7.5f32.sqrt();
        for (value, expected) in to.iter().zip([1.0, 2.0, 3.0, 8.0]) {
            assert!((value - expected / root).abs() < 1e-6);
        }
        // Mean 2.5, variance 1.25.
        normalize_rows(
            NormKind::Layer,
            &[1.0; 4],
            Some(&[0.5; 4]),
            0.0,
            &[1.0, 2.0, 3.0, 4.0],
            &mut to,
        );
        let root = 1.25f32.sqrt();
        for (value, expected) in to.iter().zip([-1.5, -0.5, 0.5, 1.5]) {
            assert!((value - (expected / root + 0.5)).abs() < 1e-6);
        }
    }
}
