//! The typed blocks that models are made of.
//!
//! A block holds what its cost and its execution need: sizes, weight names as the checkpoint spells them, epsilons,
//! rotation settings, activations. Each lowers itself to operators and lists its weights.

mod attention;
mod conv;
mod conv1d;
mod cross;
mod embedding;
mod encoder;
mod gated_delta;
mod layer;
mod linear;
mod mla;
mod mlp;
mod moe;
mod norm;
mod relative;
mod rope;
mod sam;
mod window_vit;

pub use attention::{Attention, Projections, QkvOrder, Scores};
pub use conv::Conv;
pub use conv1d::Conv1d;
pub use cross::CrossAttention;
pub use embedding::{Embedding, Head, PositionTable};
pub use encoder::{AttentionPooling, ImageEncoder};
pub(crate) use gated_delta::{CHUNK_TOKENS, chunk_flops};
pub use gated_delta::{DeltaProjections, GatedDelta};
pub use layer::{Arrangement, FeedForward, Layer, LayerGroup, Mixer, RESIDUAL_ADD_NAMES};
pub use linear::{Layout, Linear};
pub use mla::{Mla, MlaQuery};
pub use mlp::{ActivationKind, Mlp, MlpInput};
pub use moe::{ExpertWeights, Experts, Moe, Router, Scoring};
pub use norm::{Norm, NormKind};
pub use relative::RelativeBias;
pub use rope::{Rope, RopePairing, RopeScaling, RopeTable};
pub use sam::{SamEncoder, SamLayer};
pub use window_vit::WindowVit;
