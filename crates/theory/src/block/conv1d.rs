use crate::{
    count::saturating_product,
    lower::{Lowering, StepCost},
    operator::{Kind, Shape, Traffic},
    weight::{Dims, Visitor, WeightSpec},
};

/// A convolution over time, with a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv1d {
    pub name: &'static str,
    pub inputs: u64,
    pub outputs: u64,
    /// Frames that the kernel covers.
    pub kernel: u64,
    pub stride: u64,
}

impl Conv1d {
    /// Elements under one position of the kernel.
    fn window_elements(&self) -> u64 {
        saturating_product(&[self.inputs, self.kernel])
    }

    pub fn parameter_count(&self) -> u64 {
        saturating_product(&[self.window_elements(), self.outputs]).saturating_add(self.outputs)
    }

    /// Over `frames` frames that lead to `positions` results; `boundary` where the frames are the model's input.
    pub(crate) fn lower<'m>(
        &'m self,
        lowering: &mut Lowering<'_, 'm>,
        frames: u64,
        positions: u64,
        boundary: bool,
    ) {
        let input = lowering.activation_bytes(saturating_product(&[frames, self.inputs]));
        let outputs = saturating_product(&[positions, self.outputs]);
        let step = StepCost {
            parameters: self.parameter_count(),
            tensor: saturating_product(&[2, outputs, self.window_elements()]),
            vector: outputs,
            traffic: Traffic {
                weights: lowering.plain_bytes(self.parameter_count()),
                activation_read: input,
                activation_write: lowering.activation_bytes(outputs),
                boundary: if boundary { input } else { 0 },
                ..Traffic::default()
            },
        };
        let shape = Shape::gemm(positions, self.outputs, self.window_elements());
        lowering.emit(Kind::Conv1d, self.name, shape, &step);
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        let shape = Dims::from([self.outputs, self.inputs, self.kernel]);
        visitor.visit(WeightSpec::new(self.name, "weight", shape));
        let bias = Dims::from([self.outputs]);
        visitor.visit(WeightSpec::new(self.name, "bias", bias));
    }
}
