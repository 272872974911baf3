//! Times between tokens, few enough to keep whatever the number of steps.

use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

/// Leading bits of a time that are kept: times within 0.02 % are counted together.
const KEPT_BITS: u32 = 12;

/// Times and how many tokens had them. Times that agree to 0.02 % are kept together, by their number and sum.
#[derive(Clone, Debug, Default)]
pub struct Gaps(FxHashMap<u64, (u64, i64)>);

impl Gaps {
    pub(crate) fn add_gap(&mut self, time: Nanos, count: u64) {
        let nanos = time.0.max(0).cast_unsigned();
        let dropped = (u64::BITS - nanos.leading_zeros()).saturating_sub(KEPT_BITS);
        let kept = self.0.entry(nanos >> dropped << dropped).or_default();
        kept.0 += count;
        kept.1 += time.0 * count.cast_signed();
    }

    /// Mean time in nanoseconds and number of tokens of each, by time.
    pub fn mean_gaps(&self) -> Vec<(f64, u64)> {
        let mut means: Vec<(f64, u64)> = self
            .0
            .values()
            .map(|(count, total)| (*total as f64 / *count as f64, *count))
            .collect();
        means.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        means
    }

    pub fn gap_count(&self) -> u64 {
        self.0.values().map(|(count, _)| count).sum()
    }

    pub fn total_time(&self) -> Nanos {
        Nanos(self.0.values().map(|(_, total)| total).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_and_times_nearly() {
        let mut gaps = Gaps::default();
        for step in 0..100_000_i64 {
            gaps.add_gap(Nanos(5_000_000 + step), 2);
        }
        assert_eq!(gaps.gap_count(), 200_000);
        assert_eq!(
            gaps.total_time(),
            Nanos(2 * (0..100_000_i64).map(|s| 5_000_000 + s).sum::<i64>())
        );
        let means = gaps.mean_gaps();
        assert!(means.len() < 200, "{}", means.len());
        assert!(means.windows(2).all(|pair| pair[1].0 / pair[0].0 < 1.0006));
    }
}
