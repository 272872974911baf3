//! From logits to the next token.

use crate::error::EngineError;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingOptions {
    /// Draw by probability at this temperature; absent takes the most likely token.
    pub temperature: Option<f64>,
    /// N-grams of this length may not occur twice in a sequence; 0 allows all.
    pub no_repeat_ngram_size: usize,
    pub seed: u64,
}

/// Chooses tokens. The same seed and logits give the same choices.
#[derive(Clone, Debug)]
pub struct TokenSampler {
    sampling: SamplingOptions,
    state: u64,
}

impl TokenSampler {
    /// A sampler at the start of its seed.
    pub fn new(sampling: SamplingOptions) -> Result<Self, EngineError> {
        if let Some(temperature) = sampling.temperature
            && !(temperature.is_finite() && temperature > 0.0)
        {
            return Err(EngineError::Temperature { found: temperature });
        }
        Ok(Self {
            sampling,
            state: sampling.seed,
        })
    }

    /// The token that follows `history` (prompt included). Logits of tokens that may not come become −∞.
    ///
    /// Where every token is ruled out, nothing is.
    pub fn sample_token(&mut self, logits: &mut [f32], history: &[u32]) -> u32 {
        if logits.is_empty() {
            return 0;
        }
        let banned = banned_tokens(history, self.sampling.no_repeat_ngram_size);
        if banned.len() < logits.len() {
            for token in &banned {
                if let Some(logit) = logits.get_mut(*token as usize) {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        match self.sampling.temperature {
            None => most_likely(logits),
            Some(temperature) => self.draw_token(logits, temperature),
        }
    }

    fn draw_token(&mut self, logits: &[f32], temperature: f64) -> u32 {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |logit: f32| (f64::from(logit - largest) / temperature).exp();
        let total: f64 = logits.iter().map(|logit| weight(*logit)).sum();
        let mut left = self.next_uniform() * total;
        for (token, logit) in logits.iter().enumerate() {
            left -= weight(*logit);
            if left < 0.0 {
                return token as u32;
            }
        }
        // Rounding may leave a rest, and logits may be NaN.
        most_likely(logits)
    }

    /// A number from 0 up to, but not including, 1.
    fn next_uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = crate::weights::mix_bits(self.state) >> 11;
        bits as f64 / (1u64 << 53) as f64
    }
}

/// The first of the largest.
fn most_likely(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (token, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = token;
        }
    }
    best as u32
}

/// The tokens that would complete a run of `size` tokens that `history` already holds. Each once, sorted.
fn banned_tokens(history: &[u32], size: usize) -> Vec<u32> {
    if size == 0 || history.len() + 1 < size {
        return Vec::new();
    }
    let ending = &history[history.len() + 1 - size..];
    let mut banned: Vec<u32> = history
        .windows(size)
        .filter(|window| window[..size - 1] == *ending)
        .map(|window| window[size - 1])
        .collect();
    banned.sort_unstable();
    banned.dedup();
    banned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_sampler(temperature: Option<f64>, ngram: usize, seed: u64) -> TokenSampler {
        TokenSampler::new(SamplingOptions {
            temperature,
            no_repeat_ngram_size: ngram,
            seed,
        })
        .unwrap()
    }

    #[test]
    fn greedy_takes_the_first_of_the_largest() {
        assert_eq!(
            new_sampler(None, 0, 0).sample_token(&mut [1.0, 3.0, 3.0, 2.0], &[]),
            1
        );
    }

    #[test]
    fn runs_do_not_repeat() {
        // 5 6 came before; after another 5 the 6 is ruled out.
        assert_eq!(banned_tokens(&[5, 6, 7, 5], 2), [6]);
        assert_eq!(banned_tokens(&[5, 6, 7, 5, 6], 3), [7]);
        assert_eq!(banned_tokens(&[1, 2, 1], 1), [1, 2]);
        assert!(banned_tokens(&[1], 3).is_empty());
        let mut logits = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 9.0, 2.0];
        assert_eq!(
            new_sampler(None, 2, 0).sample_token(&mut logits, &[5, 6, 7, 5]),
            7
        );
    }

    #[test]
    fn ruling_out_everything_rules_out_nothing() {
        assert_eq!(
            new_sampler(None, 1, 0).sample_token(&mut [1.0, 2.0], &[0, 1, 0]),
            1
        );
    }

    #[test]
    fn draws_follow_the_probabilities_and_the_seed() {
        let logits = [0.0, 2f32.ln(), 4f32.ln(), f32::NEG_INFINITY];
        let mut counts = [0; 4];
        let mut first = new_sampler(Some(1.0), 0, 7);
        let mut second = first.clone();
        for _ in 0..7000 {
            let token = first.sample_token(&mut logits.clone(), &[]);
            assert_eq!(token, second.sample_token(&mut logits.clone(), &[]));
            counts[token as usize] += 1;
        }
        for (count, expected) in counts.iter().zip([1000i32, 2000, 4000, 0]) {
            assert!((count - expected).abs() < 150, "{counts:?}");
        }
    }

    #[test]
    fn temperatures_must_be_positive() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let sampling = SamplingOptions {
                temperature: Some(bad),
                ..SamplingOptions::default()
            };
            assert!(TokenSampler::new(sampling).is_err());
        }
    }
}
