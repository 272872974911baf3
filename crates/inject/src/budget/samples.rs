//! A sliding window of measured values.

use std::collections::VecDeque;

/// Minimum number of samples for a stable median.
const SAMPLES_MIN: usize = 5;

/// The last `SAMPLES_MAX` values, the newest last.
#[derive(Default)]
pub(super) struct Samples<const SAMPLES_MAX: usize>(VecDeque<f64>);

impl<const SAMPLES_MAX: usize> Samples<SAMPLES_MAX> {
    pub(super) fn add_value(&mut self, value: f64) {
        self.0.push_back(value);
        if self.0.len() > SAMPLES_MAX {
            self.0.pop_front();
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    fn sorted_values(&self) -> Vec<f64> {
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The median, however few values there are.
    pub(super) fn median(&self) -> Option<f64> {
        let sorted = self.sorted_values();
        sorted.get(sorted.len() / 2).copied()
    }

    /// Upper bound of the median: median + 1.57 × interquartile range ÷ √n, as the notches of box plots are drawn (McGill,
    /// Tukey, Larsen 1978). `None` with fewer than [`SAMPLES_MIN`] values.
    pub(super) fn median_upper_bound(&self) -> Option<f64> {
        if self.0.len() < SAMPLES_MIN {
            return None;
        }
        let sorted = self.sorted_values();
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
        assert_eq!(
            (samples.median(), samples.median_upper_bound()),
            (None, None)
        );
        for value in [900.0, 800.0, 1.0, 5.0] {
            samples.add_value(value);
        }
        assert_eq!(
            (samples.median(), samples.median_upper_bound()),
            (Some(800.0), None)
        );
        for value in [3.0, 2.0, 4.0] {
            samples.add_value(value);
        }
        // 1 to 5: the quarters are 2 and 4.
        assert_eq!((samples.count(), samples.median()), (5, Some(3.0)));
        assert_eq!(
            samples.median_upper_bound(),
            Some(3.0 + 1.57 * 2.0 / 5_f64.sqrt())
        );
    }
}
