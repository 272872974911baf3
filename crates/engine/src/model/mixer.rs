//! Which way of mixing tokens runs here.

use llmprof_theory::block::{Attention, Layer, Mixer};

use crate::error::EngineError;

/// The attention of a layer, the one way of mixing tokens that runs here.
pub(crate) fn attention_of(layer: &Layer) -> Result<&Attention, EngineError> {
    let block = match &layer.mixer {
        Mixer::Attention(attention) => return Ok(attention),
        Mixer::Mla(_) => "latent attention",
        Mixer::GatedDelta(_) => "gated delta layers",
    };
    Err(EngineError::UnsupportedBlock { block })
}
