//! The weights of a model: names and shapes as a checkpoint holds them.

use std::fmt::Write as _;

use crate::formats::Formats;

/// The dimensions of a weight, at most five.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dims {
    sizes: [u64; 5],
    rank: usize,
}

impl<const N: usize> From<[u64; N]> for Dims {
    fn from(from: [u64; N]) -> Self {
        const { assert!(N <= 5, "no weight has more than five dimensions") };
        let mut sizes = [1; 5];
        sizes[..N].copy_from_slice(&from);
        Self { sizes, rank: N }
    }
}

impl Dims {
    pub fn sizes(&self) -> &[u64] {
        &self.sizes[..self.rank]
    }

    pub fn elements(&self) -> u64 {
        crate::count::saturating_product(self.sizes())
    }
}

/// A weight as its block states it, before the layer is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightSpec {
    pub(crate) name: &'static str,
    pub(crate) suffix: &'static str,
    pub(crate) shape: Dims,
    /// For a weight that quantized checkpoints quantize: the matrices it holds, their outputs and inputs.
    pub(crate) quantized: Option<[u64; 3]>,
    /// Stored, but not trained as a parameter.
    pub(crate) buffer: bool,
    /// One weight per expert: how many, and what stands between the expert's number and the suffix.
    pub(crate) experts: Option<(u32, &'static str)>,
}

impl WeightSpec {
    pub(crate) fn new(name: &'static str, suffix: &'static str, shape: Dims) -> Self {
        Self {
            name,
            suffix,
            shape,
            quantized: None,
            buffer: false,
            experts: None,
        }
    }
}

/// One weight, or one of several layers and experts with the same shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight<'m> {
    pub(crate) prefix: &'m str,
    /// The layers that each have one.
    pub(crate) layers: &'m [u32],
    pub(crate) spec: WeightSpec,
}

impl Weight<'_> {
    /// How many tensors of a checkpoint this stands for.
    pub(crate) fn tensor_count(&self) -> u64 {
        let experts = self.spec.experts.map_or(1, |(count, _)| u64::from(count));
        experts.saturating_mul(self.layers.len().max(1) as u64)
    }

    /// Stored bytes of one copy.
    pub(crate) fn bytes_per_copy(&self, formats: &Formats) -> u64 {
        match self.spec.quantized {
            Some([matrices, outputs, inputs]) => formats
                .weights
                .stored_bytes(outputs, inputs)
                .saturating_mul(matrices),
            None => formats
                .plain
                .bytes_for(self.spec.shape.elements())
                .unwrap_or(u64::MAX),
        }
    }
}

/// Passes the weights of blocks to a listener, with the place where the blocks stand.
pub(crate) struct Visitor<'v> {
    pub(crate) prefix: &'v str,
    pub(crate) layers: &'v [u32],
    pub(crate) each: &'v mut dyn FnMut(&Weight<'_>),
}

impl Visitor<'_> {
    /// Visits the weights of what stands for `layers` under `prefix`.
    pub(crate) fn visit_inside(
        &mut self,
        prefix: &str,
        layers: &[u32],
        visit: impl FnOnce(&mut Visitor<'_>),
    ) {
        if layers.is_empty() {
            return;
        }
        visit(&mut Visitor {
            prefix,
            layers,
            each: &mut *self.each,
        });
    }

    pub(crate) fn visit(&mut self, spec: WeightSpec) {
        (self.each)(&Weight {
            prefix: self.prefix,
            layers: self.layers,
            spec,
        });
    }
}

/// A tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name in the safetensors files.
    pub name: String,
    pub shape: Dims,
}

/// Writes out every tensor that `weight` stands for.
pub(crate) fn expand_tensors(weight: &Weight<'_>, tensors: &mut Vec<Tensor>) {
    let spec = &weight.spec;
    let mut push = |layer: Option<u32>, expert: Option<(u32, &str)>| {
        let mut name = String::from(weight.prefix);
        let mut part = |text: &dyn std::fmt::Display| {
            if !name.is_empty() {
                name.push('.');
            }
            write!(name, "{text}").expect("writing to a string cannot fail");
        };
        if let Some(layer) = layer {
            part(&layer);
        }
        if !spec.name.is_empty() {
            part(&spec.name);
        }
        if let Some((expert, leaf)) = expert {
            part(&expert);
            part(&leaf);
        }
        if !spec.suffix.is_empty() {
            part(&spec.suffix);
        }
        tensors.push(Tensor {
            name,
            shape: spec.shape,
        });
    };
    let layers = weight.layers.iter().copied().map(Some);
    let layers: Vec<_> = if weight.layers.is_empty() {
        vec![None]
    } else {
        layers.collect()
    };
    for layer in layers {
        match spec.experts {
            Some((count, leaf)) => {
                for expert in 0..count {
                    push(layer, Some((expert, leaf)));
                }
            }
            None => push(layer, None),
        }
    }
}
