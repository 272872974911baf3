//! The arithmetic. Each kernel is a safe function; those with vector instructions choose them at run time.

mod attention;
mod dot;
mod elementwise;
mod gemm;
mod isa;
mod linear;
mod math;
mod norm;
mod quantized;
mod rope;

pub(crate) use attention::{AttentionShape, Tile, attend_sequences};
pub(crate) use elementwise::{
    activate_gated, add_assign, apply_activation, scale_values, soft_cap, softmax, widen_bf16,
};
pub(crate) use isa::{Isa, vectorized};
pub(crate) use linear::{WeightRows, multiply_weights};
pub(crate) use norm::normalize_rows;
#[cfg(test)]
pub(crate) use quantized::expand_row;
pub(crate) use quantized::{CodeWidth, Quantized, pack_row};
pub(crate) use rope::{Frequencies, rotate_rows};
