//! Requests of vLLM's offline `LLM` class, as the program that drives it writes them: JSON lines, a first one about the run, one a
//! request, and a last one that says it is whole. Requests are due together, so there is no client that could be late.

use llmprof_record::serving::{
    Arrival, ClientFacts, FailureKind, LoadRecord, RequestFailure, RequestRecord, ServerTimings,
    TokenBasis,
};
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::text_file::TextFileError;

/// A run of vLLM without a server, from the lines its program wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Offline {
    pub load: LoadRecord,
    pub version: String,
    /// Times that a request lost its place and was computed again.
    pub preemptions: u64,
    /// Whether the program came to its end.
    pub is_whole: bool,
}

/// A line of `server/result.jsonl`. Times count from when all requests were due.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum OfflineLine {
    /// The first line: what ran.
    Run(OfflineRun),
    /// What became of a request.
    Request(OfflineOutcome),
    /// The last line: how the run ended.
    End(OfflineEnd),
}

/// The engine that ran, and when the load began.
#[derive(Deserialize, JsonSchema)]
pub struct OfflineRun {
    /// Version of vLLM that ran the requests.
    vllm: String,
    /// When all requests were due, since 1970.
    started_unix_ns: Nanos,
}

/// What became of a request to vLLM's `LLM` class.
#[derive(Deserialize, JsonSchema)]
pub struct OfflineOutcome {
    /// Its place in the load.
    index: u64,
    /// When it was handed to the engine.
    #[serde(default)]
    sent_ns: Nanos,
    /// When tokens came, each with the number of tokens until then.
    arrivals: Vec<(Nanos, u32)>,
    /// When the engine said that it was finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    end_ns: Option<Nanos>,
    /// Number of tokens in the prompt.
    prompt_tokens: u64,
    /// Time in the queue of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_ns: Option<Nanos>,
    /// Time from its first step to its first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefill_ns: Option<Nanos>,
    /// Times that it lost its place and was computed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    preemptions: Option<u64>,
    /// Why the engine refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// The mark of a file that is whole.
#[derive(Deserialize, JsonSchema)]
pub struct OfflineEnd {
    /// Whether the program came to its end.
    done: bool,
}

impl OfflineOutcome {
    /// `max_tokens` is what it was asked for.
    fn into_record(self, max_tokens: u64) -> RequestRecord {
        let mut record = RequestRecord::due(self.index, Nanos(0), max_tokens);
        record.sent_ns = Some(self.sent_ns);
        record.started_ns = Nanos(0);
        record.output_tokens = self.arrivals.last().map(|last| u64::from(last.1));
        record.token_basis = TokenBasis::ContinuousUsage;
        let most = record.output_tokens.filter(|tokens| *tokens > max_tokens);
        record.usage_mistake = most
            .map(|tokens| format!("{tokens} tokens, though at most {max_tokens} were asked for"));
        record.prompt_tokens = Some(self.prompt_tokens);
        let last = self.arrivals.last().map_or(self.sent_ns, |last| last.0);
        record.end_ns = self.end_ns.unwrap_or(last);
        let ms = |time: Option<Nanos>| time.map(Nanos::millis);
        record.timings = self.prefill_ns.map(|_| ServerTimings {
            queue_ms: ms(self.queue_ns),
            prefill_ms: ms(self.prefill_ns),
            ..ServerTimings::default()
        });
        let arrivals = self.arrivals.into_iter();
        record.arrivals = arrivals
            .map(|(at, tokens)| Arrival {
                at_ns: at,
                tokens: Some(tokens),
            })
            .collect();
        record.failure = match (self.failure, self.end_ns) {
            (Some(why), _) => Some(RequestFailure::new(FailureKind::ClientError, why)),
            (None, None) => Some(RequestFailure::new(
                FailureKind::Interrupted,
                "the program ended before it",
            )),
            (None, Some(_)) => None,
        };
        record
    }
}

/// Reads what the program wrote; `max_tokens` by request. A line that is cut is the last that there is.
pub fn parse_offline(
    text: &str,
    max_tokens: impl Fn(u64) -> u64,
) -> Result<Offline, TextFileError> {
    let wrong = |line: usize, what: String| TextFileError::Line { line, what };
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line));
    let first = lines.next().map_or("", |(_, line)| line);
    let run: OfflineRun =
        serde_json::from_str(first).map_err(|error| wrong(1, error.to_string()))?;
    let (mut requests, mut preemptions, mut is_whole) = (Vec::new(), 0, false);
    for (number, text) in lines {
        if let Ok(last) = serde_json::from_str::<OfflineEnd>(text) {
            is_whole = last.done;
            continue;
        }
        match serde_json::from_str::<OfflineOutcome>(text) {
            Ok(line) => {
                preemptions = line.preemptions.unwrap_or(0).saturating_add(preemptions);
                let most = max_tokens(line.index);
                requests.push(line.into_record(most));
            }
            Err(error) if error.is_eof() => break,
            Err(error) => return Err(wrong(number, error.to_string())),
        }
    }
    requests.sort_by_key(|request| request.index);
    let duration_ns = requests
        .iter()
        .map(|request| request.end_ns)
        .max()
        .unwrap_or(Nanos(0));
    Ok(Offline {
        load: LoadRecord {
            started_unix_ns: run.started_unix_ns,
            duration_ns,
            requests,
            abandoned: 0,
            client: ClientFacts::default(),
        },
        version: run.vllm,
        preemptions,
        is_whole,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use llmprof_analysis::serving::{parts, summarize_load};

    const TEXT: &str = concat!(
        r#"{"vllm": "0.32.0", "started_unix_ns": 1794787980000000000}"#,
        "\n",
        r#"{"index": 1, "sent_ns": 20, "arrivals": [[1020, 1], [1120, 2]], "prompt_tokens": 7, "end_ns": 1120, "queue_ns": 300, "prefill_ns": 600, "preemptions": 2}"#,
        "\n",
        r#"{"index": 0, "sent_ns": 10, "arrivals": [], "prompt_tokens": 0, "failure": "empty"}"#,
        "\n",
        r#"{"done": true}"#,
        "\n"
    );

    #[test]
    fn the_engines_own_times_split_a_request() {
        let offline = parse_offline(TEXT, |_| 2).unwrap();
        assert!(offline.is_whole);
        assert_eq!(
            (offline.version.as_str(), offline.preemptions),
            ("0.32.0", 2)
        );
        let summary = summarize_load(&offline.load, &[]);
        assert_eq!((summary.figures.completed, summary.figures.failed), (1, 1));
        let parts = parts::split_requests(&offline.load.requests, Nanos(0), &[]);
        assert_eq!(
            (parts[0].client_ns, parts[0].queue_ns, parts[0].prefill_ns),
            (Nanos(20), Nanos(300), Nanos(600))
        );
        assert_eq!(
            (parts[0].network_ns, parts[0].decode_ns),
            (Nanos(100), Nanos(100))
        );
        assert_eq!(parts[0].sum_ns(), Nanos(1120));
    }

    /// One gap for each of so many tokens would not fit the memory, and the preemptions not 64 bits.
    #[test]
    fn numbers_that_cannot_be_are_not_believed() {
        let text = TEXT.replace("[1120, 2]", "[1120, 4294967295]").replace(
            "\"failure\": \"empty\"",
            "\"preemptions\": 18446744073709551615",
        );
        let offline = parse_offline(&text, |_| 2).unwrap();
        assert_eq!(offline.preemptions, u64::MAX);
        let summary = summarize_load(&offline.load, &[]);
        assert_eq!(
            (summary.figures.itl_ms, summary.figures.total_output_tokens),
            (None, None)
        );
    }

    #[test]
    fn what_is_cut_is_not_whole() {
        for end in 0..TEXT.len() {
            match parse_offline(&TEXT[..end], |_| 2) {
                Ok(offline) => assert!(!offline.is_whole || end + 1 == TEXT.len()),
                Err(error) => assert!(end < TEXT.find('\n').unwrap(), "{end}: {error}"),
            }
        }
        let broken = TEXT.replace("\"arrivals\": [[", "\"arrivals\": [[\"x");
        assert!(parse_offline(&broken, |_| 2).is_err());
    }
}
