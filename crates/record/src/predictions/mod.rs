//! What a model said to each sample: `predictions/predictions.jsonl` and one JSON file per sample.
//!
//! The lines are what counts: they are on the disk before the next batch starts, so that a run that is killed goes on where
//! it ended. The files of single samples are made from them.

mod log;
mod names;
mod request;

use std::path::PathBuf;

use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::log::{PREDICTIONS, PredictionLog, Skipped};
pub use self::names::file_names;
pub use self::request::DirectRequest;
use crate::run::{MeasuredPass, PassKind, PhaseSpan, Request};

/// One sample, and what the model said to it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Prediction {
    /// Its place in the order in which samples are fed, from 0. An id may occur twice, an index does not.
    pub index: u64,
    /// Id of the sample in its dataset.
    pub id: String,
    /// The name of its files, which an id need not be fit for.
    pub name: String,
    /// The file it is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The image that was shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<PathBuf>,
    /// Absent where the model has no tokenizer, and where predictions are off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The text with its special tokens, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_text: Option<String>,
    /// Why generation ended: `length` or `stop`.
    pub finish: String,
    /// Number of tokens in the prompt.
    pub prompt_tokens: u64,
    /// Tokens of the prompt that were cut from its end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_prompt_tokens: u64,
    /// Number of tokens that the model generated.
    pub output_tokens: u64,
    /// Time to first token (TTFT), ns.
    pub ttft_ns: Nanos,
    /// Absent where there is one token only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_ns: Option<Nanos>,
    /// From the start to the last token.
    pub duration_ns: Nanos,
    /// Which process of a resumed run made it, from 0. Times of two of them are not on one clock.
    pub segment: u64,
    /// Which batch of the run it was in, and how many samples that had.
    pub batch: u64,
    /// Number of samples in its batch.
    pub batch_size: u64,
    /// The phases of its batch.
    pub phases: Vec<PhaseSpan>,
    /// When its batch began, ns on the clock of its segment.
    pub start_ns: Nanos,
    /// When each token was there.
    pub token_ns: Vec<Nanos>,
    /// Ids of the tokens; empty where predictions are off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Prediction {
    /// The text that boxes are read from: special tokens may be part of it.
    pub fn grounded_text(&self) -> Option<&str> {
        self.raw_text.as_deref().or(self.text.as_deref())
    }
}

/// The predictions as passes and requests of a record: one plain pass for each process that made some.
///
/// `first_pass` is the index that the first of them gets.
pub fn measured_passes(
    predictions: &[Prediction],
    first_pass: usize,
) -> (Vec<MeasuredPass>, Vec<Request>) {
    let mut segments: Vec<u64> = predictions.iter().map(|one| one.segment).collect();
    segments.sort_unstable();
    segments.dedup();
    let mut passes = Vec::new();
    let mut requests = Vec::new();
    for (number, segment) in segments.into_iter().enumerate() {
        let mut phases: Vec<PhaseSpan> = Vec::new();
        let mut last_batch = None;
        for one in predictions.iter().filter(|one| one.segment == segment) {
            if last_batch != Some(one.batch) {
                last_batch = Some(one.batch);
                phases.extend(one.phases.iter().cloned());
            }
            requests.push(Request {
                id: one.id.clone(),
                pass: first_pass + number,
                start_ns: one.start_ns,
                token_ns: one.token_ns.clone(),
                device_token_ns: Vec::new(),
                prompt_tokens: one.prompt_tokens,
                output_tokens: one.output_tokens,
                batch: one.batch_size,
            });
        }
        passes.push(MeasuredPass {
            kind: PassKind::Plain,
            phases,
            ..MeasuredPass::default()
        });
    }
    (passes, requests)
}
