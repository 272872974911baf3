//! Counting without overflow.

pub(crate) fn saturating_product(factors: &[u64]) -> u64 {
    factors
        .iter()
        .fold(1, |total, factor| total.saturating_mul(*factor))
}
