use llmprof_theory::{
    Kind, Path,
    block::{Layout, Linear},
};
use llmprof_units::DType;

use super::linear::{BoundLinear, Matrix};
use crate::{buffer::Format, error::EngineError, recorder::OperatorInfo, weights::Weights};

/// Finds the weights of blocks and gives operators their numbers.
pub(crate) struct Binder<'w> {
    pub(crate) weights: &'w Weights,
    pub(crate) format: Format,
    pub(crate) operators: Vec<OperatorInfo>,
    /// Path before the layer number, and the number, inside layers.
    pub(crate) place: Option<(&'static str, u32)>,
}

impl Binder<'_> {
    fn path(&self, name: &'static str) -> Path<'static> {
        Path {
            prefix: self.place.map_or("", |(prefix, _)| prefix),
            layer: self.place.map(|(_, layer)| layer),
            name,
        }
    }

    /// The full name of a tensor.
    pub(crate) fn tensor_name(&self, name: &'static str, suffix: &str) -> String {
        format!("{}.{suffix}", self.path(name))
    }

    /// The number of a new operator without weights.
    pub(crate) fn operator(&mut self, kind: Kind, name: &'static str) -> u32 {
        self.register(kind, name, None)
    }

    /// The number of a new operator with weights.
    pub(crate) fn weighted(&mut self, kind: Kind, name: &'static str) -> u32 {
        self.register(kind, name, Some(self.format.dtype()))
    }

    fn register(&mut self, kind: Kind, name: &'static str, weights: Option<DType>) -> u32 {
        self.operators.push(OperatorInfo {
            kind,
            path: self.path(name),
            dtype: DType::F32,
            weights,
        });
        self.operators.len() as u32 - 1
    }

    /// A matrix by the full name of its tensor.
    pub(crate) fn matrix(
        &self,
        name: &str,
        outputs: u64,
        inputs: u64,
        layout: Layout,
    ) -> Result<Matrix, EngineError> {
        let sizes = [outputs as usize, inputs as usize];
        Ok(Matrix {
            data: self.weights.matrix(name, sizes, layout, self.format)?,
            outputs: sizes[0],
            inputs: sizes[1],
        })
    }

    /// A linear layer that runs as an operator of its own.
    pub(crate) fn linear(&mut self, linear: &Linear) -> Result<BoundLinear, EngineError> {
        let matrix = self.matrix(
            &self.tensor_name(linear.name, "weight"),
            linear.outputs,
            linear.inputs,
            linear.layout,
        )?;
        self.linear_with(linear, Kind::Linear, matrix)
    }

    /// A linear layer around a matrix that is already there, as an operator of `kind`.
    pub(crate) fn linear_with(
        &mut self,
        linear: &Linear,
        kind: Kind,
        matrix: Matrix,
    ) -> Result<BoundLinear, EngineError> {
        let bias = if linear.bias {
            Some(
                self.weights
                    .vector(&self.tensor_name(linear.name, "bias"))?,
            )
        } else {
            None
        };
        Ok(BoundLinear {
            operator: self.weighted(kind, linear.name),
            matrix,
            bias,
        })
    }
}
