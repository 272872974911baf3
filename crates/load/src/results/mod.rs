//! Results of other load generators: read by content, and written as `vllm bench serve` writes them.

mod aiperf;
mod vllm;

use std::{collections::BTreeMap, path::Path};

use llmprof_units::bounded_file::read_text_bounded;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Statistics of one latency, by name: `mean`, `p50`, `std`, `p99`… in milliseconds.
pub type Statistics = BTreeMap<String, f64>;

/// A result of another tool, in our words. What it does not say is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ForeignResult {
    /// Tool that wrote the result, such as `vllm bench serve`.
    pub tool: String,
    /// Model that the tool asked for.
    pub model: Option<String>,
    /// Requests per second that were asked for; absent where all were sent at once.
    pub request_rate: Option<f64>,
    /// Shape of the gaps between requests that were sent at a rate.
    pub burstiness: Option<f64>,
    /// Requests in flight at most.
    pub max_concurrency: Option<u64>,
    /// Wall-clock time of the benchmark.
    pub duration_s: Option<f64>,
    /// Requests that ended with a result.
    pub completed: Option<u64>,
    /// Requests that ended with an error.
    pub failed: Option<u64>,
    /// Sum of the tokens of all prompts.
    pub total_input_tokens: Option<u64>,
    /// Sum of the tokens of all answers.
    pub total_output_tokens: Option<u64>,
    /// Requests completed per second of the benchmark.
    pub request_throughput: Option<f64>,
    /// Generated tokens per second, over all requests.
    pub output_throughput: Option<f64>,
    /// Requests per second that met objectives.
    pub goodput: Option<f64>,
    /// Time to the first token.
    pub ttft_ms: Statistics,
    /// Time per output token (TPOT), by statistic.
    pub tpot_ms: Statistics,
    /// Time between tokens (ITL), by statistic.
    pub itl_ms: Statistics,
    /// Time to the last token.
    pub e2e_ms: Statistics,
    /// Each request, where the result has them.
    pub requests: Vec<ForeignRequest>,
}

/// A request of such a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct ForeignRequest {
    /// When it was sent, seconds on the tool's own clock.
    pub start_s: Option<f64>,
    /// Number of tokens in the prompt.
    pub input_tokens: Option<u64>,
    /// Number of tokens in the answer.
    pub output_tokens: Option<u64>,
    /// Time to the first token.
    pub ttft_ms: Option<f64>,
    /// Time to the last token.
    pub e2e_ms: Option<f64>,
    /// Times between arrivals of text.
    pub gaps_ms: Vec<f64>,
    /// Why it has no result.
    pub error: Option<String>,
}

/// Why a result cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        path: String,
        source: std::io::Error,
    },
    /// It is of no tool that is known.
    #[error(
        "unrecognized format; supported: JSON of `vllm bench serve`, JSONL of SGLang's bench_serving, AIPerf's profile_export_aiperf.json and profile_export.jsonl"
    )]
    Unrecognized,
    /// It is of a tool, and broken.
    #[error("line {line}: {what}")]
    Broken {
        /// Number of the line, from 1.
        line: usize,
        what: String,
    },
}

/// A million requests with 1,000 token times each would be larger, and no tool writes so many.
const RESULTS_MAX_BYTES: u64 = 4 << 30;

/// Reads a file of results: one for each line of JSONL, else one.
pub fn load(path: &Path) -> Result<Vec<ForeignResult>, ResultError> {
    let text = read_text_bounded(path, RESULTS_MAX_BYTES).map_err(|source| ResultError::Io {
        path: path.display().to_string(),
        source,
    })?;
    parse_results(&text)
}

pub fn parse_results(text: &str) -> Result<Vec<ForeignResult>, ResultError> {
    if let Ok(whole) = serde_json::from_str::<serde_json::Value>(text) {
        let result =
            read_one(&whole).or_else(|| aiperf::read_records(std::slice::from_ref(&whole)));
        return result
            .map(|result| vec![result])
            .ok_or(ResultError::Unrecognized);
    }
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let value: serde_json::Value = serde_json::from_str(line).map_err(|error| {
            if lines.is_empty() {
                ResultError::Unrecognized
            } else {
                ResultError::Broken {
                    line: index + 1,
                    what: error.to_string(),
                }
            }
        })?;
        lines.push(value);
    }
    if let Some(result) = aiperf::read_records(&lines) {
        return Ok(vec![result]);
    }
    let results: Option<Vec<ForeignResult>> = lines.iter().map(read_one).collect();
    results
        .filter(|results| !results.is_empty())
        .ok_or(ResultError::Unrecognized)
}

fn read_one(value: &serde_json::Value) -> Option<ForeignResult> {
    vllm::read_result(value).or_else(|| aiperf::read_summary(value))
}

/// A number, also one that was written as text.
fn number_at(value: &serde_json::Value, key: &str) -> Option<f64> {
    let value = value.get(key)?;
    value
        .as_f64()
        .or_else(|| value.as_str()?.parse().ok())
        .filter(|number| number.is_finite())
}

fn whole_at(value: &serde_json::Value, key: &str) -> Option<u64> {
    number_at(value, key)
        .filter(|n| *n >= 0.0)
        .map(|n| n as u64)
}

fn text_at(value: &serde_json::Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}
