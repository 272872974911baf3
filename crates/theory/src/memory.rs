//! What a workload keeps in memory: weights, KV cache, and the activations that live at the same time.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    block::{FeedForward, Layer, Mixer, MlpInput, SamEncoder},
    count::saturating_product,
    error::WorkloadError,
    model::{Decoder, Model},
    vision::Vision,
    workload::Workload,
};

/// Searches end here: 4 billion tokens and 16 million sequences are more than any machine holds.
const SEARCHED_TOKENS_MAX: u64 = 1 << 32;
const SEARCHED_BATCH_MAX: u64 = 1 << 24;

/// Bytes that a workload needs at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryFootprint {
    /// Bytes of all weights as the checkpoint stores them, scales included.
    pub weights: u64,
    /// The KV cache when the last token is made.
    pub kv_cache: u64,
    /// The most that activations take at any one time: a peak over the operators of prefill, decode, vision and encoder.
    ///
    /// Attention scores are not part of it (fused attention never stores them), nor are a runtime's workspaces.
    pub activations_peak: u64,
}

impl MemoryFootprint {
    pub fn total_bytes(&self) -> u64 {
        self.weights
            .saturating_add(self.kv_cache)
            .saturating_add(self.activations_peak)
    }
}

impl Model {
    /// Longest sequence that the config allows.
    pub fn max_positions(&self) -> Option<u64> {
        self.decoder.as_ref()?.max_positions
    }

    /// Bytes of keys and values after `tokens` tokens in each of `workload`'s sequences.
    ///
    /// A layer with a sliding window keeps the window and no more; a gated delta layer one state, whatever the tokens; one that attends to an encoder keeps keys and values of all that
    /// it gave.
    pub fn kv_cache_bytes(&self, workload: &Workload, tokens: u64) -> u64 {
        let Some(decoder) = &self.decoder else {
            return 0;
        };
        let elements = decoder.groups.iter().fold(0u64, |total, group| {
            let kept = group
                .layer
                .attention_window()
                .map_or(tokens, |window| tokens.min(window));
            let layer = saturating_product(&[kept, group.layer.kv_elements(workload.mla)]);
            let cross = group.layer.cross.as_ref();
            let encoded = saturating_product(&[
                self.encoder_tokens(workload),
                cross.map_or(0, |cross| cross.kv_elements()),
            ]);
            let layer = layer.saturating_add(encoded);
            total.saturating_add(saturating_product(&[layer, group.layers.len() as u64]))
        });
        let formats = self.number_formats(&workload.precision);
        let states = decoder.groups.iter().fold(0u64, |total, group| {
            let layers = group.layers.len() as u64;
            total.saturating_add(saturating_product(&[
                group.layer.state_bytes(&formats),
                layers,
            ]))
        });
        formats
            .kv
            .bytes_for(saturating_product(&[elements, workload.batch]))
            .unwrap_or(u64::MAX)
            .saturating_add(saturating_product(&[states, workload.batch]))
    }

    /// What a workload keeps in memory at once.
    pub fn count_memory(&self, workload: &Workload) -> Result<MemoryFootprint, WorkloadError> {
        self.validate_workload(workload)?;
        Ok(self.memory_beside(workload, self.parameter_bytes(&workload.precision)))
    }

    /// Memory of a workload, given the bytes of its weights: callers that ask often sum the weights once, since that is the slow part.
    fn memory_beside(&self, workload: &Workload, weights: u64) -> MemoryFootprint {
        let tokens = self
            .context_tokens(workload)
            .saturating_add(workload.decode_steps());
        let passes = self
            .prefill_passes(workload)
            .chain([self.decode_step(workload)]);
        let text = self.decoder.as_ref().map_or(0, |decoder| {
            passes
                .map(|pass| {
                    let logits = saturating_product(&[pass.batch, pass.logits]);
                    decoder.peak_elements(pass.rows(), logits)
                })
                .max()
                .unwrap_or(0)
        });
        let images = saturating_product(&[workload.batch, workload.images.count]);
        let vision = match &self.vision {
            Some(vision) if images > 0 => vision.peak_elements(images, workload),
            _ => 0,
        };
        let encoded = saturating_product(&[workload.batch, self.encoder_tokens(workload)]);
        // What the encoder gave stays while the decoder begins.
        let (encoder, kept) = self.encoder.as_ref().map_or((0, 0), |encoder| {
            let kept = saturating_product(&[encoded, encoder.hidden]);
            (encoder.peak_elements(encoded), kept)
        });
        let formats = self.number_formats(&workload.precision);
        MemoryFootprint {
            weights,
            kv_cache: self.kv_cache_bytes(workload, tokens),
            activations_peak: formats
                .activations
                .bytes_for(text.saturating_add(kept).max(vision).max(encoder))
                .unwrap_or(u64::MAX),
        }
    }

    /// The largest batch of sequences like `workload`'s that fits `bytes`; `None` where not even one does.
    pub fn largest_batch(&self, workload: &Workload, bytes: u64) -> Option<u64> {
        let weights = self.parameter_bytes(&workload.precision);
        largest_fitting(1, SEARCHED_BATCH_MAX, |batch| {
            let workload = Workload { batch, ..*workload };
            self.memory_beside(&workload, weights).total_bytes() <= bytes
        })
    }

    /// The longest context per sequence, in tokens, that fits in `bytes` together with weights and activations of `workload`.
    ///
    /// The context is what `workload` holds at its end, with more tokens in the cache before it.
    pub fn largest_context(&self, workload: &Workload, bytes: u64) -> Option<u64> {
        let sequence_tokens = self
            .prompt_tokens(workload)
            .saturating_add(workload.decode_steps());
        let weights = self.parameter_bytes(&workload.precision);
        let cached = largest_fitting(0, SEARCHED_TOKENS_MAX, |cached| {
            let workload = Workload {
                cached,
                ..*workload
            };
            self.memory_beside(&workload, weights).total_bytes() <= bytes
        })?;
        Some(cached.saturating_add(sequence_tokens))
    }
}

/// The largest value in `low..=high` that fits, by bisection; what fits must fit for all smaller values too.
fn largest_fitting(low: u64, high: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    if !fits(low) {
        return None;
    }
    let (mut good, mut bad) = (low, high + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(good)
}

impl Decoder {
    /// Elements alive at the worst moment of a pass: inside a layer, or while logits are made.
    fn peak_elements(&self, rows: u64, logits: u64) -> u64 {
        let layers = self
            .groups
            .iter()
            .map(|group| group.layer.peak_elements(rows));
        let head = saturating_product(&[rows, self.hidden])
            .saturating_add(saturating_product(&[logits, self.head.linear.outputs]));
        layers.max().unwrap_or(0).max(head)
    }
}

impl Layer {
    /// Elements alive at the worst moment of this layer over `rows` tokens.
    pub(crate) fn peak_elements(&self, rows: u64) -> u64 {
        saturating_product(&[
            rows,
            self.width
                .saturating_add(self.mixer_peak().max(self.feed_peak())),
        ])
    }

    /// Beside the residual, per token: the normed input with queries, keys and values, or those with the result.
    fn mixer_peak(&self) -> u64 {
        let (projected, result) = match &self.mixer {
            Mixer::Attention(attention) => (
                (attention.heads * (1 + u64::from(attention.gate.is_some()))
                    + 2 * attention.kv_heads)
                    * attention.head_dim,
                attention.heads * attention.head_dim,
            ),
            Mixer::Mla(latent) => {
                let key = latent.nope_dim + latent.rope_dim;
                (
                    latent.heads * (2 * key + latent.value_dim),
                    latent.heads * latent.value_dim,
                )
            }
            Mixer::GatedDelta(delta) => {
                let all = delta.projections.all_linears();
                let projected = all.iter().map(|linear| linear.outputs).sum();
                (projected, delta.conv_channels())
            }
        };
        projected + self.width.max(result)
    }

    /// Beside the residual, per token: the input, what the first GEMMs give, and the activation's result.
    fn feed_peak(&self) -> u64 {
        match &self.feed {
            FeedForward::Dense(mlp) => {
                let inner = mlp.down.inputs;
                let products = match mlp.input {
                    MlpInput::Plain(_) => inner,
                    MlpInput::Gated { .. } | MlpInput::Fused(_) => 2 * inner,
                };
                products + self.width.max(inner)
            }
            FeedForward::Moe(moe) => {
                // Each token's copies for its experts, and gate, up and result inside them.
                let experts = &moe.experts;
                let copies = saturating_product(&[
                    experts.top_k,
                    experts.hidden.saturating_add(3 * experts.intermediate),
                ]);
                copies.saturating_add(2 * self.width)
            }
        }
    }
}

impl Vision {
    fn peak_elements(&self, images: u64, workload: &Workload) -> u64 {
        match self {
            Self::Encoder(encoder) => {
                let tokens = encoder.patches_per_image() + 1;
                encoder
                    .layer
                    .peak_elements(saturating_product(&[images, tokens]))
            }
            Self::Sam(sam) => sam.peak_elements(images, sam.side),
            Self::DeepseekOcr(towers) => {
                let crops = workload
                    .images
                    .crops_wide
                    .saturating_mul(workload.images.crops_high);
                let local = saturating_product(&[images, crops]);
                let views = [(images, towers.base_side), (local, towers.crop_side)];
                views
                    .into_iter()
                    .map(|(views, side)| {
                        let across = towers.sam.output_side(side);
                        let features = saturating_product(&[views, across * across + 1]);
                        let clip = towers.clip.layer.peak_elements(features);
                        towers.sam.peak_elements(views, side).max(clip)
                    })
                    .max()
                    .unwrap_or(0)
            }
            Self::Queries(towers) => {
                let views = towers.views(images, &workload.images);
                let peaks = views.map(|(views, side)| {
                    let tokens = saturating_product(&[views, towers.encoder_tokens(side)]);
                    let encoder = towers.encoder.layer.peak_elements(tokens);
                    towers.sam.peak_elements(views, side).max(encoder)
                });
                peaks.into_iter().max().unwrap_or(0)
            }
            Self::Qwen(tower) => {
                let tokens = self.tokens_per_image(&workload.images);
                let patches = saturating_product(&[images, tokens, tower.merge, tower.merge]);
                tower.layer.peak_elements(patches)
            }
        }
    }
}

impl SamEncoder {
    /// Windows are padded, so the worst moment is often in attention: residual, padded queries, keys, values, result.
    fn peak_elements(&self, images: u64, side: u64) -> u64 {
        let across = side / self.patches.stride;
        let patches = saturating_product(&[across, across]);
        let peak = self.groups.iter().map(|(_, layer)| {
            let padded = if layer.window > 0 {
                let windows = across.div_ceil(layer.window);
                saturating_product(&[windows, windows, layer.window, layer.window])
            } else {
                patches
            };
            let width = layer.norm1.width;
            let attention = saturating_product(&[padded, 4, width]);
            let feed = saturating_product(&[patches, 2, layer.mlp.down.inputs]);
            saturating_product(&[patches, width]).saturating_add(attention.max(feed))
        });
        saturating_product(&[images, peak.max().unwrap_or(0)])
    }
}
