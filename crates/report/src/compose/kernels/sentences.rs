//! Tables of kernels.

use llmprof_units::format_significant;

pub(crate) const OCCUPANCY: &str = "Occupancy is theoretical: resident warps ÷ the most an SM can hold. A grid below 1 wave leaves SMs without work.";

/// A ratio such as waves or FLOP/B: digits below a hundredth say nothing.
pub(crate) fn hundredths(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.005 {
        "< 0.01".to_owned()
    } else {
        format_significant((ratio * 100.0).round() / 100.0)
    }
}

/// What the columns of phases mean.
pub(crate) const PHASE_SHARES: &str = "Shares of a phase are of its GPU time, with copies and memsets, for the kernels with most time in it.";

#[cfg(test)]
mod tests {
    use super::hundredths;

    #[test]
    fn ratios_have_two_decimals_at_most() {
        let of = [0.0, 0.000_473_5, 0.01515, 0.03523, 2.267, 131.25].map(hundredths);
        assert_eq!(of, ["0", "< 0.01", "0.02", "0.04", "2.27", "131.2"]);
    }
}
