//! What became of each request: measured facts, on one clock.

use llmprof_traffic::slo::{Metric, RequestLatencies};
use llmprof_units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a request has no result. Failures are counted by these names and are in no percentile.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// No connection: refused, no route, no such host.
    Connect,
    /// TLS did not come about.
    Tls,
    /// Nothing within the time limit: no connection, no answer, or a stream that stalled.
    Timeout,
    /// HTTP 429: the server refuses load.
    TooManyRequests,
    /// Any HTTP 4xx other than 429.
    ClientError,
    /// HTTP 5xx, or an error inside of a stream.
    ServerError,
    /// The peer reset the connection.
    Reset,
    /// The stream ended before the answer did.
    Disconnected,
    /// The answer is not of the protocol.
    Malformed,
    /// The load was ended while it ran.
    Interrupted,
}

impl FailureKind {
    /// As it is written in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::TooManyRequests => "too_many_requests",
            Self::ClientError => "client_error",
            Self::ServerError => "server_error",
            Self::Reset => "reset",
            Self::Disconnected => "disconnected",
            Self::Malformed => "malformed",
            Self::Interrupted => "interrupted",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct RequestFailure {
    /// Kind of the failure, by which failures are counted.
    pub kind: FailureKind,
    /// Message of the server or the client.
    pub message: String,
}

impl RequestFailure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// How the number of generated tokens is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenBasis {
    /// The server's usage, with every event.
    ContinuousUsage,
    /// The server's usage at the end.
    Usage,
    /// A tokenizer on the text: about right, since joined text may split otherwise.
    Tokenizer,
    /// Not known. Events are never counted as tokens.
    Unknown,
}

/// How long the server says it took: llama.cpp's `timings`, Ollama's durations, statistics of vLLM's engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ServerTimings {
    /// Tokens of the prompt that were computed.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the prompt that were in a cache.
    pub cached_tokens: Option<u64>,
    /// Waiting for a place in a batch; vLLM's engine only.
    #[serde(default)]
    pub queue_ms: Option<f64>,
    /// Time of prefill, ms.
    pub prefill_ms: Option<f64>,
    /// Number of tokens that the server generated.
    pub output_tokens: Option<u64>,
    /// Time of decode, ms.
    pub decode_ms: Option<f64>,
    /// Loading the model before it.
    pub load_ms: Option<f64>,
}

/// An arrival of generated text. In JSON it is a pair: there are as many as tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(from = "(Nanos, Option<u32>)", into = "(Nanos, Option<u32>)")]
pub struct Arrival {
    /// When the text arrived, ns from the start of the load.
    pub at_ns: Nanos,
    /// Tokens so far, where the server says so with every event.
    pub tokens: Option<u32>,
}

impl From<(Nanos, Option<u32>)> for Arrival {
    fn from((at_ns, tokens): (Nanos, Option<u32>)) -> Self {
        Self { at_ns, tokens }
    }
}

impl From<Arrival> for (Nanos, Option<u32>) {
    fn from(arrival: Arrival) -> Self {
        (arrival.at_ns, arrival.tokens)
    }
}

/// One request. Times are nanoseconds from the start of the load.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct RequestRecord {
    /// Its number in the load.
    pub index: u64,
    /// The conversation it belongs to, and which turn of it.
    pub session: Option<(u64, u32)>,
    /// When it was due. Latencies count from here.
    pub scheduled_ns: Nanos,
    /// When the client turned to it: the schedule lag is what this is later than it was due.
    pub started_ns: Nanos,
    /// When it was handed to a connection that is up.
    pub sent_ns: Option<Nanos>,
    /// How long making its connection took, where it needed a new one.
    pub connect_ns: Option<Nanos>,
    /// When the status line was there.
    pub headers_ns: Option<Nanos>,
    /// Arrivals of text. For an answer that does not stream: one, at its end.
    pub arrivals: Vec<Arrival>,
    /// When the answer, or the failure, was complete.
    pub end_ns: Nanos,
    /// Tokens of the prompt, by usage.
    pub prompt_tokens: Option<u64>,
    /// Number of tokens that were generated; absent if it is not known.
    pub output_tokens: Option<u64>,
    /// How the number of generated tokens is known.
    pub token_basis: TokenBasis,
    /// Tokens that were asked for at most.
    pub max_tokens: u64,
    /// What contradicts the server's usage.
    pub usage_mistake: Option<String>,
    /// Timings that the server states; absent if it states none.
    pub timings: Option<ServerTimings>,
    /// Why it has no result.
    pub failure: Option<RequestFailure>,
    /// Size of the answer, in bytes.
    pub received_bytes: Bytes,
    /// The answer did not stream: there is no first token.
    pub is_whole: bool,
    /// The server's profiler had begun before it ended.
    #[serde(default)]
    pub was_profiled: bool,
}

impl RequestRecord {
    /// One that nothing has become of yet.
    pub fn due(index: u64, scheduled_ns: Nanos, max_tokens: u64) -> Self {
        Self {
            index,
            session: None,
            scheduled_ns,
            started_ns: scheduled_ns,
            sent_ns: None,
            connect_ns: None,
            headers_ns: None,
            arrivals: Vec::new(),
            end_ns: scheduled_ns,
            prompt_tokens: None,
            output_tokens: None,
            token_basis: TokenBasis::Unknown,
            max_tokens,
            usage_mistake: None,
            timings: None,
            failure: None,
            received_bytes: Bytes(0),
            is_whole: false,
            was_profiled: false,
        }
    }

    /// Whether it has a result.
    pub fn is_complete(&self) -> bool {
        self.failure.is_none()
    }

    /// Sent − scheduled: what the client itself added.
    pub fn client_wait_ns(&self) -> Option<Nanos> {
        Some(self.sent_ns? - self.scheduled_ns)
    }

    /// Time to first token: first token − scheduled.
    pub fn ttft_ns(&self) -> Option<Nanos> {
        if self.is_whole {
            return None;
        }
        Some(self.arrivals.first()?.at_ns - self.scheduled_ns)
    }

    /// End of the answer's text − scheduled.
    pub fn e2e_ns(&self) -> Option<Nanos> {
        if !self.is_complete() {
            return None;
        }
        let last = self.arrivals.last().map_or(self.end_ns, |last| last.at_ns);
        Some(last - self.scheduled_ns)
    }

    /// (Last − first token) ÷ (output tokens − 1). Not known where the server held all tokens back for one arrival.
    pub fn tpot_ns(&self) -> Option<f64> {
        let (first, last) = (self.arrivals.first()?, self.arrivals.last()?);
        let tokens = self
            .output_tokens
            .filter(|_| self.usage_mistake.is_none())?;
        if tokens < 2 || last.at_ns == first.at_ns {
            return None;
        }
        Some((last.at_ns - first.at_ns).0 as f64 / (tokens - 1) as f64)
    }

    /// Gaps between arrivals of text, whatever each brings.
    pub fn gaps_ns(&self) -> impl Iterator<Item = i64> + '_ {
        self.arrivals
            .windows(2)
            .map(|pair| (pair[1].at_ns - pair[0].at_ns).0)
    }

    /// The time to each token after the first: a gap that brought `k` tokens is `k` times a `k`-th of it. `None` where it is not
    /// known how many tokens an arrival brought.
    pub fn inter_token_ns(&self) -> Option<Vec<f64>> {
        if self.usage_mistake.is_some() {
            return None;
        }
        let mut gaps = Vec::with_capacity(self.arrivals.len());
        if self.token_basis == TokenBasis::ContinuousUsage {
            for pair in self.arrivals.windows(2) {
                let brought = pair[1].tokens?.saturating_sub(pair[0].tokens?);
                let gap = (pair[1].at_ns - pair[0].at_ns).0 as f64;
                gaps.extend(std::iter::repeat_n(
                    gap / f64::from(brought.max(1)),
                    brought as usize,
                ));
            }
            return Some(gaps);
        }
        // One token an arrival is the only division that needs no guess.
        (self.output_tokens? == self.arrivals.len() as u64)
            .then(|| self.gaps_ns().map(|gap| gap as f64).collect())
    }

    /// Tokens that came together with another one.
    pub fn tokens_in_company(&self) -> u64 {
        let mut before = 0;
        let mut together = 0;
        for tokens in self.arrivals.iter().filter_map(|arrival| arrival.tokens) {
            let brought = u64::from(tokens.saturating_sub(before));
            together += if brought > 1 { brought } else { 0 };
            before = tokens;
        }
        together
    }
}

impl RequestLatencies for RequestRecord {
    fn latency_ms(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Ttft => self.ttft_ns().map(Nanos::millis),
            Metric::Tpot => self.tpot_ns().map(|ns| ns / 1e6),
            Metric::E2e => self.e2e_ns().map(Nanos::millis),
            Metric::Itl => {
                let gaps = self.inter_token_ns().unwrap_or_default();
                gaps.into_iter().reduce(f64::max).map(|ns| ns / 1e6)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(arrivals: &[(i64, Option<u32>)], output: u64, basis: TokenBasis) -> RequestRecord {
        RequestRecord {
            arrivals: arrivals
                .iter()
                .map(|&(at, tokens)| Arrival {
                    at_ns: Nanos(at),
                    tokens,
                })
                .collect(),
            output_tokens: Some(output),
            token_basis: basis,
            ..RequestRecord::due(0, Nanos(100), 16)
        }
    }

    #[test]
    fn latencies_by_hand() {
        let record = record(
            &[(400, Some(1)), (700, Some(4)), (800, Some(5))],
            5,
            TokenBasis::ContinuousUsage,
        );
        assert_eq!(record.ttft_ns(), Some(Nanos(300)));
        assert_eq!(record.e2e_ns(), Some(Nanos(700)));
        assert_eq!(record.tpot_ns(), Some(100.0));
        assert_eq!(
            record.inter_token_ns().unwrap(),
            [100.0, 100.0, 100.0, 100.0]
        );
        assert_eq!(record.tokens_in_company(), 3);
    }

    #[test]
    fn events_are_not_tokens() {
        let held = record(&[(400, None)], 50, TokenBasis::Usage);
        assert_eq!(
            held.tpot_ns(),
            None,
            "all tokens in one arrival tell no pace"
        );
        let several = record(&[(400, None), (600, None)], 50, TokenBasis::Usage);
        assert_eq!(several.inter_token_ns(), None);
        assert_eq!(several.tpot_ns(), Some(200.0 / 49.0));
        let single = record(&[(400, None), (600, None)], 2, TokenBasis::Usage);
        assert_eq!(single.inter_token_ns().unwrap(), [200.0]);
    }
}
