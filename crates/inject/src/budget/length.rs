//! Length of timed slices, used if no range shows steps: long enough for whole steps, judged by the kernel pattern.
//!
//! Until a slice certainly shows a step, each slice is twice as long as the last. In a slice of maximum length, whatever
//! repeats is taken for the step; if nothing repeats, slices become short again.

use super::pattern::Period;

/// Length of the first slice, and of all slices if nothing repeats.
pub(super) const SLICE_LENGTH_MIN_NS: i64 = 100_000_000;
/// Two steps of 250 ms, the longest that count as steps, and a tenth more.
pub(super) const SLICE_LENGTH_MAX_NS: i64 = 550_000_000;

pub(super) struct Length {
    pub(super) time: i64,
    is_settled: bool,
}

impl Default for Length {
    fn default() -> Self {
        Self {
            time: SLICE_LENGTH_MIN_NS,
            is_settled: false,
        }
    }
}

impl Length {
    /// Adjusts the length by what repeats in the last slice.
    pub(super) fn learn_period(&mut self, shown: Option<Period>) {
        match shown {
            Some(step)
                if step.holds_layers || (self.time == SLICE_LENGTH_MAX_NS && !self.is_settled) =>
            {
                // 2.2 steps: holds a whole step wherever it begins, and two steps to find the period again.
                let twice = step.time.saturating_mul(22) / 10;
                self.time = twice.clamp(SLICE_LENGTH_MIN_NS, SLICE_LENGTH_MAX_NS);
                self.is_settled = true;
            }
            _ if self.is_settled => {}
            _ if self.time == SLICE_LENGTH_MAX_NS => {
                self.time = SLICE_LENGTH_MIN_NS;
                self.is_settled = true;
            }
            _ => self.time = (2 * self.time).min(SLICE_LENGTH_MAX_NS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[expect(clippy::unnecessary_wraps, reason = "slices show one or none")]
    fn period_every(ms: i64, holds_layers: bool) -> Option<Period> {
        let time = ms * MS;
        Some(Period { time, holds_layers })
    }

    fn lengths_after(shown: &[Option<Period>]) -> Vec<i64> {
        let mut length = Length::default();
        let mut lengths = Vec::new();
        for &shown in shown {
            length.learn_period(shown);
            lengths.push(length.time / MS);
        }
        lengths
    }

    #[test]
    fn short_steps_leave_slices_short() {
        assert_eq!(lengths_after(&[period_every(20, true), None]), [100, 100]);
    }

    #[test]
    fn long_steps_are_looked_for() {
        let layer = period_every(2, false);
        let step = period_every(170, true);
        assert_eq!(
            lengths_after(&[layer, layer, step, step, None]),
            [200, 400, 374, 374, 374]
        );
    }

    #[test]
    fn where_nothing_is_found_slices_are_short_again() {
        assert_eq!(lengths_after(&[None; 5]), [200, 400, 550, 100, 100]);
        let layer = period_every(2, false);
        assert_eq!(lengths_after(&[layer; 5]), [200, 400, 550, 100, 100]);
        let long = period_every(240, false);
        assert_eq!(
            lengths_after(&[None, None, None, long, None]),
            [200, 400, 550, 528, 528]
        );
    }

    #[test]
    fn a_slice_of_layers_alone_unsettles_nothing() {
        let (step, layer) = (period_every(260, true), period_every(2, false));
        assert_eq!(
            lengths_after(&[layer, layer, layer, step, layer, None]),
            [200, 400, 550, 550, 550, 550]
        );
    }

    #[test]
    fn another_model_has_other_steps() {
        let (long, short) = (period_every(200, true), period_every(30, true));
        assert_eq!(
            lengths_after(&[None, None, long, short, long]),
            [200, 400, 440, 100, 440]
        );
    }
}
