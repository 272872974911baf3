//! Requests of a simulation, drawn as a real load draws them.

use std::sync::Arc;

use llmprof_traffic::{
    arrivals::Arrivals,
    lengths::Lengths,
    random::Random,
    replay::{MOONCAKE_BLOCK, TracedRequest},
};
use llmprof_units::Nanos;

/// Which leading tokens of a prompt other prompts have too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PrefixContent {
    #[default]
    Unique,
    /// Number of leading tokens that all prompts of this kind share.
    Shared(u64),
    /// Blocks of 512 tokens by content, as Mooncake's traces number them.
    Blocks(Arc<[u64]>),
}

impl PrefixContent {
    /// Keys of the whole KV blocks whose content is known, from the first on. A key stands for everything up to its block, so
    /// equal keys mean equal prefixes.
    pub(crate) fn prefix_keys(&self, prompt: u64, block_size: u64) -> Vec<u64> {
        let known = match self {
            Self::Unique => 0,
            Self::Shared(tokens) => prompt.min(*tokens),
            Self::Blocks(ids) => prompt.min(ids.len() as u64 * MOONCAKE_BLOCK),
        };
        let mut key = 0x9e37_79b9_7f4a_7c15;
        (0..known / block_size)
            .map(|block| {
                let last = (block + 1) * block_size - 1;
                let content = match self {
                    Self::Blocks(ids) => ids[(last / MOONCAKE_BLOCK) as usize],
                    _ => u64::MAX,
                };
                key = mix_bits(key ^ mix_bits(content.wrapping_add(1)) ^ last);
                key
            })
            .collect()
    }
}

/// The finalizer of SplitMix64, which spreads every input bit over the whole output.
pub(crate) fn mix_bits(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedRequest {
    /// When it comes; ignored in a closed loop.
    pub at: Nanos,
    /// Prompt tokens, at least 1.
    pub prompt: u64,
    /// Tokens to generate, at least 1.
    pub output: u64,
    pub content: PrefixContent,
}

/// Requests in the order in which they arrive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestLoad {
    pub requests: Vec<SimulatedRequest>,
    /// Requests in flight of a closed loop: the next one comes when one ends.
    pub concurrency: Option<usize>,
    pub front_end: FrontEnd,
}

/// From the moment a request is sent until the engine has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontEnd {
    /// Of every request, at once: network, parsing, the way between processes.
    pub delay: Nanos,
    /// Of every prompt token, one request after another: a server has one tokenizer.
    pub token: Nanos,
}

/// When requests reach the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokenizer {
    front_end: FrontEnd,
    free: Nanos,
}

impl Tokenizer {
    pub(crate) fn new(front_end: FrontEnd) -> Self {
        Self {
            front_end,
            free: Nanos(0),
        }
    }

    /// When the engine has a prompt that was sent at `sent`, after those before it.
    pub(crate) fn finish_time(&mut self, sent: Nanos, prompt: u64) -> Nanos {
        let FrontEnd { delay, token } = self.front_end;
        let time = Nanos(
            token
                .0
                .saturating_mul(i64::try_from(prompt).unwrap_or(i64::MAX)),
        );
        self.free = sent.max(self.free) + time;
        self.free + delay
    }
}

impl RequestLoad {
    /// Mean tokens of prompts and of answers.
    pub fn mean_lengths(&self) -> [f64; 2] {
        let count = self.requests.len().max(1) as f64;
        let lengths: [fn(&SimulatedRequest) -> u64; 2] = [|one| one.prompt, |one| one.output];
        lengths.map(|length| self.requests.iter().map(length).sum::<u64>() as f64 / count)
    }

    /// `count` requests of drawn lengths: the arrivals, prompts and answers that `llmprof bench` sends with this seed.
    pub fn from_lengths(
        arrivals: &Arrivals,
        prompt: &Lengths,
        output: &Lengths,
        shared_prefix: u64,
        count: usize,
        seed: u64,
    ) -> Self {
        let mut random = Random::new(seed, "lengths");
        let times = arrivals.due_times(count, seed);
        let content = if shared_prefix > 0 {
            PrefixContent::Shared(shared_prefix)
        } else {
            PrefixContent::Unique
        };
        let requests = (0..count).map(|index| SimulatedRequest {
            at: times.as_ref().map_or(Nanos(0), |times| times[index]),
            prompt: prompt.draw_tokens(&mut random).max(1),
            output: output.draw_tokens(&mut random).max(1),
            content: content.clone(),
        });
        Self {
            requests: requests.collect(),
            concurrency: closed_concurrency(arrivals),
            front_end: FrontEnd::default(),
        }
    }

    /// The first `count` requests of a trace, at the trace's times divided by `speedup`, or at the times of `arrivals`.
    pub fn from_trace(
        trace: &[TracedRequest],
        arrivals: &Arrivals,
        speedup: f64,
        count: usize,
        seed: u64,
    ) -> Self {
        let count = count.min(trace.len());
        let times = arrivals.due_times(count, seed);
        let requests = trace.iter().take(count).enumerate();
        let requests = requests.map(|(index, traced)| SimulatedRequest {
            at: times.as_ref().map_or_else(
                || Nanos((traced.at_ns.0 as f64 / speedup) as i64),
                |times| times[index],
            ),
            prompt: traced.prompt_tokens.max(1),
            output: traced.output_tokens.max(1),
            content: if traced.blocks.is_empty() {
                PrefixContent::Unique
            } else {
                PrefixContent::Blocks(traced.blocks.as_slice().into())
            },
        });
        Self {
            requests: requests.collect(),
            concurrency: closed_concurrency(arrivals),
            front_end: FrontEnd::default(),
        }
    }

    /// The part of replica `index` of `count` that get requests in turn.
    #[must_use]
    pub fn replica_share(&self, index: usize, count: usize) -> Self {
        let requests = self.requests.iter().skip(index).step_by(count.max(1));
        Self {
            requests: requests.cloned().collect(),
            concurrency: self
                .concurrency
                .map(|all| (all / count.max(1) + usize::from(index < all % count.max(1))).max(1)),
            front_end: self.front_end,
        }
    }
}

fn closed_concurrency(arrivals: &Arrivals) -> Option<usize> {
    match arrivals {
        Arrivals::Closed { concurrency } => Some(*concurrency),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_equal_as_far_as_prefixes_are() {
        let of = |ids: &[u64], prompt| PrefixContent::Blocks(ids.into()).prefix_keys(prompt, 16);
        let (a, b) = (of(&[1, 2, 3], 1536), of(&[1, 2, 9], 1500));
        assert_eq!((a.len(), b.len()), (96, 93));
        assert_eq!(a[..64], b[..64]);
        assert!(a[64..].iter().zip(&b[64..]).all(|(a, b)| a != b));
        // The same block after another prefix is another block.
        assert_ne!(of(&[2], 512)[0], of(&[1, 2], 1024)[32]);
        assert_eq!(PrefixContent::Shared(40).prefix_keys(100, 16).len(), 2);
        assert!(PrefixContent::Unique.prefix_keys(100, 16).is_empty());
    }

    #[test]
    fn replicas_share_all_requests() {
        let load = RequestLoad::from_lengths(
            &Arrivals::Closed { concurrency: 5 },
            &Lengths::Fixed { tokens: 3 },
            &Lengths::Fixed { tokens: 2 },
            0,
            10,
            1,
        );
        let parts: Vec<RequestLoad> = (0..3).map(|index| load.replica_share(index, 3)).collect();
        assert_eq!(parts.iter().map(|p| p.requests.len()).sum::<usize>(), 10);
        let concurrency = |load: &RequestLoad| load.concurrency.unwrap();
        assert_eq!(parts.iter().map(concurrency).sum::<usize>(), 5);
    }
}
