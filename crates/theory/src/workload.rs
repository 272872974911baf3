//! What is asked of a model: how much text, how many images, in which number formats.

use llmprof_units::DType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{operator::Phase, quant::WeightFormat, ranks::Parallel};

/// How the work of attention is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionConvention {
    /// Each query against the keys it may see: what a kernel that skips masked tiles does.
    #[default]
    Causal,
    /// Each query against every key at hand, masked ones too: what eager attention does and torch's counter counts.
    Full,
}

/// The positions whose logits are computed in prefill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Logits {
    /// The last position of each sequence, which is all that generation needs.
    #[default]
    Last,
    All,
}

/// How multi-head latent attention decodes, and what its cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MlaDecode {
    /// The cache holds the compressed latent; the up-projections are absorbed into queries and outputs.
    #[default]
    Absorbed,
    /// The cache holds expanded keys and values of every head.
    Naive,
    /// The cache holds the compressed latent; every step expands it again (transformers 5).
    Expanded,
}

/// Which experts the tokens of a step reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// Every token picks its experts uniformly at random; the number touched is an expectation.
    #[default]
    Uniform,
    /// Mean number of distinct experts per layer and step, measured in a run.
    Measured {
        /// Mean distinct experts per layer of one prefill pass.
        prefill: f64,
        /// Mean distinct experts per layer of one decode step.
        decode: f64,
    },
}

/// Number formats; what is absent follows the model's config.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct Precision {
    /// Storage of the quantizable weight matrices.
    pub weights: Option<WeightFormat>,
    /// Storage of all other weights: as the quantizable ones where those are not quantized, else as activations.
    pub plain: Option<DType>,
    /// Number format of activations; null takes the model's own.
    pub activations: Option<DType>,
    /// Number format of the KV cache.
    pub kv: Option<DType>,
    /// What matrix units multiply for quantized weights.
    pub compute: Option<DType>,
}

/// Images that come with each sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct Images {
    /// Number of images that come with each sequence; 0 is none.
    pub count: u64,
    /// Pixels from top to bottom, for models that take any size; 0 is the model's own size.
    pub height: u64,
    /// Pixels from left to right; 0 is the model's own size.
    pub width: u64,
    /// Local crops across each image, for models that crop; 0 is none.
    pub crops_wide: u64,
    /// Local crops down each image; 0 is none.
    pub crops_high: u64,
}

/// A request shape: what one batch of generation is made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// Number of sequences that run together in a step.
    pub batch: u64,
    /// Text tokens of each prompt; image tokens come on top.
    pub prompt: u64,
    /// Tokens generated per sequence. Prefill gives the first, so decode takes one step fewer.
    pub new_tokens: u64,
    /// Tokens whose keys and values are in the cache before prefill starts.
    pub cached: u64,
    /// Prompt tokens that one prefill pass takes; absent is all of them.
    pub chunk: Option<u64>,
    /// Number formats of weights, activations and KV cache; each absent one follows the model's config.
    pub precision: Precision,
    /// Number and size of the images that come with each sequence.
    pub images: Images,
    /// Whether causal attention counts the scores above the diagonal.
    pub attention: AttentionConvention,
    /// Whether prefill computes the logits of the last token or of all.
    pub logits: Logits,
    /// Which form of the latent the KV cache holds in multi-head latent attention (DeepSeek).
    pub mla: MlaDecode,
    /// How many distinct experts the tokens of a step reach in a mixture of experts.
    pub routing: Routing,
    /// Devices that share the model.
    #[serde(skip_serializing_if = "Parallel::is_single")]
    pub parallel: Parallel,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            batch: 1,
            prompt: 128,
            new_tokens: 128,
            cached: 0,
            chunk: None,
            precision: Precision::default(),
            images: Images::default(),
            attention: AttentionConvention::default(),
            logits: Logits::default(),
            mla: MlaDecode::default(),
            routing: Routing::default(),
            parallel: Parallel::default(),
        }
    }
}

impl Workload {
    /// Decode steps that follow prefill.
    pub fn decode_steps(&self) -> u64 {
        self.new_tokens.saturating_sub(1)
    }
}

/// Equal steps of the decoder: each takes `queries` new tokens per sequence and adds them to the cache.
///
/// Prefill in one go is one step of the prompt's length; chunked prefill is a step per chunk; decode of `n` tokens is
/// `n` steps of one. Step `i` finds `past + i × queries` tokens in the cache, which gives sums over steps a closed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    /// What its operators belong to.
    pub phase: Phase,
    pub batch: u64,
    /// New tokens per sequence and step.
    pub queries: u64,
    /// Tokens per sequence in the cache before the first step.
    pub past: u64,
    pub steps: u64,
    /// Positions per sequence and step whose logits are computed.
    pub logits: u64,
}

impl Pass {
    /// `steps` decode steps, the first of which finds `context` tokens in the cache.
    pub fn decode_steps(batch: u64, context: u64, steps: u64) -> Self {
        Self {
            phase: Phase::Decode,
            batch,
            queries: 1,
            past: context,
            steps,
            logits: 1,
        }
    }

    /// The passes of a prefill of `tokens` per sequence after `cached` ones: equal chunks, then the rest.
    pub fn prefill_chunks(
        batch: u64,
        tokens: u64,
        cached: u64,
        chunk: Option<u64>,
        logits: Logits,
    ) -> impl Iterator<Item = Self> {
        let chunk = chunk.unwrap_or(tokens).clamp(1, tokens.max(1));
        let steps = tokens.saturating_sub(1) / chunk;
        let rest = tokens - steps * chunk;
        let pass = move |queries, past, steps, last: bool| Self {
            phase: Phase::Prefill,
            batch,
            queries,
            past,
            steps,
            logits: match logits {
                Logits::All => queries,
                Logits::Last => u64::from(last),
            },
        };
        [
            pass(chunk, cached, steps, false),
            pass(rest, cached.saturating_add(steps * chunk), 1, true),
        ]
        .into_iter()
        .filter(|pass| pass.steps > 0 && pass.queries > 0)
    }

    /// Rows of a linear layer: sequences × new tokens, in one step.
    pub fn rows(&self) -> u64 {
        self.batch.saturating_mul(self.queries)
    }

    /// Σ over steps of the cached tokens that a step finds, none above `cap`.
    pub(crate) fn past_sum(&self, cap: u64) -> u64 {
        clipped_sum(self.past, self.queries, self.steps, cap)
    }

    /// Σ over steps and queries of one sequence of the keys that a query meets under `convention` and window.
    ///
    /// Full: every query of a step meets the cached keys within the window and all new ones. Causal: the query at
    /// position `t` meets `min(t + 1, window)`.
    pub(crate) fn keys_sum(&self, convention: AttentionConvention, window: Option<u64>) -> u64 {
        let window = window.unwrap_or(u64::MAX).max(1);
        match convention {
            AttentionConvention::Full => self
                .past_sum(window - 1)
                .saturating_add(self.queries.saturating_mul(self.steps))
                .saturating_mul(self.queries),
            AttentionConvention::Causal => clipped_sum(
                self.past.saturating_add(1),
                1,
                self.queries.saturating_mul(self.steps),
                window,
            ),
        }
    }
}

/// Σ over `i < count` of `min(start + i × step, cap)`, saturating.
///
/// The first `below` terms lie under the cap and form an arithmetic series; the others equal the cap.
fn clipped_sum(start: u64, step: u64, count: u64, cap: u64) -> u64 {
    let below = if start >= cap {
        0
    } else if step == 0 {
        count
    } else {
        (cap - start).div_ceil(step).min(count)
    };
    let series = |start: u128, step: u128, count: u128| {
        // count × (count − 1) fits in 128 bits; the products with it may not.
        let triangle = count * count.saturating_sub(1) / 2;
        start
            .saturating_mul(count)
            .saturating_add(step.saturating_mul(triangle))
    };
    let sum = series(start.into(), step.into(), below.into())
        .saturating_add(u128::from(cap).saturating_mul((count - below).into()));
    u64::try_from(sum).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn clipped_sum_is_the_sum(start in 0u64..50, step in 0u64..7, count in 0u64..40, cap in 0u64..90) {
            let expected: u64 = (0..count).map(|i| (start + i * step).min(cap)).sum();
            prop_assert_eq!(clipped_sum(start, step, count, cap), expected);
        }

        #[test]
        fn chunks_cover_the_prompt(tokens in 0u64..500, chunk in 1u64..600, cached in 0u64..50) {
            let passes: Vec<_> = Pass::prefill_chunks(2, tokens, cached, Some(chunk), Logits::Last).collect();
            prop_assert_eq!(passes.iter().map(|p| p.queries * p.steps).sum::<u64>(), tokens);
            prop_assert_eq!(passes.iter().map(|p| p.steps).sum::<u64>(), tokens.div_ceil(chunk));
            prop_assert_eq!(passes.iter().map(|p| p.logits * p.steps).sum::<u64>(), u64::from(tokens > 0));
        }
    }

    #[test]
    fn keys_of_a_causal_triangle_and_a_square() {
        let pass = Pass::prefill_chunks(1, 4, 0, None, Logits::Last)
            .next()
            .unwrap();
        assert_eq!(pass.keys_sum(AttentionConvention::Full, None), 16);
        assert_eq!(pass.keys_sum(AttentionConvention::Causal, None), 10);
        assert_eq!(pass.keys_sum(AttentionConvention::Causal, Some(2)), 7);
    }

    #[test]
    fn huge_sums_saturate() {
        assert_eq!(
            clipped_sum(u64::MAX, u64::MAX, u64::MAX, u64::MAX),
            u64::MAX
        );
        let pass = Pass::decode_steps(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(pass.keys_sum(AttentionConvention::Full, None), u64::MAX);
    }
}
