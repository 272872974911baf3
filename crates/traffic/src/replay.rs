//! Traces of real load: when requests came, how long they were, what they shared.

use std::path::Path;

use llmprof_units::Nanos;
use serde::Deserialize;

use crate::{
    lengths::REQUEST_TOKENS_MAX,
    text_file::{self, TextFileError},
};

/// Tokens of a block in Mooncake's traces.
pub const MOONCAKE_BLOCK: u64 = 512;

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// When it came, from the first one of the trace.
    pub at_ns: Nanos,
    pub prompt_tokens: u64,
    pub output_tokens: u64,
    /// Blocks of its prompt by content: prompts with equal leading numbers share that prefix.
    pub blocks: Vec<u64>,
}

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read, or a line is not of the format.
    #[error(transparent)]
    File(#[from] TextFileError),
    #[error(
        "unrecognized format; supported: Mooncake JSONL (timestamp, input_length, output_length), BurstGPT CSV (Timestamp, Request tokens, Response tokens), JSON of `vllm bench serve --save-detailed`"
    )]
    Unrecognized,
    /// The file holds no request.
    #[error("the trace has no requests")]
    Empty,
}

/// Reads a trace, by its content.
pub fn load_trace(path: &Path) -> Result<Vec<TracedRequest>, ReplayError> {
    parse_trace(&text_file::read_text(path)?)
}

pub fn parse_trace(text: &str) -> Result<Vec<TracedRequest>, ReplayError> {
    let first = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .ok_or(ReplayError::Empty)?;
    let mut requests = if first.contains("Timestamp") && first.contains("Request tokens") {
        burst_gpt(text)?
    } else if first.trim_start().starts_with('{') {
        match serde_json::from_str::<DetailedResult>(text) {
            Ok(detailed) => detailed.into_requests()?,
            Err(_) => parse_mooncake(text)?,
        }
    } else {
        return Err(ReplayError::Unrecognized);
    };
    requests.sort_by_key(|request| request.at_ns);
    let start = requests.first().ok_or(ReplayError::Empty)?.at_ns;
    for request in &mut requests {
        request.at_ns -= start;
    }
    Ok(requests)
}

#[derive(Deserialize)]
struct MooncakeLine {
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

fn parse_mooncake(text: &str) -> Result<Vec<TracedRequest>, TextFileError> {
    let mut requests = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |what: String| TextFileError::Line {
            line: index + 1,
            what,
        };
        let mooncake_line: MooncakeLine =
            serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let request = TracedRequest {
            at_ns: scale_to_nanos(mooncake_line.timestamp, 1e6).map_err(wrong)?,
            prompt_tokens: mooncake_line.input_length,
            output_tokens: mooncake_line.output_length,
            blocks: mooncake_line.hash_ids,
        };
        check_lengths(&request).map_err(wrong)?;
        requests.push(request);
    }
    Ok(requests)
}

fn burst_gpt(text: &str) -> Result<Vec<TracedRequest>, TextFileError> {
    let mut lines = text.lines().enumerate();
    let header: Vec<&str> = lines
        .next()
        .map(|(_, line)| line.trim_end().split(',').map(str::trim).collect())
        .unwrap_or_default();
    let column = |name: &str| {
        let column = header.iter().position(|header| *header == name);
        column.ok_or_else(|| TextFileError::Line {
            line: 1,
            what: format!("there is no column `{name}`"),
        })
    };
    let (at, prompt, output) = (
        column("Timestamp")?,
        column("Request tokens")?,
        column("Response tokens")?,
    );
    let mut requests = Vec::new();
    for (index, line) in lines {
        if line.trim().is_empty() {
            continue;
        }
        let cells: Vec<&str> = line.trim_end().split(',').map(str::trim).collect();
        let wrong = |what: String| TextFileError::Line {
            line: index + 1,
            what,
        };
        let number = |column: usize| {
            let cell = cells.get(column).copied().unwrap_or_default();
            let value = cell.parse::<f64>().ok().filter(|value| *value >= 0.0);
            value.ok_or_else(|| wrong(format!("`{cell}` in column {} is not a number", column + 1)))
        };
        let request = TracedRequest {
            at_ns: scale_to_nanos(number(at)?, 1e9).map_err(wrong)?,
            prompt_tokens: number(prompt)? as u64,
            output_tokens: number(output)? as u64,
            blocks: Vec::new(),
        };
        // The trace has requests that failed: no answer, nothing to replay.
        if request.output_tokens == 0 || request.prompt_tokens == 0 {
            continue;
        }
        check_lengths(&request).map_err(wrong)?;
        requests.push(request);
    }
    Ok(requests)
}

/// The detailed result of `vllm bench serve`: its requests again, when it sent them.
#[derive(Deserialize)]
struct DetailedResult {
    start_times: Vec<f64>,
    input_lens: Vec<u64>,
    output_lens: Vec<u64>,
}

impl DetailedResult {
    fn into_requests(self) -> Result<Vec<TracedRequest>, TextFileError> {
        let wrong = |what: String| TextFileError::Line { line: 1, what };
        let count = self.start_times.len();
        if self.input_lens.len() != count || self.output_lens.len() != count {
            return Err(wrong(
                "start_times, input_lens and output_lens differ in length".to_owned(),
            ));
        }
        // Its times are of a monotonic clock of any origin: subtract before rounding.
        let origin = self
            .start_times
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min);
        let lengths = self.input_lens.into_iter().zip(self.output_lens);
        self.start_times
            .into_iter()
            .zip(lengths)
            // A request that failed has no answer to ask for again.
            .filter(|(_, (prompt, output))| *prompt > 0 && *output > 0)
            .map(|(at, (prompt_tokens, output_tokens))| {
                Ok(TracedRequest {
                    at_ns: scale_to_nanos(at - origin, 1e9).map_err(wrong)?,
                    prompt_tokens,
                    output_tokens,
                    blocks: Vec::new(),
                })
            })
            .collect()
    }
}

/// A time of a trace; within 30 years, so that it can be added to a clock.
fn scale_to_nanos(value: f64, scale: f64) -> Result<Nanos, String> {
    let nanos = value * scale;
    if (0.0..1e18).contains(&nanos) {
        Ok(Nanos(nanos as i64))
    } else {
        Err(format!("{value} is not a time"))
    }
}

fn check_lengths(request: &TracedRequest) -> Result<(), String> {
    let lengths = [request.prompt_tokens, request.output_tokens];
    match lengths
        .iter()
        .find(|tokens| !(1..=REQUEST_TOKENS_MAX).contains(tokens))
    {
        Some(tokens) => Err(format!("{tokens} is not a token count")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mooncake_in_milliseconds_from_the_first() {
        let text = "{\"timestamp\": 1000, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [7, 8]}\n\
                    {\"timestamp\": 500, \"input_length\": 10, \"output_length\": 2, \"hash_ids\": [7]}\n";
        let requests = parse_trace(text).unwrap();
        assert_eq!(requests[0].at_ns, Nanos(0));
        assert_eq!(requests[1].at_ns, Nanos(500_000_000));
        assert_eq!(requests[1].blocks, [7, 8]);
    }

    #[test]
    fn burst_gpt_in_seconds_without_failed_requests() {
        let text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                    5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,API log\n6.5,GPT-4,10,3,13,API log\n";
        let requests = parse_trace(text).unwrap();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[1].at_ns, Nanos(1_500_000_000));
        assert_eq!(requests[1].prompt_tokens, 10);
    }

    #[test]
    fn a_result_of_vllm_is_replayed_at_its_start_times() {
        let text = r#"{"start_times":[100.5,100.25],"input_lens":[8,9],"output_lens":[3,4],"ttfts":[0.1,0.2]}"#;
        let requests = parse_trace(text).unwrap();
        assert_eq!(requests[0].prompt_tokens, 9);
        assert_eq!(requests[1].at_ns, Nanos(250_000_000));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let wrong = |text: &str| parse_trace(text).unwrap_err().to_string();
        assert!(wrong("").contains("no requests"));
        assert!(wrong("hello").contains("unrecognized format"));
        let line = wrong(
            "{\"timestamp\":1,\"input_length\":1,\"output_length\":1}\n{\"timestamp\":-1,\"input_length\":1,\"output_length\":1}",
        );
        assert!(line.contains("line 2"), "{line}");
        let line = wrong("Timestamp,Request tokens,Response tokens\n1,x,2\n");
        assert!(line.contains("line 2") && line.contains("`x`"), "{line}");
        assert!(wrong("Timestamp,Request tokens\n").contains("Response tokens"));
    }
}
