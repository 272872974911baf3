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

/// Mean number of distinct experts per call, from the ids that a run recorded: one slice per layer and step.
///
/// `None` when nothing was recorded, or an id is not below `experts`.
pub fn measured_touched<'a>(
    calls: impl IntoIterator<Item = &'a [u32]>,
    experts: u64,
) -> Option<f64> {
    let mut seen = vec![false; usize::try_from(experts).ok()?];
    let (mut total, mut number) = (0u64, 0u64);
    for ids in calls {
        seen.fill(false);
        for id in ids {
            let slot = seen.get_mut(usize::try_from(*id).ok()?)?;
            total += u64::from(!*slot);
            *slot = true;
        }
        number += 1;
    }
    (number > 0).then(|| total as f64 / number as f64)
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

    #[test]
    fn measured_ids_are_averaged_over_calls() {
        let calls: [&[u32]; 2] = [&[0, 1, 1, 0], &[2, 3, 1, 0]];
        assert_eq!(measured_touched(calls, 4), Some(3.0));
        assert_eq!(measured_touched([&[4u32][..]], 4), None);
        assert_eq!(measured_touched([], 4), None);
    }
}
