//! Keys and values of the tokens so far.

use llmprof_theory::{Decoder, block::Attention};
use memmap2::MmapMut;

use crate::{
    buffer,
    error::EngineError,
    kernel::Tile,
    model::{Workspace, attention_of},
};

/// The state of a batch of sequences: their keys and values, and how long each is.
///
/// All positions are kept, also of layers with a window: such a layer reads only what its window shows.
#[derive(Debug)]
pub struct KvCache {
    memory: MmapMut,
    layers: Vec<LayerPlace>,
    lengths: Vec<usize>,
    capacity: usize,
    expected: usize,
    pub(crate) workspace: Workspace,
}

/// Where a layer's keys and values lie, in elements.
#[derive(Clone, Copy, Debug)]
struct LayerPlace {
    start: usize,
    kv_heads: usize,
    head_dim: usize,
}

impl KvCache {
    pub(crate) fn new(
        decoder: &Decoder,
        batch: usize,
        capacity: usize,
    ) -> Result<Self, EngineError> {
        let mut total = 0usize;
        let mut layers = Vec::new();
        for (_, layer) in decoder.numbered_layers() {
            let attention = attention_of(layer)?;
            let place = LayerPlace::of_attention(attention, total);
            let elements = [2, batch, capacity, place.kv_heads, place.head_dim];
            total = elements
                .iter()
                .try_fold(1usize, |product, size| product.checked_mul(*size))
                .and_then(|elements| total.checked_add(elements))
                .filter(|total| *total < usize::MAX / 8)
                .ok_or(EngineError::Memory {
                    bytes: u64::MAX,
                    what: "the KV cache",
                })?;
            layers.push(place);
        }
        Ok(Self {
            memory: buffer::allocate_anonymous(total * size_of::<f32>(), "the KV cache")?,
            layers,
            lengths: vec![0; batch],
            capacity,
            expected: 0,
            workspace: Workspace::default(),
        })
    }

    pub fn sequence_count(&self) -> usize {
        self.lengths.len()
    }

    /// Tokens that each sequence holds.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// The most tokens that a sequence may hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Says how long the prompt will be that is about to come in chunks.
    ///
    /// Some rotations depend on the length of the text: the first chunk must be rotated like the last. Keys are kept as
    /// they were rotated; a text that grows past such a length while it is generated is not computed again.
    pub fn expect_prompt(&mut self, length: usize) {
        self.expected = length;
    }

    pub(crate) fn expected_prompt(&self) -> usize {
        self.expected
    }

    /// Forgets all tokens; the memory stays.
    pub fn clear_tokens(&mut self) {
        self.lengths.fill(0);
        self.expected = 0;
    }

    /// Counts the new tokens of each sequence in, after their step has run.
    pub(crate) fn advance_lengths(&mut self, counts: &[usize]) {
        for (length, count) in self.lengths.iter_mut().zip(counts) {
            *length += count;
        }
    }

    /// Stores the new keys and values of a layer: a row of `kv_heads × head_dim` per token, sequence by sequence.
    pub(crate) fn store_tokens(
        &mut self,
        layer: usize,
        counts: &[usize],
        keys: &[f32],
        values: &[f32],
    ) {
        let place = self.layers[layer];
        let (batch, capacity) = (self.lengths.len(), self.capacity);
        let width = place.kv_heads * place.head_dim;
        let all: &mut [f32] = bytemuck::cast_slice_mut(&mut self.memory);
        let half = batch * capacity * width;
        let (key_cache, value_cache) = all[place.start..place.start + 2 * half].split_at_mut(half);
        for (cache, new) in [(key_cache, keys), (value_cache, values)] {
            let mut rows = new.chunks_exact(width);
            for (sequence, count) in counts.iter().enumerate() {
                let past = self.lengths[sequence];
                for (position, row) in (past..past + count).zip(&mut rows) {
                    for (head, values) in row.chunks_exact(place.head_dim).enumerate() {
                        let at = ((sequence * place.kv_heads + head) * capacity + position)
                            * place.head_dim;
                        cache[at..at + place.head_dim].copy_from_slice(values);
                    }
                }
            }
        }
    }

    /// What the queries of a step meet in a layer, the step's own keys included.
    pub(crate) fn layer_tiles<'a>(
        &'a self,
        layer: usize,
        counts: &'a [usize],
    ) -> impl Iterator<Item = Tile<'a>> {
        let place = self.layers[layer];
        let each = self.capacity * place.kv_heads * place.head_dim;
        let half = self.lengths.len() * each;
        let all: &[f32] = bytemuck::cast_slice(&self.memory);
        let (keys, values) = all[place.start..place.start + 2 * half].split_at(half);
        counts.iter().enumerate().map(move |(sequence, count)| {
            let range = sequence * each..(sequence + 1) * each;
            Tile {
                keys: &keys[range.clone()],
                values: &values[range],
                capacity: self.capacity,
                past: self.lengths[sequence],
                queries: *count,
            }
        })
    }
}

impl LayerPlace {
    fn of_attention(attention: &Attention, start: usize) -> Self {
        Self {
            start,
            kv_heads: attention.kv_heads as usize,
            head_dim: attention.head_dim as usize,
        }
    }
}
