//! The load that a plan is for, at its own rate and at multiples of it.

use llmprof_traffic::{arrivals::Arrivals, lengths::Lengths, replay::TracedRequest};
use llmprof_units::Nanos;

use crate::request::RequestLoad;

/// Number of requests drawn to learn the lengths and the rate of a load.
const SAMPLED_REQUESTS: usize = 4096;

/// How the requests of a load are drawn: from distributions, or from a trace.
#[derive(Clone, Debug)]
pub enum RequestSource {
    Synthetic {
        arrivals: Arrivals,
        prompt: Lengths,
        output: Lengths,
        shared_prefix: u64,
    },
    Traced {
        requests: Vec<TracedRequest>,
        arrivals: Arrivals,
        speedup: f64,
    },
}

/// An open load: requests come whether others have ended or not.
#[derive(Clone, Debug)]
pub struct PlanTraffic {
    source: RequestSource,
    seed: u64,
    rate: f64,
    /// Prompts and answers of the first requests, prompts by length.
    prompts: Vec<u64>,
    outputs: Vec<u64>,
}

/// Why a load cannot be planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrafficError {
    #[error("a plan is for requests that come at a rate, not for a closed loop")]
    Closed,
    #[error("the load has no finite rate: its requests come all at once, or it has fewer than two")]
    NoRate,
}

impl PlanTraffic {
    pub fn new(source: RequestSource, seed: u64) -> Result<Self, TrafficError> {
        let sample = draw_requests(&source, seed, SAMPLED_REQUESTS);
        if sample.concurrency.is_some() {
            return Err(TrafficError::Closed);
        }
        let stated = match &source {
            RequestSource::Synthetic { arrivals, .. } | RequestSource::Traced { arrivals, .. } => {
                arrivals.mean_rate()
            }
        };
        let recorded = || {
            let times = sample.requests.iter().map(|request| request.at);
            let (first, last) = (times.clone().min()?, times.max()?);
            Some((sample.requests.len() as f64 - 1.0) / (last - first).seconds())
        };
        let rate = stated.or_else(recorded).unwrap_or(0.0);
        if !(rate > 0.0 && rate.is_finite()) {
            return Err(TrafficError::NoRate);
        }
        let mut prompts: Vec<u64> = sample.requests.iter().map(|r| r.prompt).collect();
        prompts.sort_unstable();
        Ok(Self {
            outputs: sample.requests.iter().map(|r| r.output).collect(),
            prompts,
            source,
            seed,
            rate,
        })
    }

    pub fn mean_rate(&self) -> f64 {
        self.rate
    }

    /// The first `count` requests, `scale` times as fast; fewer where a trace has no more.
    pub(crate) fn draw_load(&self, count: usize, scale: f64) -> RequestLoad {
        let mut load = draw_requests(&self.source, self.seed, count);
        for request in &mut load.requests {
            request.at = Nanos((request.at.0 as f64 / scale) as i64);
        }
        load
    }

    /// The prompt length below which this share of requests is.
    pub(crate) fn prompt_at(&self, share: f64) -> u64 {
        let last = self.prompts.len() - 1;
        self.prompts[((last as f64 * share) as usize).min(last)]
    }

    pub(crate) fn longest_lengths(&self) -> [u64; 2] {
        let longest = |lengths: &[u64]| lengths.iter().copied().max().unwrap_or(1);
        [longest(&self.prompts), longest(&self.outputs)]
    }

    /// Whether prompts begin with what others began with, which a prefix cache has.
    pub(crate) fn shares_content(&self) -> bool {
        match &self.source {
            RequestSource::Synthetic { shared_prefix, .. } => *shared_prefix > 0,
            RequestSource::Traced { requests, .. } => {
                requests.iter().any(|one| !one.blocks.is_empty())
            }
        }
    }

    pub fn mean_lengths(&self) -> [f64; 2] {
        [&self.prompts, &self.outputs]
            .map(|lengths| lengths.iter().sum::<u64>() as f64 / lengths.len().max(1) as f64)
    }
}

fn draw_requests(source: &RequestSource, seed: u64, count: usize) -> RequestLoad {
    match source {
        RequestSource::Synthetic {
            arrivals,
            prompt,
            output,
            shared_prefix,
        } => RequestLoad::from_lengths(arrivals, prompt, output, *shared_prefix, count, seed),
        RequestSource::Traced {
            requests,
            arrivals,
            speedup,
        } => RequestLoad::from_trace(requests, arrivals, *speedup, count, seed),
    }
}
