//! Which samples a variant takes: the same for the same seed, on every machine and in every version.

use crate::{AssetError, Result};

/// SplitMix64 of Steele, Lea and Flood (OOPSLA 2014), which its authors publish with these constants.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, each as likely: numbers of the incomplete last round are drawn again.
    fn below_bound(&mut self, bound: u64) -> u64 {
        let rest = (u64::MAX % bound + 1) % bound;
        loop {
            let drawn = self.next();
            if drawn <= u64::MAX - rest {
                return drawn % bound;
            }
        }
    }
}

/// The numbers 0 to `count` in random order.
fn shuffled_indices(count: usize, seed: u64) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    let mut random = SplitMix(seed);
    for at in (1..count).rev() {
        numbers.swap(at, random.below_bound(at as u64 + 1) as usize);
    }
    numbers
}

/// `take` of `count` samples, in the order of the data.
pub(super) fn random_sample(count: usize, take: usize, seed: u64) -> Vec<usize> {
    let mut numbers = shuffled_indices(count, seed);
    numbers.truncate(take);
    numbers.sort_unstable();
    numbers
}

/// Parts of the samples by shares, each in the order of the data. Shares that sum to one use every sample once.
pub(super) fn split_samples(count: usize, shares: &[f64], seed: u64) -> Result<Vec<Vec<usize>>> {
    let sum: f64 = shares.iter().sum();
    let fits = shares.iter().all(|share| *share > 0.0) && sum <= 1.0 + 1e-9;
    if !fits {
        return Err(AssetError::refused(
            "shares of a split are more than 0 and at most 1 together",
            "--split train=0.9,val=0.1",
        ));
    }
    let numbers = shuffled_indices(count, seed);
    let mut end = 0.0;
    let mut start = 0;
    let mut parts = Vec::new();
    for share in shares {
        end += share;
        let stop = ((count as f64 * end).round() as usize).min(count);
        let mut part = numbers[start..stop.max(start)].to_vec();
        if part.is_empty() {
            return Err(AssetError::refused(
                format!("a share of {share} of {count} samples is less than one sample"),
                "a larger share",
            ));
        }
        part.sort_unstable();
        parts.push(part);
        start = stop;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // First outputs for seed 1234567, as printed by the reference implementation at prng.di.unimi.it.
        let mut random = SplitMix(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn samples_are_distinct_ordered_and_repeatable() {
        let chosen = random_sample(100, 10, 7);
        assert_eq!(chosen.len(), 10);
        assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]) && chosen[9] < 100);
        assert_eq!(chosen, random_sample(100, 10, 7));
        assert_ne!(chosen, random_sample(100, 10, 8));
        // Every sample is as likely: 40 of 100 000 draws deviate by more than four sigma from 10 % in no number.
        let mut hits = [0u32; 10];
        for seed in 0..10_000 {
            for number in random_sample(10, 3, seed) {
                hits[number] += 1;
            }
        }
        let sigma = (10_000.0 * 0.3 * 0.7f64).sqrt();
        assert!(
            hits.iter()
                .all(|&hit| (f64::from(hit) - 3000.0).abs() < 4.5 * sigma),
            "{hits:?}"
        );
    }

    #[test]
    fn a_split_uses_every_sample_once() {
        let parts = split_samples(101, &[0.5, 0.3, 0.2], 3).unwrap();
        let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
        assert_eq!(sizes, [51, 30, 20]);
        let mut all = parts.concat();
        all.sort_unstable();
        assert_eq!(all, (0..101).collect::<Vec<_>>());
        for wrong in [&[0.9, 0.2][..], &[-0.1], &[0.0], &[0.001]] {
            assert!(split_samples(100, wrong, 0).is_err(), "{wrong:?}");
        }
    }
}
