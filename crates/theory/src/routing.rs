//! How many experts the tokens of a step reach.

/// Expected number of distinct experts touched by `tokens` tokens that each pick `top_k` of `experts` uniformly and
/// independently: `E·(1 − (1 − k/E)^T)`.
///
/// One expert is missed by one token with probability `1 − k/E`, by all with that to the power `T`; expectations add.
/// Exact for one token (`k`).
pub fn expected_touched(experts: u64, top_k: u64, tokens: u64) -> f64 {
    if tokens == 0 || experts == 0 {
        return 0.0;
    }
    if tokens == 1 || top_k >= experts {
        return top_k.min(experts) as f64;
    }
    let count = experts as f64;
    let missed = (1.0 - top_k as f64 / count).powf(tokens as f64);
    count * (1.0 - missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tokens_of_eight_choose_two() {
        // By hand: 8·(1 − (6/8)²) = 3.5.
        assert_eq!(expected_touched(8, 2, 2), 3.5);
        assert_eq!(expected_touched(8, 2, 1), 2.0);
        assert_eq!(expected_touched(8, 8, 5), 8.0);
        assert!(expected_touched(256, 8, 1 << 40) <= 256.0);
    }
}
