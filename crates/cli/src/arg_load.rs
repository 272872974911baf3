//! The arguments that describe a load, for `bench`, which sends it, and `simulate`, which computes what it would do: one seed is one load.

use std::path::PathBuf;

use llmprof_traffic::{arrivals::Arrivals, lengths::Lengths};

use crate::failure::Failure;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// Requests per second, as a Poisson process; `inf` sends all at once. Without it: a closed loop of --concurrency.
    #[arg(
        long,
        visible_alias = "request-rate",
        value_name = "R",
        allow_hyphen_values = true,
        value_parser = parse_rate,
        conflicts_with = "concurrency"
    )]
    pub(crate) rate: Option<f64>,
    /// With --rate: constant inter-arrival time instead.
    #[arg(long, requires = "rate", conflicts_with = "burstiness")]
    pub(crate) constant: bool,
    /// With --rate: gamma-distributed inter-arrival times of this shape; below 1 bursty, 1 is Poisson.
    #[arg(
        long,
        value_name = "B",
        requires = "rate",
        allow_negative_numbers = true
    )]
    pub(crate) burstiness: Option<f64>,
    /// Requests in flight in a closed loop [default: 1].
    #[arg(long, value_name = "C")]
    pub(crate) concurrency: Option<usize>,
    /// Prompt tokens per request: 128, uniform:64:256, normal:MEAN:DEVIATION, lognormal:MEDIAN:SIGMA.
    #[arg(
        long,
        visible_alias = "random-input-len",
        value_name = "LENGTHS",
        default_value = "128"
    )]
    pub(crate) prompt_tokens: Lengths,
    /// Output tokens per request, in the same syntax.
    #[arg(
        long,
        visible_alias = "random-output-len",
        value_name = "LENGTHS",
        default_value = "128"
    )]
    pub(crate) output_tokens: Lengths,
    /// Length of a prefix that all prompts share, in tokens.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) shared_prefix: u64,
    /// Replay a trace: Mooncake JSONL, BurstGPT CSV, or a detailed result of `vllm bench serve`. With --rate, only its lengths are used.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// With --trace: replay it this many times faster.
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    pub(crate) speedup: f64,
    /// Seed of arrivals, lengths and prompts.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// `2`, `2/s`, `inf`.
fn parse_rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text).trim();
    number
        .parse()
        .map_err(|_| "a rate is a number of requests per second: 2, 0.5, inf".to_owned())
}

impl LoadArgs {
    /// When `requests` requests are due. A rate of `inf` sends all of them at once.
    pub(crate) fn arrivals(&self, requests: usize) -> Result<Arrivals, Failure> {
        if !(self.speedup > 0.0 && self.speedup.is_finite()) {
            return Err(Failure::new("--speedup must be a positive number"));
        }
        if self.shared_prefix > 0 && self.trace.is_some() {
            return Err(Failure::new(
                "--shared-prefix is of made prompts: a --trace has its own",
            ));
        }
        if let Lengths::Fixed { tokens: most } | Lengths::Uniform { most, .. } = self.prompt_tokens
            && self.shared_prefix > most
        {
            let prefix = self.shared_prefix;
            return Err(Failure::new(format!(
                "--shared-prefix {prefix} is longer than the longest prompt, {most} tokens"
            ))
            .hint(format!("--prompt-tokens {prefix} or more")));
        }
        let arrivals = match self.rate {
            Some(f64::INFINITY) => Arrivals::Closed {
                concurrency: requests,
            },
            Some(rate) => self.arrivals_at(rate),
            None if self.trace.is_some() && self.concurrency.is_none() => Arrivals::Recorded,
            None => Arrivals::Closed {
                concurrency: self.concurrency.unwrap_or(1),
            },
        };
        match arrivals.find_mistake() {
            Some(mistake) => Err(Failure::new(mistake)),
            None => Ok(arrivals),
        }
    }

    fn arrivals_at(&self, rate: f64) -> Arrivals {
        match self.burstiness {
            Some(burstiness) => Arrivals::Gamma { rate, burstiness },
            None if self.constant => Arrivals::Constant { rate },
            None => Arrivals::Poisson { rate },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_may_state_its_unit() {
        for (text, rate) in [
            ("2", 2.0),
            ("2/s", 2.0),
            ("0.5", 0.5),
            ("inf", f64::INFINITY),
        ] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
        let why = parse_rate("2/min").unwrap_err();
        assert!(why.contains("requests per second"), "{why}");
    }
}
