//! Tables of kernels.

use llmprof_units::significant;

pub(crate) const OCCUPANCY: &str = "Occupancy is theoretical: resident warps ÷ the most an SM can hold. A grid below 1 wave leaves SMs without work.";

/// Waves of a grid; below a hundredth the digits say nothing.
pub(crate) fn waves(waves: f64) -> String {
    if waves > 0.0 && waves < 0.01 {
        "< 0.01".to_owned()
    } else {
        significant(waves)
    }
}

/// The heading above the kernels of one phase.
pub(crate) fn in_phase(phase: &str) -> String {
    format!("{phase}: kernels with most time")
}
