//! A load as it was asked for.

use std::fmt;

use llmprof_traffic::{arrivals::Arrivals, lengths::Lengths, slo::Slo};
use llmprof_units::Count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When requests come, what they are, and what is expected of the server.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct AskedLoad {
    /// What is loaded: an address, or vLLM's offline class.
    pub endpoint: String,
    /// When requests are due: a rate, a number in flight, or a trace.
    pub arrivals: Arrivals,
    /// Where prompts and lengths come from.
    pub source: AskedSource,
    /// Requests that were asked for.
    pub requests: u64,
    /// Tokens that prompts have in common, as a share of the mean prompt.
    pub shared_prefix_share: f64,
    /// The objectives that latencies are judged by.
    pub slos: Vec<Slo>,
}

/// Where prompts and lengths come from.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AskedSource {
    Synthetic {
        /// Distribution of prompt lengths, in tokens.
        prompt: Lengths,
        /// Distribution of output lengths, in tokens.
        output: Lengths,
        /// Number of turns in a conversation.
        turns: u32,
    },
    Trace {
        /// Number of requests in the trace.
        requests: u64,
        /// Factor by which the trace is sent faster.
        speedup: f64,
    },
    Dataset {
        /// Number of conversations in the dataset.
        conversations: u64,
    },
}

impl fmt::Display for AskedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Synthetic {
                prompt,
                output,
                turns,
            } => {
                write!(f, "{prompt} prompt and {output} output tokens")?;
                if *turns > 1 {
                    write!(f, ", {turns} turns")?;
                }
                Ok(())
            }
            Self::Trace { requests, speedup } => {
                write!(
                    f,
                    "a trace of {} at {speedup}×",
                    Count(*requests, "request")
                )
            }
            Self::Dataset { conversations } => {
                write!(f, "a dataset of {conversations} conversations")
            }
        }
    }
}

impl fmt::Display for AskedLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = Count(self.requests, "request");
        // The source names the speedup of a trace already.
        let arrivals = self.arrivals.describe(1.0);
        write!(f, "{requests}, {arrivals}, {}", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_told_in_a_line() {
        let load = AskedLoad {
            endpoint: String::new(),
            arrivals: Arrivals::Closed { concurrency: 4 },
            source: AskedSource::Synthetic {
                prompt: Lengths::Fixed { tokens: 128 },
                output: Lengths::Uniform { least: 8, most: 16 },
                turns: 2,
            },
            requests: 60,
            shared_prefix_share: 0.0,
            slos: Vec::new(),
        };
        assert_eq!(
            load.to_string(),
            "60 requests, 4 in flight, 128 prompt and 8–16 output tokens, 2 turns"
        );
        let trace = AskedLoad {
            arrivals: Arrivals::Recorded,
            source: AskedSource::Trace {
                requests: 60,
                speedup: 2.0,
            },
            ..load
        };
        assert_eq!(
            trace.to_string(),
            "60 requests, at the times of the trace, a trace of 60 requests at 2×"
        );
    }
}
