use super::{Attention, CrossAttention, GatedDelta, Mla, Mlp, Moe, Norm};
use crate::{formats::Formats, lower::Lowering, weight::Visitor, workload::MlaDecode};

/// The mixing of tokens in a layer.
#[derive(Clone, Debug, PartialEq)]
pub enum Mixer {
    /// Grouped-query attention, of which multi-head is a case.
    Attention(Attention),
    Mla(Mla),
    GatedDelta(Box<GatedDelta>),
}

/// The feed-forward part of a layer.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedForward {
    Dense(Mlp),
    Moe(Box<Moe>),
}

/// Names of the residual additions after the mixer, after attention to an encoder, and after the feed-forward part, where the layer's
/// own module does them.
pub const RESIDUAL_ADD_NAMES: [&str; 3] = ["mixer_add", "cross_add", "feed_add"];

/// How a layer's parts are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// `x += mix(norm(x)); x += feed(norm(x))`.
    PreNorm,
    /// `x += mix(norm₁(x)) + feed(norm₂(x))` (GPT-NeoX).
    Parallel,
    /// `x = norm(x + mix(x)); x = norm(x + feed(x))` (OPT-350m).
    PostNorm,
}

/// One layer of a transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Width of the residual stream.
    pub width: u64,
    /// How the parts are joined.
    pub arrangement: Arrangement,
    /// Norm of the mixer: before it, or after its addition when post-norm.
    pub mixer_norm: Norm,
    pub mixer: Mixer,
    /// Norm of the mixer's result before its addition (Gemma).
    pub after_mixer_norm: Option<Norm>,
    /// Attention to an encoder, between mixer and feed-forward part.
    pub cross: Option<Box<CrossAttention>>,
    /// Paths of the residual additions; [`RESIDUAL_ADD_NAMES`] but for T5, whose parts add to the stream themselves.
    pub adds: [&'static str; 3],
    /// Norm of the feed-forward part.
    pub feed_norm: Norm,
    pub feed: FeedForward,
    /// Norm of its result before its addition (Gemma).
    pub after_feed_norm: Option<Norm>,
}

/// Identical layers of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerGroup {
    pub layers: Vec<u32>,
    /// What each of them is.
    pub layer: Layer,
}

impl Layer {
    /// A pre-norm layer of two parts.
    pub(crate) fn new(
        width: u64,
        [mixer_norm, feed_norm]: [Norm; 2],
        mixer: Mixer,
        feed: FeedForward,
    ) -> Self {
        Self {
            width,
            arrangement: Arrangement::PreNorm,
            mixer_norm,
            mixer,
            after_mixer_norm: None,
            cross: None,
            adds: RESIDUAL_ADD_NAMES,
            feed_norm,
            feed,
            after_feed_norm: None,
        }
    }

    /// Keys that a query of this layer sees; absent is all.
    pub fn attention_window(&self) -> Option<u64> {
        match &self.mixer {
            Mixer::Attention(attention) => attention.window,
            Mixer::Mla(_) | Mixer::GatedDelta(_) => None,
        }
    }

    /// Elements that this layer's cache gains per token.
    pub(crate) fn kv_elements(&self, mla: MlaDecode) -> u64 {
        match &self.mixer {
            Mixer::Attention(attention) => attention.kv_elements(),
            Mixer::Mla(latent) => latent.kv_elements(mla),
            Mixer::GatedDelta(_) => 0,
        }
    }

    /// Bytes that a sequence keeps in this layer however many tokens it has.
    pub(crate) fn state_bytes(&self, formats: &Formats) -> u64 {
        match &self.mixer {
            Mixer::Attention(_) | Mixer::Mla(_) => 0,
            Mixer::GatedDelta(delta) => delta.state_bytes(formats),
        }
    }

    fn lower_mixer<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        match &self.mixer {
            Mixer::Attention(attention) => attention.lower(lowering),
            Mixer::Mla(latent) => latent.lower(lowering),
            Mixer::GatedDelta(delta) => delta.lower(lowering),
        }
        if let Some(norm) = &self.after_mixer_norm {
            lowering.emit_norm(norm, lowering.rows());
        }
    }

    fn feed_forward<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        match &self.feed {
            FeedForward::Dense(mlp) => mlp.lower(lowering),
            FeedForward::Moe(moe) => moe.lower(lowering),
        }
        if let Some(norm) = &self.after_feed_norm {
            lowering.emit_norm(norm, lowering.rows());
        }
    }

    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let rows = lowering.rows();
        let [mixer_add, cross_add, feed_add] = self.adds;
        match self.arrangement {
            Arrangement::PreNorm => {
                lowering.emit_norm(&self.mixer_norm, rows);
                self.lower_mixer(lowering);
                lowering.emit_add(mixer_add, self.width);
                if let Some(cross) = &self.cross {
                    cross.lower(lowering);
                    lowering.emit_add(cross_add, self.width);
                }
                lowering.emit_norm(&self.feed_norm, rows);
                self.feed_forward(lowering);
                lowering.emit_add(feed_add, self.width);
            }
            Arrangement::Parallel => {
                lowering.emit_norm(&self.mixer_norm, rows);
                self.lower_mixer(lowering);
                lowering.emit_norm(&self.feed_norm, rows);
                self.feed_forward(lowering);
                lowering.emit_add(feed_add, self.width);
                lowering.emit_add(mixer_add, self.width);
            }
            Arrangement::PostNorm => {
                self.lower_mixer(lowering);
                lowering.emit_add(mixer_add, self.width);
                lowering.emit_norm(&self.mixer_norm, rows);
                self.feed_forward(lowering);
                lowering.emit_add(feed_add, self.width);
                lowering.emit_norm(&self.feed_norm, rows);
            }
        }
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        self.mixer_norm.visit_weights(visitor);
        match &self.mixer {
            Mixer::Attention(attention) => attention.visit_weights(visitor),
            Mixer::Mla(latent) => latent.visit_weights(visitor),
            Mixer::GatedDelta(delta) => delta.visit_weights(visitor),
        }
        if let Some(cross) = &self.cross {
            cross.visit_weights(visitor);
        }
        self.feed_norm.visit_weights(visitor);
        match &self.feed {
            FeedForward::Dense(mlp) => mlp.visit_weights(visitor),
            FeedForward::Moe(moe) => moe.visit_weights(visitor),
        }
        for norm in [&self.after_mixer_norm, &self.after_feed_norm]
            .into_iter()
            .flatten()
        {
            norm.visit_weights(visitor);
        }
    }
}
