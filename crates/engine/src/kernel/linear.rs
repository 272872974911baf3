//! The product of a weight matrix with activations, by the kernel that fits the number of rows.

#![expect(unsafe_code, reason = "tasks write disjoint columns of one result")]

use std::cell::RefCell;

use rayon::prelude::*;

use super::{
    dot::dot_rows,
    elementwise::widen_bf16,
    gemm::{GemmOperand, GemmTarget, gemm_to},
    isa::Isa,
    quantized::{Quantized, dot_quantized, expand_row},
};
use crate::buffer::Elements;

/// Weights with a row per output.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WeightRows<'a> {
    Plain(Elements<'a>),
    Quantized(Quantized<'a>),
}

impl WeightRows<'_> {
    fn row_bytes(self, inputs: usize) -> usize {
        match self {
            Self::Plain(Elements::F32(_)) => 4 * inputs,
            Self::Plain(Elements::Bf16(_)) => 2 * inputs,
            Self::Quantized(quantized) => quantized.width.row_bytes(inputs),
        }
    }

    /// `count` rows from `first` on.
    fn rows_from(self, first: usize, count: usize, inputs: usize) -> Self {
        match self {
            Self::Plain(all) => Self::Plain(all.slice(first * inputs..(first + count) * inputs)),
            Self::Quantized(all) => Self::Quantized(all.rows_from(first, count)),
        }
    }
}

/// Up to this many rows the product is bound by reading the weights; streaming them in order is fastest.
const STREAMED_ROWS_MAX: usize = 8;
/// Bytes of weights that a task of a matrix-vector product streams: long enough to hide the handing over, short enough
/// that threads end together.
const STREAM_BYTES: usize = 64 << 10;
/// Outputs that a task of a GEMM computes.
const PANEL_OUTPUTS: usize = 256;
/// Tasks for each thread, so that none waits long for the last one.
const TASKS_PER_THREAD: usize = 3;
/// Minimum rows of a block for which widening each weight once costs little compared with the multiplications that use it.
const PANEL_ROWS_MIN: usize = 64;
/// Depth that is widened to f32 at once: a panel that stays in the second cache. Blocks of quantized weights divide it.
const PANEL_DEPTH: usize = 1024;

/// `out = x × weightsᵀ`: `rows × inputs` by `inputs × outputs`. Weights have a row per output.
pub(crate) fn multiply_weights(
    weights: WeightRows<'_>,
    [rows, outputs, inputs]: [usize; 3],
    x: &[f32],
    out: &mut [f32],
) {
    assert_eq!(x.len(), rows * inputs, "the input is rows × inputs");
    assert_eq!(out.len(), rows * outputs, "the output is rows × outputs");
    if rows == 0 || outputs == 0 {
        return;
    }
    if inputs == 0 {
        out.fill(0.0);
    } else if rows == 1 {
        stream_rows(weights, inputs, x, out);
    } else if rows <= STREAMED_ROWS_MAX {
        // The kernel gives the results of one output together; rows want those of one row together.
        let mut columns = vec![0.0; out.len()];
        stream_rows(weights, inputs, x, &mut columns);
        for (row, out) in out.chunks_exact_mut(outputs).enumerate() {
            for (out, column) in out.iter_mut().zip(columns.chunks_exact(rows)) {
                *out = column[row];
            }
        }
    } else {
        multiply_panels(weights, [rows, outputs, inputs], x, out);
    }
}

/// Matrix times a few vectors: each task streams neighbouring rows of the weights.
fn stream_rows(weights: WeightRows<'_>, inputs: usize, x: &[f32], out: &mut [f32]) {
    let isa = Isa::detected();
    let rows = x.len() / inputs;
    let outputs = (STREAM_BYTES / weights.row_bytes(inputs)).max(1);
    out.par_chunks_mut(outputs * rows)
        .enumerate()
        .for_each(|(task, out)| {
            let first = task * outputs;
            let count = out.len() / rows;
            match weights.rows_from(first, count, inputs) {
                WeightRows::Plain(part) => dot_rows(isa, part, inputs, x, out),
                WeightRows::Quantized(part) => dot_quantized(isa, part, x, out),
            }
        });
}

thread_local! {
    /// The widened panel of each thread, kept from call to call.
    static WIDE: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Rows that each task of a GEMM computes: all of them, or so many that every thread has some tasks. Not less than [`PANEL_ROWS_MIN`], as a task widens its panel of weights for itself.
fn task_rows(rows: usize, panels: usize, threads: usize) -> usize {
    let blocks = (TASKS_PER_THREAD * threads).div_ceil(panels);
    rows.div_ceil(blocks).max(PANEL_ROWS_MIN).min(rows)
}

/// Matrix times matrix: each task computes a panel of outputs for a block of rows.
fn multiply_panels(
    weights: WeightRows<'_>,
    [rows, outputs, inputs]: [usize; 3],
    x: &[f32],
    out: &mut [f32],
) {
    let isa = Isa::detected();
    let target = GemmTarget {
        first: out.as_mut_ptr(),
        row_stride: outputs,
    };
    let panels = outputs.div_ceil(PANEL_OUTPUTS);
    let block = task_rows(rows, panels, rayon::current_num_threads());
    (0..panels * rows.div_ceil(block))
        .into_par_iter()
        .for_each(|task| {
            let (first, first_row) = (task % panels * PANEL_OUTPUTS, task / panels * block);
            let (count, rows) = (
                PANEL_OUTPUTS.min(outputs - first),
                block.min(rows - first_row),
            );
            let target = target.skip_columns(first_row * outputs + first);
            let product = |panel: &[f32], depth: usize, from: usize, stride: usize| {
                let x = GemmOperand {
                    data: &x[first_row * inputs + from..],
                    row_stride: inputs,
                    column_stride: 1,
                };
                let panel = GemmOperand {
                    data: panel,
                    row_stride: 1,
                    column_stride: stride,
                };
                // SAFETY: `out` is borrowed for the whole loop and holds `rows × outputs` initialized elements; this task
                // alone writes the columns from `first` to `first + count` of the rows from `first_row` to `first_row + rows`.
                unsafe { gemm_to(isa, [rows, count, depth], x, panel, target, from > 0) }
            };
            let widened = |wide_row: &dyn Fn(usize, usize, &mut [f32])| {
                WIDE.with_borrow_mut(|wide| {
                    wide.resize(PANEL_OUTPUTS * PANEL_DEPTH, 0.0);
                    for from in (0..inputs).step_by(PANEL_DEPTH) {
                        let depth = PANEL_DEPTH.min(inputs - from);
                        let wide = &mut wide[..count * depth];
                        for (row, wide) in wide.chunks_exact_mut(depth).enumerate() {
                            wide_row(row, from, wide);
                        }
                        product(wide, depth, from, depth);
                    }
                });
            };
            match weights.rows_from(first, count, inputs) {
                WeightRows::Plain(Elements::F32(part)) => product(part, inputs, 0, inputs),
                WeightRows::Plain(Elements::Bf16(part)) => widened(&|row, from, wide| {
                    widen_bf16(&part[row * inputs + from..][..wide.len()], wide);
                }),
                WeightRows::Quantized(part) => widened(&|row, from, wide| {
                    expand_row(part.rows_from(row, 1), from, wide);
                }),
            }
        });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_tasks() {
        // Three panels of 576 outputs leave most of 16 threads idle; blocks of rows do not.
        assert_eq!(task_rows(2048, 3, 16), 128);
        assert_eq!(task_rows(2048, 64, 16), 2048);
        assert_eq!(task_rows(100, 3, 16), 64);
        assert_eq!(task_rows(40, 3, 16), 40);
        assert_eq!(task_rows(2048, 1, 1), 683);
    }

    #[test]
    fn every_path_gives_the_same_product() {
        let (outputs, inputs) = (300, 1100);
        let value = |i: usize| ((i * 29 + 3) % 64) as f32 / 64.0 - 0.5;
        // Sixty-fourths below one are exact in bf16.
        let weights: Vec<f32> = (0..outputs * inputs).map(value).collect();
        let half: Vec<u16> = weights.iter().map(|w| (w.to_bits() >> 16) as u16).collect();
        for rows in [1, 2, 8, 9, 40, 150, 257] {
            let x: Vec<f32> = (0..rows * inputs).map(|i| value(i * 5 + 1)).collect();
            for elements in [Elements::F32(&weights), Elements::Bf16(&half)] {
                let mut out = vec![f32::NAN; rows * outputs];
                multiply_weights(
                    WeightRows::Plain(elements),
                    [rows, outputs, inputs],
                    &x,
                    &mut out,
                );
                for (row, output) in [(0, 0), (rows - 1, 299), (rows / 2, 257)] {
                    let expected: f64 = (0..inputs)
                        .map(|i| {
                            f64::from(weights[output * inputs + i]) * f64::from(x[row * inputs + i])
                        })
                        .sum();
                    let computed = f64::from(out[row * outputs + output]);
                    assert!(
                        (computed - expected).abs() < 1e-3,
                        "{rows} rows: {computed} is not {expected}"
                    );
                }
                assert!(out.iter().all(|value| value.is_finite()));
            }
        }
    }
}
