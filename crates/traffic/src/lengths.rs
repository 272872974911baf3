//! How many tokens prompts and answers have.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::random::Random;

/// Most tokens a request may have: far beyond any context, and few enough to keep.
pub const REQUEST_TOKENS_MAX: u64 = 16 << 20;

/// A distribution of lengths: `128`, `uniform:64:256`, `normal:128:32`, `lognormal:128:0.5`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Lengths {
    /// The same length for every request.
    Fixed {
        /// Number of tokens of every request.
        tokens: u64,
    },
    /// Every length between two, both included.
    Uniform {
        /// Smallest number of tokens, itself included.
        least: u64,
        /// Largest number of tokens, itself included.
        most: u64,
    },
    /// Around a mean; at least one token.
    Normal {
        /// Mean of the normal distribution, in tokens.
        mean: f64,
        /// Standard deviation of the normal distribution, in tokens.
        deviation: f64,
    },
    /// Around a median with a long tail; at least one token.
    Lognormal {
        /// Median of the lognormal distribution, in tokens.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

impl Lengths {
    pub fn draw_tokens(&self, random: &mut Random) -> u64 {
        match *self {
            Self::Fixed { tokens } => tokens,
            Self::Uniform { least, most } => least + random.next_below(most - least + 1),
            Self::Normal { mean, deviation } => {
                round_tokens(mean + deviation * random.next_normal())
            }
            Self::Lognormal { median, sigma } => {
                round_tokens(median * (sigma * random.next_normal()).exp())
            }
        }
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Fixed { tokens } => write!(f, "{tokens}"),
            Self::Uniform { least, most } => write!(f, "{least}–{most}"),
            Self::Normal { mean, deviation } => write!(f, "{mean} ± {deviation}"),
            Self::Lognormal { median, sigma } => write!(f, "{median} (σ {sigma})"),
        }
    }
}

fn round_tokens(tokens: f64) -> u64 {
    (tokens.round() as u64).clamp(1, REQUEST_TOKENS_MAX)
}

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hint = || {
            format!(
                "bad length `{text}`; lengths are 128, uniform:64:256, normal:MEAN:DEVIATION, lognormal:MEDIAN:SIGMA"
            )
        };
        let parts: Vec<&str> = text.split(':').collect();
        let whole = |text: &str| {
            let tokens = text.parse::<u64>().ok();
            tokens.filter(|tokens| (1..=REQUEST_TOKENS_MAX).contains(tokens))
        };
        let number = |text: &str| {
            let value = text.parse::<f64>().ok();
            value.filter(|value| value.is_finite() && *value >= 0.0)
        };
        match parts.as_slice() {
            [tokens] => whole(tokens)
                .map(|tokens| Self::Fixed { tokens })
                .ok_or_else(hint),
            ["uniform", least, most] => match (whole(least), whole(most)) {
                (Some(least), Some(most)) if least <= most => Ok(Self::Uniform { least, most }),
                _ => Err(hint()),
            },
            ["normal", mean, deviation] => match (number(mean), number(deviation)) {
                (Some(mean), Some(deviation)) if mean >= 1.0 => {
                    Ok(Self::Normal { mean, deviation })
                }
                _ => Err(hint()),
            },
            ["lognormal", median, sigma] => match (number(median), number(sigma)) {
                (Some(median), Some(sigma)) if median >= 1.0 => {
                    Ok(Self::Lognormal { median, sigma })
                }
                _ => Err(hint()),
            },
            _ => Err(hint()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(text: &str) -> f64 {
        let lengths: Lengths = text.parse().unwrap();
        let mut random = Random::new(1, "lengths");
        let n = 20_000;
        (0..n)
            .map(|_| lengths.draw_tokens(&mut random) as f64)
            .sum::<f64>()
            / f64::from(n)
    }

    #[test]
    fn means_are_those_of_the_distributions() {
        assert_eq!(mean_of("128"), 128.0);
        assert!((mean_of("uniform:1:3") - 2.0).abs() < 0.02);
        assert!((mean_of("normal:200:20") - 200.0).abs() < 1.0);
        // The mean of a log-normal distribution is median · exp(σ²/2).
        assert!((mean_of("lognormal:100:0.5") / (100.0 * 0.125_f64.exp()) - 1.0).abs() < 0.02);
    }

    #[test]
    fn what_is_no_length_is_refused() {
        for text in [
            "",
            "0",
            "-1",
            "1.5",
            "uniform:9:3",
            "normal:5",
            "normal:-5:1",
            "lognormal:a:b",
            "99999999999",
        ] {
            assert!(text.parse::<Lengths>().is_err(), "{text}");
        }
    }
}
