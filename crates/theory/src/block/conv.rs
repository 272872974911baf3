use crate::{
    count::saturating_product,
    lower::{Lowering, StepCost},
    operator::{Kind, Shape, Traffic},
    weight::{Dims, Visitor, WeightSpec},
};

/// A convolution over an image, or a patch embedding with frames in depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv {
    pub name: &'static str,
    pub inputs: u64,
    pub outputs: u64,
    /// Frames that a kernel covers; 1 is a plain image, stored without that dimension.
    pub depth: u64,
    pub kernel: u64,
    pub stride: u64,
    /// Whether a bias is added.
    pub bias: bool,
}

impl Conv {
    /// Elements under one position of the kernel.
    fn window_elements(&self) -> u64 {
        saturating_product(&[self.inputs, self.depth, self.kernel, self.kernel])
    }

    pub fn parameter_count(&self) -> u64 {
        let bias = if self.bias { self.outputs } else { 0 };
        saturating_product(&[self.window_elements(), self.outputs]).saturating_add(bias)
    }

    /// Over an input of which `pixels` positions (with their frames) lead to `positions` results; `boundary` where the
    /// input is the image itself.
    pub(crate) fn lower<'m>(
        &'m self,
        lowering: &mut Lowering<'_, 'm>,
        pixels: u64,
        positions: u64,
        boundary: bool,
    ) {
        let input =
            lowering.activation_bytes(saturating_product(&[pixels, self.inputs, self.depth]));
        let outputs = saturating_product(&[positions, self.outputs]);
        let step = StepCost {
            parameters: self.parameter_count(),
            tensor: saturating_product(&[2, outputs, self.window_elements()]),
            vector: if self.bias { outputs } else { 0 },
            traffic: Traffic {
                weights: lowering.plain_bytes(self.parameter_count()),
                activation_read: input,
                activation_write: lowering.activation_bytes(outputs),
                boundary: if boundary { input } else { 0 },
                ..Traffic::default()
            },
        };
        lowering.emit(
            Kind::Conv2d,
            self.name,
            Shape::gemm(positions, self.outputs, self.window_elements()),
            &step,
        );
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        let (side, outputs, inputs) = (self.kernel, self.outputs, self.inputs);
        let shape = if self.depth == 1 {
            Dims::from([outputs, inputs, side, side])
        } else {
            Dims::from([outputs, inputs, self.depth, side, side])
        };
        visitor.visit(WeightSpec::new(self.name, "weight", shape));
        if self.bias {
            visitor.visit(WeightSpec::new(self.name, "bias", Dims::from([outputs])));
        }
    }
}
