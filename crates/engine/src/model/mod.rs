//! The blocks of `theory`, bound to weights and executed.
//!
//! Each bound block runs its operators in the order in which the block of the same name lowers them.

mod attention;
mod bind;
mod decoder;
mod layer;
mod linear;
mod mixer;
mod mlp;
mod moe;
mod norm;
mod table;

pub(crate) use bind::Binder;
pub(crate) use decoder::BoundDecoder;
pub(crate) use mixer::attention_of;

/// The batch of one step: how many new tokens each sequence has.
#[derive(Clone, Copy)]
pub(crate) struct BatchRows<'a> {
    pub(crate) counts: &'a [usize],
    pub(crate) total: usize,
}

/// Memory for activations, kept from step to step: allocating it for each step would cost a page fault per page.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) stream: Vec<f32>,
    pub(crate) normed: Vec<f32>,
    /// What a mixer or feed-forward part gave.
    pub(crate) result: Vec<f32>,
    pub(crate) queries: Vec<f32>,
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
    /// Fused projections, and what attention gave.
    pub(crate) mixed: Vec<f32>,
    pub(crate) gate: Vec<f32>,
    pub(crate) up: Vec<f32>,
    /// Cosines and sines, one per table of the decoder.
    pub(crate) tables: Vec<Vec<f32>>,
    pub(crate) logits: Vec<f32>,
}

/// The first `length` elements of a buffer that grows as needed. Old contents stay: whoever takes it writes all of it.
pub(crate) fn resized_slice(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}
