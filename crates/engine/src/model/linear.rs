use rayon::prelude::*;

use super::resized_slice;
use crate::{
    buffer::ElementBuffer,
    kernel::{WeightRows, add_assign, multiply_weights},
    recorder::Recorder,
    weights::QuantizedBuffer,
};

/// Where the elements of a matrix are.
#[derive(Clone, Debug)]
pub(crate) enum MatrixData {
    Plain(ElementBuffer),
    Quantized(Box<QuantizedBuffer>),
}

/// A weight matrix with a row per output.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) data: MatrixData,
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
}

impl Matrix {
    /// `out = x × matrixᵀ` over `rows` rows.
    pub(crate) fn multiply_rows(&self, rows: usize, x: &[f32], out: &mut [f32]) {
        let weights = match &self.data {
            MatrixData::Plain(data) => WeightRows::Plain(data.elements()),
            MatrixData::Quantized(data) => WeightRows::Quantized(data.quantized_rows()),
        };
        multiply_weights(weights, [rows, self.outputs, self.inputs], x, out);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct BoundLinear {
    pub(crate) operator: u32,
    pub(crate) matrix: Matrix,
    pub(crate) bias: Option<Vec<f32>>,
}

impl BoundLinear {
    /// Runs it over `rows` rows, as one event.
    pub(crate) fn run<'o>(
        &self,
        rows: usize,
        x: &[f32],
        out: &'o mut Vec<f32>,
        recorder: &mut Recorder,
    ) -> &'o mut [f32] {
        let start = recorder.start_operator();
        let out = resized_slice(out, rows * self.matrix.outputs);
        self.compute_rows(rows, x, out);
        recorder.end_operator(self.operator, start, self.event_shape(rows));
        out
    }

    /// Groups, m, n and k of a call.
    pub(crate) fn event_shape(&self, rows: usize) -> [usize; 4] {
        [1, rows, self.matrix.outputs, self.matrix.inputs]
    }

    pub(crate) fn compute_rows(&self, rows: usize, x: &[f32], out: &mut [f32]) {
        self.matrix.multiply_rows(rows, x, out);
        if let Some(bias) = &self.bias {
            out.par_chunks_mut(bias.len().max(1))
                .with_min_len(8)
                .for_each(|row| add_assign(row, bias));
        }
    }
}
