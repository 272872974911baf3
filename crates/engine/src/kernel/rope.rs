use std::f64::consts::PI;

use llmprof_theory::block::{Rope, RopePairing, RopeScaling};
use rayon::prelude::*;

use super::isa::vectorized;

/// The rotation frequencies of a model, by its scaling rule.
///
/// Frequencies and angles are rounded to f32 where transformers does, since at long contexts an angle is large and its
/// rounding shows.
#[derive(Clone, Debug)]
pub(crate) struct Frequencies {
    rope: Rope,
    /// Context that the config states; what dynamic scaling measures a sequence against.
    max_position: f64,
}

impl Frequencies {
    pub(crate) fn new(rope: &Rope, max_position: Option<u64>) -> Self {
        Self {
            rope: rope.clone(),
            max_position: max_position.unwrap_or(2048) as f64,
        }
    }

    /// Elements of a head that rotate.
    pub(crate) fn dims(&self) -> usize {
        self.rope.dims as usize
    }

    pub(crate) fn pairing(&self) -> RopePairing {
        self.rope.pairing
    }

    /// One frequency per pair, for sequences of up to `length` tokens.
    fn inverse_frequencies(&self, length: usize) -> Vec<f32> {
        let dims = self.rope.dims as f32;
        let plain = |theta: f64| -> Vec<f32> {
            (0..self.rope.dims / 2)
                .map(|pair| 1.0 / (theta as f32).powf(2.0 * pair as f32 / dims))
                .collect()
        };
        let theta = self.rope.theta;
        match &self.rope.scaling {
            RopeScaling::None | RopeScaling::Multimodal { .. } => plain(theta),
            RopeScaling::Linear { factor } => {
                let factor = *factor as f32;
                plain(theta).into_iter().map(|f| f / factor).collect()
            }
            RopeScaling::Dynamic { factor } => {
                let ratio = (length as f64).max(self.max_position) / self.max_position;
                let dims = f64::from(dims);
                plain(theta * (factor * ratio - (factor - 1.0)).powf(dims / (dims - 2.0)))
            }
            RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position,
            } => {
                let original = *original_max_position as f64;
                let rescale = |frequency: f32| {
                    let frequency = f64::from(frequency);
                    let wavelength = 2.0 * PI / frequency;
                    let scaled = frequency / factor;
                    let result = if wavelength < original / high_freq_factor {
                        frequency
                    } else if wavelength > original / low_freq_factor {
                        scaled
                    } else {
                        let kept = (original / wavelength - low_freq_factor)
                            / (high_freq_factor - low_freq_factor);
                        (1.0 - kept) * scaled + kept * frequency
                    };
                    result as f32
                };
                plain(theta).into_iter().map(rescale).collect()
            }
            RopeScaling::Yarn {
                factor,
                beta_fast,
                beta_slow,
                original_max_position,
                truncate,
                ..
            } => {
                // The pair whose wavelength makes `rotations` turns within the original context.
                let pair_of = |rotations: f64| {
                    f64::from(dims) * (*original_max_position as f64 / (rotations * 2.0 * PI)).ln()
                        / (2.0 * theta.ln())
                };
                let (mut low, mut high) = (pair_of(*beta_fast), pair_of(*beta_slow));
                if *truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                let (low, mut high) = (low.max(0.0), high.min(f64::from(dims) - 1.0));
                if low == high {
                    high += 0.001;
                }
                plain(theta)
                    .into_iter()
                    .enumerate()
                    .map(|(pair, frequency)| {
                        let scaled = ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0);
                        let frequency = f64::from(frequency);
                        (frequency / factor * scaled + frequency * (1.0 - scaled)) as f32
                    })
                    .collect()
            }
            RopeScaling::LongRope {
                short_factor,
                long_factor,
                original_max_position,
                ..
            } => {
                let factors = if length as u64 > *original_max_position {
                    long_factor
                } else {
                    short_factor
                };
                plain(theta)
                    .into_iter()
                    .zip(factors)
                    .map(|(frequency, factor)| frequency / *factor as f32)
                    .collect()
            }
        }
    }

    /// What cosines and sines are multiplied by: the temperature of yarn and longrope.
    fn temperature(&self) -> f32 {
        let magnitude = |factor: f64, scale: f64| {
            if factor <= 1.0 {
                1.0
            } else {
                0.1 * scale * factor.ln() + 1.0
            }
        };
        let value = match &self.rope.scaling {
            RopeScaling::Yarn {
                factor,
                attention_factor,
                mscale,
                mscale_all_dim,
                ..
            } => attention_factor.unwrap_or_else(|| {
                match (
                    mscale.filter(|scale| *scale != 0.0),
                    mscale_all_dim.filter(|scale| *scale != 0.0),
                ) {
                    (Some(one), Some(all)) => magnitude(*factor, one) / magnitude(*factor, all),
                    _ => magnitude(*factor, 1.0),
                }
            }),
            RopeScaling::LongRope {
                original_max_position,
                attention_factor,
                max_position,
                ..
            } => attention_factor.unwrap_or_else(|| {
                let original = *original_max_position as f64;
                let factor = *max_position as f64 / original;
                if factor <= 1.0 {
                    1.0
                } else {
                    (1.0 + factor.ln() / original.ln()).sqrt()
                }
            }),
            _ => 1.0,
        };
        value as f32
    }

    /// Cosines and sines of each position: per position `dims ÷ 2` of the one, then of the other. Where frequencies depend
    /// on the length of the text, that is the last position or `at_least`.
    pub(crate) fn fill_table(&self, positions: &[usize], at_least: usize, table: &mut Vec<f32>) {
        let longest = positions
            .iter()
            .max()
            .map_or(0, |last| last + 1)
            .max(at_least);
        let inverse = self.inverse_frequencies(longest);
        let temperature = self.temperature();
        let pairs = inverse.len();
        table.resize(positions.len() * 2 * pairs, 0.0);
        table
            .par_chunks_mut((2 * pairs).max(1))
            .with_min_len(64)
            .zip(positions)
            .for_each(|(row, position)| {
                let (cosines, sines) = row.split_at_mut(pairs);
                for ((cosine, sine), frequency) in cosines.iter_mut().zip(sines).zip(&inverse) {
                    let (s, c) = (*position as f32 * frequency).sin_cos();
                    *cosine = c * temperature;
                    *sine = s * temperature;
                }
            });
    }
}

vectorized! {
    /// Rotates one head; `angles` is one row of the table.
    fn rotate_head(pairing: RopePairing, head: &mut [f32], angles: &[f32]) {
        let pairs = angles.len() / 2;
        let (cosines, sines) = angles.split_at(pairs);
        match pairing {
            RopePairing::Halves => {
                let (first, second) = head.split_at_mut(pairs);
                for (((a, b), c), s) in first.iter_mut().zip(second).zip(cosines).zip(sines) {
                    let (x, y) = (*a, *b);
                    *a = x * c - y * s;
                    *b = y * c + x * s;
                }
            }
            RopePairing::Neighbours => {
                for ((pair, c), s) in head.chunks_exact_mut(2).zip(cosines).zip(sines) {
                    let (x, y) = (pair[0], pair[1]);
                    pair[0] = x * c - y * s;
                    pair[1] = y * c + x * s;
                }
            }
        }
    }
}

/// Rotates all heads of all rows of `values`; a row is `width` elements, heads are `head_dim`.
pub(crate) fn rotate_rows(
    pairing: RopePairing,
    table: &[f32],
    dims: usize,
    [width, head_dim]: [usize; 2],
    values: &mut [f32],
) {
    values
        .par_chunks_mut(width)
        .with_min_len((1_usize << 14).div_ceil(width))
        .zip(table.par_chunks(dims))
        .for_each(|(row, angles)| {
            for values in row.chunks_exact_mut(head_dim) {
                rotate_head(pairing, &mut values[..dims], angles);
            }
        });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_turn_swaps_a_pair() {
        for (pairing, from, expected) in [
            (
                RopePairing::Halves,
                [1.0, 2.0, 3.0, 4.0],
                [-3.0, 2.0, 1.0, 4.0],
            ),
            (
                RopePairing::Neighbours,
                [1.0, 2.0, 3.0, 4.0],
                [-2.0, 1.0, 3.0, 4.0],
            ),
        ] {
            let mut values = from;
            // The first pair turns by 90 degrees, the second not at all.
            rotate_rows(pairing, &[0.0, 1.0, 1.0, 0.0], 4, [4, 4], &mut values);
            assert_eq!(values, expected);
        }
    }
}
