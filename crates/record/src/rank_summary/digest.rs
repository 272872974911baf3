//! Counts of durations in buckets of equal ratio: digests of ranks add up to the digest of the job.

use std::collections::BTreeMap;

/// Each bucket is this much wider than the one before, so that a quantile is off by at most half of it: 5 %.
const BUCKET_RATIO: f64 = 1.1;

/// How many durations fell into each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest(BTreeMap<i32, u64>);

impl Digest {
    pub fn add(&mut self, duration_ns: i64) {
        let bucket = (duration_ns.max(1) as f64).ln() / BUCKET_RATIO.ln();
        *self.0.entry(bucket.floor() as i32).or_default() += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            let sum = self.0.entry(*bucket).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    pub fn count(&self) -> u64 {
        self.0
            .values()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The duration that this share of all does not exceed, within 5 %; `None` without any.
    pub fn quantile_ns(&self, share: f64) -> Option<i64> {
        let wanted = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        self.0.iter().find_map(|(bucket, count)| {
            seen = seen.saturating_add(*count);
            let middle = BUCKET_RATIO.powf(f64::from(*bucket) + 0.5);
            (seen >= wanted).then_some(middle.round() as i64)
        })
    }

    pub(super) fn to_row(&self) -> impl Iterator<Item = i64> {
        self.0
            .iter()
            .flat_map(|(bucket, count)| [i64::from(*bucket), *count as i64])
    }

    pub(super) fn from_row(row: &[i64]) -> Result<Self, &'static str> {
        let mut digest = BTreeMap::new();
        for pair in row.chunks(2) {
            let &[bucket, count] = pair else {
                return Err("a digest is cut");
            };
            let (Ok(bucket), Ok(count)) = (i32::try_from(bucket), u64::try_from(count)) else {
                return Err("a digest has a number out of range");
            };
            digest.insert(bucket, count);
        }
        Ok(Self(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_quantiles_are_within_five_percent() {
        let (mut odd, mut even) = (Digest::default(), Digest::default());
        for duration in 1..=1_000 {
            let half = if duration % 2 == 1 {
                &mut odd
            } else {
                &mut even
            };
            half.add(duration * 1_000);
        }
        odd.merge(&even);
        assert_eq!(odd.count(), 1_000);
        for (share, expected) in [(0.5, 500_000.0), (0.99, 990_000.0), (0.0, 1_000.0)] {
            let quantile = odd.quantile_ns(share).unwrap_or_default() as f64;
            assert!(
                (quantile / expected - 1.0).abs() < 0.051,
                "{share}: {quantile}"
            );
        }
        assert_eq!(Digest::default().quantile_ns(0.5), None);
    }
}
