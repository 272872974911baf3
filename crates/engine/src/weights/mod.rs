//! Where weights come from: a checkpoint on disk, or made up.

mod checkpoint;
mod convert;
mod dummy;
mod quantize;

pub(crate) use dummy::mix_bits;
pub(crate) use quantize::{QuantizedBuffer, Scheme};

use std::{borrow::Cow, path::PathBuf, sync::Arc};

use checkpoint::Checkpoint;
use dummy::Dummy;
use llmprof_theory::{Model, block::Layout};

use crate::{
    buffer::{self, ElementBuffer, Elements, Format},
    error::EngineError,
    kernel::widen_bf16,
};

/// Where the weights of a model come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightSource {
    /// A directory with `model.safetensors`, or with shards and `model.safetensors.index.json`.
    ///
    /// Files are mapped, not read: they must not be shortened while the engine lives.
    Directory(PathBuf),
    /// Numbers made up from a seed: the same seed gives the same weights on every machine.
    Dummy { seed: u64 },
}

/// The weights of a model, by name.
pub(crate) enum Weights {
    Checkpoint(Checkpoint),
    Dummy(Dummy),
}

impl Weights {
    /// Opens a source and checks that it holds every tensor of `model`, in the right shape. `fills_at_once`: makes all
    /// dummy weights now, since they are kept as they are; else each when it is quantized.
    pub(crate) fn open_source(
        source: &WeightSource,
        model: &Model,
        format: Format,
        fills_at_once: bool,
    ) -> Result<Self, EngineError> {
        match source {
            WeightSource::Directory(directory) => {
                Checkpoint::open_directory(directory, model).map(Self::Checkpoint)
            }
            WeightSource::Dummy { seed } => {
                let dummy = Dummy::plan_tensors(model, format, *seed)?;
                let dummy = if fills_at_once {
                    dummy.fill_all()?
                } else {
                    dummy
                };
                Ok(Self::Dummy(dummy))
            }
        }
    }

    /// The tensor `name` quantized by `scheme`, from elements in `format`.
    pub(crate) fn quantize_tensor(
        &self,
        name: &str,
        sizes: [usize; 2],
        layout: Layout,
        format: Format,
        scheme: Scheme,
    ) -> Result<QuantizedBuffer, EngineError> {
        let plain = self.read_matrix(name, sizes, layout, format)?;
        QuantizedBuffer::new(scheme, sizes, plain.elements())
    }

    /// The tensor `name` in `format`, with a row per output.
    pub(crate) fn read_matrix(
        &self,
        name: &str,
        [outputs, inputs]: [usize; 2],
        layout: Layout,
        format: Format,
    ) -> Result<ElementBuffer, EngineError> {
        let transposed = match layout {
            Layout::OutIn => None,
            Layout::InOut => Some([inputs, outputs]),
        };
        match self {
            // Made-up numbers are as good in one order as in the other.
            Self::Dummy(dummy) => dummy.tensor_buffer(name),
            Self::Checkpoint(checkpoint) => checkpoint.read_tensor(name, format, transposed),
        }
    }

    /// The elements of a short tensor, as f32.
    pub(crate) fn read_vector(&self, name: &str) -> Result<Vec<f32>, EngineError> {
        let buffer = match self {
            Self::Dummy(dummy) => dummy.tensor_buffer(name)?,
            Self::Checkpoint(checkpoint) => checkpoint.read_tensor(name, Format::F32, None)?,
        };
        Ok(match buffer.elements() {
            Elements::F32(elements) => elements.to_vec(),
            Elements::Bf16(elements) => {
                let mut wide = vec![0.0; elements.len()];
                widen_bf16(elements, &mut wide);
                wide
            }
        })
    }
}

/// Anonymous memory that `fill` has written once.
fn fill_memory(
    bytes: usize,
    format: Format,
    fill: impl FnOnce(&mut [u8]),
) -> Result<ElementBuffer, EngineError> {
    let mut map = buffer::allocate_anonymous(bytes, "weights")?;
    fill(&mut map[..bytes]);
    Ok(ElementBuffer::of_memory(&Arc::new(map), 0..bytes, format)
        .expect("a mapping starts at a page"))
}

/// The name of a tensor without a prefix that some checkpoints leave out.
fn without_prefix<'a>(model: &Model, name: &'a str) -> Option<Cow<'a, str>> {
    let prefix = model.decoder.as_ref()?.optional_prefix?;
    name.strip_prefix(prefix).map(Cow::Borrowed)
}
