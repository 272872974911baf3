use crate::{
    count::product,
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
    /// Side of the kernel.
    pub kernel: u64,
    /// Step of the kernel.
    pub stride: u64,
    /// Whether a bias is added.
    pub bias: bool,
}

impl Conv {
    /// Elements under one position of the kernel.
    fn window(&self) -> u64 {
        product(&[self.inputs, self.depth, self.kernel, self.kernel])
    }

    pub fn parameters(&self) -> u64 {
        let bias = if self.bias { self.outputs } else { 0 };
        product(&[self.window(), self.outputs]).saturating_add(bias)
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
        let input = lowering.activation_bytes(product(&[pixels, self.inputs, self.depth]));
        let outputs = product(&[positions, self.outputs]);
        let step = StepCost {
            parameters: self.parameters(),
            tensor: product(&[2, outputs, self.window()]),
            vector: if self.bias { outputs } else { 0 },
            traffic: Traffic {
                weights: lowering.plain_bytes(self.parameters()),
                activation_read: input,
                activation_write: lowering.activation_bytes(outputs),
                boundary: if boundary { input } else { 0 },
                ..Traffic::default()
            },
        };
        lowering.emit(
            Kind::Conv2d,
            self.name,
            Shape::matmul(positions, self.outputs, self.window()),
            &step,
        );
    }

    pub(crate) fn weights(&self, visitor: &mut Visitor<'_>) {
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
