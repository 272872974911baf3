//! Sums and products of counts that saturate: a huge config gives a huge figure, not a panic.

pub(crate) fn saturating_product(factors: &[u64]) -> u64 {
    factors
        .iter()
        .fold(1, |total, factor| total.saturating_mul(*factor))
}
