use llmprof_theory::{
    Kind, Path,
    block::{Layout, Linear},
};
use llmprof_units::DType;

use super::{
    linear::{BoundLinear, Matrix, MatrixData},
    table::VectorTable,
};
use crate::{
    buffer::Format,
    error::EngineError,
    recorder::OperatorInfo,
    weights::{Scheme, Weights},
};

/// Finds the weights of blocks and gives operators their numbers.
pub(crate) struct Binder<'w> {
    pub(crate) weights: &'w Weights,
    pub(crate) format: Format,
    /// How quantizable matrices are quantized.
    pub(crate) scheme: Option<Scheme>,
    pub(crate) operators: Vec<OperatorInfo>,
    /// Path before the layer number, and the number, inside layers.
    pub(crate) place: Option<(&'static str, u32)>,
}

impl Binder<'_> {
    fn operator_path(&self, name: &'static str) -> Path<'static> {
        Path {
            prefix: self.place.map_or("", |(prefix, _)| prefix),
            layer: self.place.map(|(_, layer)| layer),
            name,
        }
    }

    /// The full name of a tensor.
    pub(crate) fn tensor_name(&self, name: &'static str, suffix: &str) -> String {
        format!("{}.{suffix}", self.operator_path(name))
    }

    /// The number of a new operator without weights.
    pub(crate) fn add_operator(&mut self, kind: Kind, name: &'static str) -> u32 {
        self.register_operator(kind, name, None)
    }

    /// The number of a new operator with weights.
    pub(crate) fn add_weighted_operator(&mut self, kind: Kind, name: &'static str) -> u32 {
        self.register_operator(kind, name, Some(self.format.dtype()))
    }

    /// The format of a matrix.
    fn stored_dtype(&self, is_quantizable: bool) -> DType {
        match self.scheme {
            Some(scheme) if is_quantizable => scheme.format.element_dtype(),
            _ => self.format.dtype(),
        }
    }

    /// The number of a new operator with quantizable weights.
    pub(crate) fn quantizable_operator(&mut self, kind: Kind, name: &'static str) -> u32 {
        let stored = self.stored_dtype(true);
        self.register_operator(kind, name, Some(stored))
    }

    fn register_operator(&mut self, kind: Kind, name: &'static str, weights: Option<DType>) -> u32 {
        self.operators.push(OperatorInfo {
            kind,
            path: self.operator_path(name),
            dtype: DType::F32,
            weights,
        });
        self.operators.len() as u32 - 1
    }

    /// A table of `rows` vectors by the full name of its tensor.
    pub(crate) fn bind_table(
        &self,
        name: &str,
        rows: u64,
        width: u64,
    ) -> Result<VectorTable, EngineError> {
        let sizes = [rows as usize, width as usize];
        Ok(VectorTable {
            data: self
                .weights
                .read_matrix(name, sizes, Layout::OutIn, self.format)?,
            rows: sizes[0],
            width: sizes[1],
        })
    }

    /// A matrix by the full name of its tensor, never quantized.
    pub(crate) fn bind_matrix(
        &self,
        name: &str,
        outputs: u64,
        inputs: u64,
        layout: Layout,
    ) -> Result<Matrix, EngineError> {
        let sizes = [outputs as usize, inputs as usize];
        Ok(Matrix {
            data: MatrixData::Plain(self.weights.read_matrix(name, sizes, layout, self.format)?),
            outputs: sizes[0],
            inputs: sizes[1],
        })
    }

    /// As [`bind_matrix`](Self::bind_matrix), quantized where that is asked for.
    pub(crate) fn bind_quantizable(
        &self,
        name: &str,
        outputs: u64,
        inputs: u64,
        layout: Layout,
    ) -> Result<Matrix, EngineError> {
        let Some(scheme) = self.scheme else {
            return self.bind_matrix(name, outputs, inputs, layout);
        };
        let sizes = [outputs as usize, inputs as usize];
        let data = self
            .weights
            .quantize_tensor(name, sizes, layout, self.format, scheme)?;
        Ok(Matrix {
            data: MatrixData::Quantized(Box::new(data)),
            outputs: sizes[0],
            inputs: sizes[1],
        })
    }

    /// Binds a linear layer as one operator.
    pub(crate) fn bind_linear(&mut self, linear: &Linear) -> Result<BoundLinear, EngineError> {
        let name = self.tensor_name(linear.name, "weight");
        let (outputs, inputs) = (linear.outputs, linear.inputs);
        let matrix = if linear.quantized {
            self.bind_quantizable(&name, outputs, inputs, linear.layout)?
        } else {
            self.bind_matrix(&name, outputs, inputs, linear.layout)?
        };
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
                    .read_vector(&self.tensor_name(linear.name, "bias"))?,
            )
        } else {
            None
        };
        let stored = self.stored_dtype(linear.quantized);
        Ok(BoundLinear {
            operator: self.register_operator(kind, linear.name, Some(stored)),
            matrix,
            bias,
        })
    }
}
