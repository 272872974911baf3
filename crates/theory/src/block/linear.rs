use crate::{
    formats::Formats,
    weight::{Dims, Visitor, WeightSpec},
};

/// How a checkpoint lays out a matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Rows are outputs, as `torch.nn.Linear` keeps them.
    #[default]
    OutIn,
    /// Rows are inputs, as GPT-2's `Conv1D` keeps them.
    InOut,
}

/// A dense layer `y = x·Wᵀ + b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// Module path inside its layer; the weight is this plus `.weight`, the bias plus `.bias`.
    pub name: &'static str,
    pub inputs: u64,
    pub outputs: u64,
    /// Whether a bias is added.
    pub bias: bool,
    /// Whether the checkpoint stores the matrix transposed.
    pub layout: Layout,
    /// Whether quantized checkpoints store it quantized (heads and routers stay plain).
    pub quantized: bool,
}

impl Linear {
    /// A layer in torch's layout that quantized checkpoints quantize.
    pub fn new(name: &'static str, inputs: u64, outputs: u64, bias: bool) -> Self {
        Self {
            name,
            inputs,
            outputs,
            bias,
            layout: Layout::OutIn,
            quantized: true,
        }
    }

    /// The same layer, never quantized.
    #[must_use]
    pub fn without_quantization(self) -> Self {
        Self {
            quantized: false,
            ..self
        }
    }

    /// The same layer with rows as inputs.
    #[must_use]
    pub(crate) fn in_out(self) -> Self {
        Self {
            layout: Layout::InOut,
            ..self
        }
    }

    pub fn parameter_count(&self) -> u64 {
        let bias = if self.bias { self.outputs } else { 0 };
        self.inputs
            .saturating_mul(self.outputs)
            .saturating_add(bias)
    }

    /// Stored bytes, the bias in the plain dtype.
    pub fn stored_bytes(&self, formats: &Formats) -> u64 {
        let bias = if self.bias { self.outputs } else { 0 };
        formats
            .matrix_format(self.quantized)
            .stored_bytes(self.outputs, self.inputs)
            .saturating_add(formats.plain.bytes_for(bias).unwrap_or(u64::MAX))
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        let shape = match self.layout {
            Layout::OutIn => Dims::from([self.outputs, self.inputs]),
            Layout::InOut => Dims::from([self.inputs, self.outputs]),
        };
        visitor.visit(WeightSpec {
            quantized: self.quantized.then_some([1, self.outputs, self.inputs]),
            ..WeightSpec::new(self.name, "weight", shape)
        });
        if self.bias {
            visitor.visit(WeightSpec::new(
                self.name,
                "bias",
                Dims::from([self.outputs]),
            ));
        }
    }
}
