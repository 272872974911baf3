//! What recording adds to a step.

use std::collections::VecDeque;

/// How many recorded steps between plain ones a measured cost needs.
const SAMPLES: usize = 5;
/// How many of the last ones it is from.
const LAST_SAMPLES: usize = 33;

/// Recorded steps against the plain ones around them.
#[derive(Default)]
pub(super) struct Pairs {
    /// The last plain step, ns.
    plain: Option<f64>,
    /// Recorded steps since then, and their sum, ns.
    recorded: (u32, f64),
    /// What recording added to a step, the newest last, ns.
    pub(super) added: VecDeque<f64>,
}

impl Pairs {
    pub(super) fn add(&mut self, duration: f64, recorded: Option<bool>) {
        match (recorded, self.plain) {
            (Some(true), Some(_)) => {
                self.recorded.0 += 1;
                self.recorded.1 += duration;
            }
            (Some(false), before) => {
                let (count, sum) = std::mem::take(&mut self.recorded);
                if let Some(before) = before
                    && count > 0
                {
                    let added = sum / f64::from(count) - f64::midpoint(before, duration);
                    self.added.push_back(added);
                    if self.added.len() > LAST_SAMPLES {
                        self.added.pop_front();
                    }
                }
                self.plain = Some(duration);
            }
            // CUPTI leaves in a step after the recorded ones; the next plain step is near enough.
            (None, Some(_)) if self.recorded.0 > 0 => {}
            // A step that recording was switched in is neither, nor are its neighbours a pair.
            _ => {
                self.plain = None;
                self.recorded = (0, 0.0);
            }
        }
    }

    /// The upper end of what recording adds to a step.
    pub(super) fn upper(&self) -> Option<f64> {
        upper(&self.added, SAMPLES)
    }
}

/// The upper end of what values have in the middle: their median and 1.57 × the spread of the quarters ÷ √n, which is how
/// the notches of box plots are drawn (McGill, Tukey, Larsen 1978). Nothing where there are fewer than `least`.
pub(super) fn upper(values: &VecDeque<f64>, least: usize) -> Option<f64> {
    if values.len() < least.max(1) {
        return None;
    }
    let mut sorted: Vec<f64> = values.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    let spread = at(0.75) - at(0.25);
    Some(at(0.5) + 1.57 * spread / (sorted.len() as f64).sqrt())
}
