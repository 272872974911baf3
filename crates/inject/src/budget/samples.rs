//! The last values of something that is measured again and again.

use std::collections::VecDeque;

/// Minimum number of samples for a stable median.
const LEAST: usize = 5;

/// Up to `MOST` values, the newest last.
#[derive(Default)]
pub(super) struct Samples<const MOST: usize>(VecDeque<f64>);

impl<const MOST: usize> Samples<MOST> {
    pub(super) fn add(&mut self, value: f64) {
        self.0.push_back(value);
        if self.0.len() > MOST {
            self.0.pop_front();
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// What is in the middle, of as few as there are.
    pub(super) fn median(&self) -> Option<f64> {
        let sorted = self.sorted();
        sorted.get(sorted.len() / 2).copied()
    }

    /// The upper end of what is in the middle: the median and 1.57 × the spread of the quarters ÷ √n, which is how the
    /// notches of box plots are drawn (McGill, Tukey, Larsen 1978). Nothing where there are fewer than [`LEAST`].
    pub(super) fn upper(&self) -> Option<f64> {
        if self.0.len() < LEAST {
            return None;
        }
        let sorted = self.sorted();
        let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
        let spread = at(0.75) - at(0.25);
        Some(at(0.5) + 1.57 * spread / (sorted.len() as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_values_count() {
        let mut samples = Samples::<5>::default();
        assert_eq!((samples.median(), samples.upper()), (None, None));
        for value in [900.0, 800.0, 1.0, 5.0] {
            samples.add(value);
        }
        assert_eq!((samples.median(), samples.upper()), (Some(800.0), None));
        for value in [3.0, 2.0, 4.0] {
            samples.add(value);
        }
        // 1 to 5: the quarters are 2 and 4.
        assert_eq!((samples.count(), samples.median()), (5, Some(3.0)));
        assert_eq!(samples.upper(), Some(3.0 + 1.57 * 2.0 / 5_f64.sqrt()));
    }
}
