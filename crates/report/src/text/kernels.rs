//! Tables of kernels.

pub(crate) const OCCUPANCY: &str = "Occupancy is theoretical: resident warps ÷ the most an SM can hold. A grid below 1 wave leaves SMs without work.";

/// The heading above the kernels of one phase.
pub(crate) fn in_phase(phase: &str) -> String {
    format!("{phase}: kernels with most time")
}
