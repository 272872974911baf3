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

pub(crate) use attention::{AttentionShape, Tile, attend};
pub(crate) use elementwise::{activate, activate_gated, add, cap, scale, softmax, widen};
pub(crate) use isa::{Isa, vectorized};
pub(crate) use linear::{WeightRows, multiply};
pub(crate) use norm::normalize;
#[cfg(test)]
pub(crate) use quantized::expand;
pub(crate) use quantized::{Quantized, Width, pack};
pub(crate) use rope::{Frequencies, rotate};
