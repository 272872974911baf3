//! Weights made up from a seed.

use std::{collections::HashMap, ops::Range, sync::Arc};

use llmprof_theory::Model;
use memmap2::MmapMut;
use rayon::prelude::*;

use super::{convert::to_bf16, fill_memory};
use crate::{
    buffer::{self, ElementBuffer, Format},
    error::EngineError,
};

/// Tensors start at multiples of this, as vector loads like it.
const ALIGNMENT: usize = 64;
/// Elements that one task fills.
const TASK_ELEMENTS: usize = 1 << 18;

/// Tensors of a model that are made up: all at once in one piece of memory, or each when it is asked for.
pub(crate) struct Dummy {
    memory: Option<Arc<MmapMut>>,
    places: HashMap<String, TensorPlace>,
    /// Bytes of all tensors, each padded.
    end: usize,
    format: Format,
}

struct TensorPlace {
    range: Range<usize>,
    spread: ElementSpread,
}

/// Uniform distribution of a tensor's elements: middle and step of 256 values.
#[derive(Clone, Copy)]
struct ElementSpread {
    middle: f32,
    /// Distance between neighbouring values; there are 256 of them.
    step: f32,
    seed: u64,
}

impl Dummy {
    /// Matrices are uniform with the deviation `1 ÷ √columns`, so that products keep the size of their input; norms lie
    /// near one, biases near zero.
    pub(crate) fn plan_tensors(
        model: &Model,
        format: Format,
        seed: u64,
    ) -> Result<Self, EngineError> {
        let mut places = HashMap::new();
        let mut end = 0usize;
        for tensor in model.checkpoint_tensors() {
            let elements = usize::try_from(tensor.shape.elements()).ok();
            let start = end;
            end = elements
                .and_then(|elements| elements.checked_mul(format.element_bytes()))
                .and_then(|bytes| bytes.checked_next_multiple_of(ALIGNMENT))
                .and_then(|bytes| end.checked_add(bytes))
                .filter(|end| isize::try_from(*end).is_ok())
                .ok_or(EngineError::Memory {
                    bytes: u64::MAX,
                    what: "weights",
                })?;
            let bytes = tensor.shape.elements() as usize * format.element_bytes();
            let (middle, step) = match tensor.shape.sizes() {
                [.., columns] if tensor.shape.sizes().len() > 1 => {
                    // 256 equal steps of a uniform distribution: its deviation is 256 ÷ √12 steps.
                    let deviation = 1.0 / (*columns as f32).sqrt();
                    (0.0, deviation * 12f32.sqrt() / 256.0)
                }
                _ if tensor.name.ends_with("bias") => (0.0, 1e-4),
                _ => (1.0, 1e-3),
            };
            let spread = ElementSpread {
                middle,
                step,
                seed: hash_name(seed, tensor.name.as_bytes()),
            };
            let range = start..start + bytes;
            places.insert(tensor.name, TensorPlace { range, spread });
        }
        Ok(Self {
            memory: None,
            places,
            end,
            format,
        })
    }

    /// Allocates and fills all tensors at once, in parallel.
    pub(crate) fn fill_all(self) -> Result<Self, EngineError> {
        let mut memory = buffer::allocate_anonymous(self.end, "weights")?;
        let mut places: Vec<&TensorPlace> = self.places.values().collect();
        places.sort_unstable_by_key(|place| place.range.start);
        let mut tasks = Vec::new();
        let (mut rest, mut at) = (&mut memory[..self.end], 0);
        for place in places {
            let (before, after) = rest.split_at_mut(place.range.end - at);
            rest = after;
            let tensor = &mut before[place.range.start - at..];
            at = place.range.end;
            let chunks = tensor.chunks_mut(TASK_ELEMENTS * self.format.element_bytes());
            tasks.extend(
                chunks
                    .enumerate()
                    .map(|(chunk, to)| (to, chunk as u64, place.spread)),
            );
        }
        tasks
            .into_par_iter()
            .for_each(|(to, chunk, spread)| fill_chunk(to, chunk, spread, self.format));
        Ok(Self {
            memory: Some(Arc::new(memory)),
            ..self
        })
    }

    pub(crate) fn tensor_buffer(&self, name: &str) -> Result<ElementBuffer, EngineError> {
        let place = self
            .places
            .get(name)
            .ok_or_else(|| EngineError::MissingTensor {
                name: name.to_owned(),
                others: 0,
                directory: "dummy weights".into(),
            })?;
        if let Some(memory) = &self.memory {
            return Ok(
                ElementBuffer::of_memory(memory, place.range.clone(), self.format)
                    .expect("tensors start at multiples of the alignment"),
            );
        }
        fill_memory(place.range.len(), self.format, |to| {
            to.par_chunks_mut(TASK_ELEMENTS * self.format.element_bytes())
                .enumerate()
                .for_each(|(chunk, to)| fill_chunk(to, chunk as u64, place.spread, self.format));
        })
    }
}

/// Fills one chunk. Which numbers it gets depends on its place alone, not on the number of threads.
fn fill_chunk(to: &mut [u8], chunk: u64, spread: ElementSpread, format: Format) {
    // A table of the 256 values: filling is then a matter of looking up random bytes.
    let value = |byte: u8| spread.middle + (f32::from(byte) - 127.5) * spread.step;
    let singles: [f32; 256] = std::array::from_fn(|byte| value(byte as u8));
    let halves = singles.map(to_bf16);
    let mut counter = spread
        .seed
        .wrapping_add(chunk.wrapping_mul(TASK_ELEMENTS as u64));
    for to in to.chunks_mut(8 * format.element_bytes()) {
        counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let random = mix_bits(counter).to_le_bytes();
        match format {
            Format::F32 => {
                for (to, byte) in to.chunks_exact_mut(4).zip(random) {
                    to.copy_from_slice(&singles[usize::from(byte)].to_ne_bytes());
                }
            }
            Format::Bf16 => {
                for (to, byte) in to.chunks_exact_mut(2).zip(random) {
                    to.copy_from_slice(&halves[usize::from(byte)].to_ne_bytes());
                }
            }
        }
    }
}

/// The finalizer of splitmix64: every input bit reaches every output bit.
pub(crate) fn mix_bits(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn hash_name(seed: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(mix_bits(seed.wrapping_add(1)), |state, byte| {
            mix_bits(state ^ u64::from(*byte))
        })
}
