//! The requests of a load, drawn before it starts.

use std::{sync::Arc, time::Duration};

use llmprof_units::Nanos;

use crate::{
    arrivals::Arrivals,
    dataset::Conversation,
    lengths::Lengths,
    prompt::{Prompt, PromptSource},
    random::Random,
    replay::TracedRequest,
};

/// Where prompts and lengths come from.
#[derive(Clone, Debug)]
pub enum LoadSource {
    /// Prompts of generated tokens or words.
    Synthetic {
        prompt: Lengths,
        output: Lengths,
        /// Turns of a conversation; 1 has no conversations.
        turns: u32,
    },
    /// Lengths and shared prefixes of a trace; its times where arrivals are [`Arrivals::Recorded`].
    Trace {
        requests: Arc<Vec<TracedRequest>>,
        /// How many times faster than it was recorded.
        speedup: f64,
    },
    /// Conversations of a file, in a random order.
    Dataset {
        conversations: Arc<Vec<Conversation>>,
        /// Lengths of answers where the file has none.
        output: Lengths,
    },
}

/// What a prompt is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptContent {
    /// A generated prompt with this number of tokens.
    Synthetic(u64),
    /// A generated prompt with this number of tokens, the leading ones by blocks of a trace.
    Blocks(u64, Vec<u64>),
    /// A prompt with exactly this text.
    Text(String),
}

/// A request before it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    /// When it is due; `None` where something before it decides.
    pub at: Option<Nanos>,
    pub content: PromptContent,
    /// Number of tokens to generate.
    pub max_tokens: u64,
    /// The conversation and the turn.
    pub session: Option<(u64, u32)>,
    /// Whether the next request of the plan is the next turn of its conversation.
    pub has_next: bool,
}

/// All requests of a load. Turns of a conversation follow each other.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    pub requests: Vec<PlannedRequest>,
    /// How synthetic prompts are made.
    pub prompts: PromptSource,
    /// Requests in flight, for a closed loop.
    pub concurrency: Option<usize>,
    /// Time between an answer and the next turn.
    pub think: Duration,
}

impl LoadPlan {
    /// Draws `count` requests (turns of conversations count each).
    pub fn draw(
        source: &LoadSource,
        arrivals: &Arrivals,
        prompts: PromptSource,
        count: usize,
        think: Duration,
    ) -> Self {
        let mut requests = Vec::with_capacity(count);
        let mut random = Random::new(prompts.seed, "lengths");
        match source {
            LoadSource::Synthetic {
                prompt,
                output,
                turns,
            } => {
                for session in 0.. {
                    if requests.len() >= count {
                        break;
                    }
                    let turns = (*turns).clamp(1, (count - requests.len()) as u32);
                    for turn in 0..turns {
                        requests.push(PlannedRequest {
                            at: None,
                            content: PromptContent::Synthetic(prompt.draw_tokens(&mut random)),
                            max_tokens: output.draw_tokens(&mut random),
                            session: (turns > 1).then_some((session, turn)),
                            has_next: turn + 1 < turns,
                        });
                    }
                }
            }
            LoadSource::Trace {
                requests: traced,
                speedup,
            } => {
                for request in traced.iter().take(count) {
                    requests.push(PlannedRequest {
                        at: matches!(arrivals, Arrivals::Recorded)
                            .then(|| Nanos((request.at_ns.0 as f64 / speedup) as i64)),
                        content: PromptContent::Blocks(
                            request.prompt_tokens,
                            request.blocks.clone(),
                        ),
                        max_tokens: request.output_tokens,
                        session: None,
                        has_next: false,
                    });
                }
            }
            LoadSource::Dataset {
                conversations,
                output,
            } => {
                let mut order: Vec<usize> = (0..conversations.len()).collect();
                for place in (1..order.len()).rev() {
                    order.swap(place, random.next_below(place as u64 + 1) as usize);
                }
                for session in 0.. {
                    if requests.len() >= count || conversations.is_empty() {
                        break;
                    }
                    let conversation = &conversations[order[session % order.len()]];
                    let turns = conversation.turns.len().min(count - requests.len());
                    for (turn, asked) in conversation.turns.iter().take(turns).enumerate() {
                        let drawn = output.draw_tokens(&mut random);
                        requests.push(PlannedRequest {
                            at: None,
                            content: PromptContent::Text(asked.prompt.clone()),
                            max_tokens: asked.output_tokens.unwrap_or(drawn),
                            session: (turns > 1).then_some((session as u64, turn as u32)),
                            has_next: turn + 1 < turns,
                        });
                    }
                }
            }
        }
        if let Some(times) = arrivals.due_times(requests.len(), prompts.seed) {
            let mut times = times.into_iter();
            let mut is_first = true;
            for request in &mut requests {
                if is_first {
                    request.at = times.next();
                }
                is_first = !request.has_next;
            }
        }
        Self {
            requests,
            prompts,
            concurrency: match arrivals {
                Arrivals::Closed { concurrency } => Some(*concurrency),
                _ => None,
            },
            think,
        }
    }

    /// The prompt of a request.
    pub fn prompt(&self, index: usize) -> Prompt {
        match &self.requests[index].content {
            PromptContent::Synthetic(tokens) => self.prompts.prompt(index as u64, *tokens),
            PromptContent::Blocks(tokens, blocks) => {
                self.prompts.of_blocks(index as u64, *tokens, blocks)
            }
            PromptContent::Text(text) => Prompt::Text(text.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPTS: PromptSource = PromptSource {
        as_tokens: true,
        vocabulary: 5000,
        shared_prefix: 0,
        seed: 1,
    };

    fn synthetic(turns: u32, arrivals: &Arrivals, count: usize) -> LoadPlan {
        let source = LoadSource::Synthetic {
            prompt: Lengths::Uniform { least: 4, most: 8 },
            output: Lengths::Fixed { tokens: 3 },
            turns,
        };
        LoadPlan::draw(&source, arrivals, PROMPTS, count, Duration::ZERO)
    }

    #[test]
    fn only_first_turns_are_due_by_the_clock() {
        let plan = synthetic(3, &Arrivals::Constant { rate: 10.0 }, 7);
        let due: Vec<Option<i64>> = plan
            .requests
            .iter()
            .map(|r| r.at.map(|at| at.0 / 1_000_000))
            .collect();
        assert_eq!(due, [Some(0), None, None, Some(100), None, None, Some(200)]);
        let next: Vec<bool> = plan.requests.iter().map(|r| r.has_next).collect();
        assert_eq!(next, [true, true, false, true, true, false, false]);
    }

    #[test]
    fn a_seed_repeats_lengths_and_a_trace_its_times() {
        let closed = Arrivals::Closed { concurrency: 2 };
        assert_eq!(
            synthetic(1, &closed, 20).requests,
            synthetic(1, &closed, 20).requests
        );
        let traced = TracedRequest {
            at_ns: Nanos(2_000),
            prompt_tokens: 600,
            output_tokens: 9,
            blocks: vec![1, 2],
        };
        let source = LoadSource::Trace {
            requests: Arc::new(vec![traced]),
            speedup: 2.0,
        };
        let plan = LoadPlan::draw(&source, &Arrivals::Recorded, PROMPTS, 10, Duration::ZERO);
        assert_eq!(plan.requests.len(), 1);
        assert_eq!(plan.requests[0].at, Some(Nanos(1_000)));
        let Prompt::Tokens(ids) = plan.prompt(0) else {
            panic!()
        };
        assert_eq!(ids.len(), 600);
    }
}
