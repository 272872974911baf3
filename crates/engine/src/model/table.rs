use super::linear::{Matrix, MatrixData};
use crate::{
    buffer::{ElementBuffer, Elements},
    kernel::widen_bf16,
};

/// Vectors that are looked up by number: embeddings of tokens or positions. They are never quantized.
#[derive(Clone, Debug)]
pub(crate) struct VectorTable {
    pub(crate) data: ElementBuffer,
    pub(crate) rows: usize,
    pub(crate) width: usize,
}

impl VectorTable {
    pub(crate) fn read_row(&self, row: usize, to: &mut [f32]) {
        let range = row * self.width..(row + 1) * self.width;
        match self.data.elements().slice(range) {
            Elements::F32(from) => to.copy_from_slice(from),
            Elements::Bf16(from) => widen_bf16(from, to),
        }
    }

    /// The matrix of a head that shares the table.
    pub(crate) fn as_matrix(&self) -> Matrix {
        Matrix {
            data: MatrixData::Plain(self.data.clone()),
            outputs: self.rows,
            inputs: self.width,
        }
    }
}
