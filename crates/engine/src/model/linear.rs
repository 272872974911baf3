use rayon::prelude::*;

use super::sized;
use crate::{
    buffer::Buffer,
    kernel::{WeightRows, add, multiply},
    recorder::Recorder,
    weights::QuantizedBuffer,
};

/// Where the elements of a matrix are.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Plain(Buffer),
    Quantized(Box<QuantizedBuffer>),
}

/// A weight matrix with a row per output.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) data: Data,
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
}

impl Matrix {
    /// `out = x × matrixᵀ` over `rows` rows.
    pub(crate) fn multiply(&self, rows: usize, x: &[f32], out: &mut [f32]) {
        let weights = match &self.data {
            Data::Plain(data) => WeightRows::Plain(data.elements()),
            Data::Quantized(data) => WeightRows::Quantized(data.rows()),
        };
        multiply(weights, [rows, self.outputs, self.inputs], x, out);
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
        let start = recorder.start();
        let out = sized(out, rows * self.matrix.outputs);
        self.compute(rows, x, out);
        recorder.end(self.operator, start, self.shape(rows));
        out
    }

    /// Groups, m, n and k of a call.
    pub(crate) fn shape(&self, rows: usize) -> [usize; 4] {
        [1, rows, self.matrix.outputs, self.matrix.inputs]
    }

    pub(crate) fn compute(&self, rows: usize, x: &[f32], out: &mut [f32]) {
        self.matrix.multiply(rows, x, out);
        if let Some(bias) = &self.bias {
            out.par_chunks_mut(bias.len().max(1))
                .with_min_len(8)
                .for_each(|row| add(row, bias));
        }
    }
}
