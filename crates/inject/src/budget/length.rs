//! How long a slice is where no range shows steps: long enough to hold whole ones by the pattern of kernels.
//!
//! As long as no slice has shown a step for certain, the next one is twice as long. The longest shows what there is to see:
//! what repeats in it is taken for a step, and if nothing does, slices are short again.

use super::pattern::Period;

/// How long a slice is that need not be longer, ns.
pub(super) const SHORTEST: i64 = 100_000_000;
/// The longest, ns: two steps of a quarter of a second and some more.
pub(super) const LONGEST: i64 = 550_000_000;

/// The length of the next slice.
pub(super) struct Length {
    pub(super) time: i64,
    is_settled: bool,
}

impl Default for Length {
    fn default() -> Self {
        Self {
            time: SHORTEST,
            is_settled: false,
        }
    }
}

impl Length {
    /// The last slice, which was that long, has shown this.
    pub(super) fn learn(&mut self, shown: Option<Period>) {
        match shown {
            Some(step) if step.holds_layers || (self.time == LONGEST && !self.is_settled) => {
                // Wherever it begins, it holds a whole step, and two for the next look.
                let twice = step.time.saturating_mul(22) / 10;
                self.time = twice.clamp(SHORTEST, LONGEST);
                self.is_settled = true;
            }
            _ if self.is_settled => {}
            _ if self.time == LONGEST => {
                self.time = SHORTEST;
                self.is_settled = true;
            }
            _ => self.time = (2 * self.time).min(LONGEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[expect(clippy::unnecessary_wraps, reason = "slices show one or none")]
    fn every(ms: i64, holds_layers: bool) -> Option<Period> {
        let time = ms * MS;
        Some(Period { time, holds_layers })
    }

    fn lengths(shown: &[Option<Period>]) -> Vec<i64> {
        let mut length = Length::default();
        let mut lengths = Vec::new();
        for &shown in shown {
            length.learn(shown);
            lengths.push(length.time / MS);
        }
        lengths
    }

    #[test]
    fn short_steps_leave_slices_short() {
        assert_eq!(lengths(&[every(20, true), None]), [100, 100]);
    }

    #[test]
    fn long_steps_are_looked_for() {
        let layer = every(2, false);
        let step = every(170, true);
        assert_eq!(
            lengths(&[layer, layer, step, step, None]),
            [200, 400, 374, 374, 374]
        );
    }

    #[test]
    fn where_nothing_is_found_slices_are_short_again() {
        assert_eq!(lengths(&[None; 5]), [200, 400, 550, 100, 100]);
        let layer = every(2, false);
        assert_eq!(lengths(&[layer; 5]), [200, 400, 550, 100, 100]);
        let long = every(240, false);
        assert_eq!(
            lengths(&[None, None, None, long, None]),
            [200, 400, 550, 528, 528]
        );
    }

    #[test]
    fn a_slice_of_layers_alone_unsettles_nothing() {
        let (step, layer) = (every(260, true), every(2, false));
        assert_eq!(
            lengths(&[layer, layer, layer, step, layer, None]),
            [200, 400, 550, 550, 550, 550]
        );
    }

    #[test]
    fn another_model_has_other_steps() {
        let (long, short) = (every(200, true), every(30, true));
        assert_eq!(
            lengths(&[None, None, long, short, long]),
            [200, 400, 440, 100, 440]
        );
    }
}
