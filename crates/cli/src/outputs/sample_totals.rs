//! What became of the samples of direct inference, in numbers.

use llmprof_grounding::PageCounts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of the samples of direct inference.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct SampleTotals {
    /// Samples with a prediction.
    pub(crate) samples: usize,
    /// Samples that were left out.
    pub(crate) skipped: usize,
    /// Predictions that ended with a stop token.
    pub(crate) stopped: usize,
    /// Predictions that ended at the limit of tokens.
    pub(crate) at_length_limit: usize,
    /// Prompt tokens of all samples.
    pub(crate) prompt_tokens: u64,
    /// Output tokens of all samples.
    pub(crate) output_tokens: u64,
    /// What was drawn on pages; null where nothing was.
    pub(crate) grounding: Option<PageTotals>,
}

/// Regions that predictions name on pages.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct PageTotals {
    /// Pages that were drawn.
    pub(crate) pages: u64,
    #[serde(flatten)]
    pub(crate) counts: PageCounts,
}
