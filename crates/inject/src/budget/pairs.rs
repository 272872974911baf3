//! What recording adds to a step.

use super::samples::Samples;

/// Recorded steps against the plain ones around them.
#[derive(Default)]
pub(super) struct Pairs {
    /// The last plain step, ns.
    plain: Option<f64>,
    /// Recorded steps since then, and their sum, ns.
    recorded: (u32, f64),
    /// What recording added to a step, ns.
    pub(super) added: Samples<33>,
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
                    let mean = sum / f64::from(count);
                    self.added.add(mean - f64::midpoint(before, duration));
                }
                self.plain = Some(duration);
            }
            // CUPTI detaches in a step after the recorded ones; the next plain step is near enough.
            (None, Some(_)) if self.recorded.0 > 0 => {}
            // A step that recording was switched in is neither, nor are its neighbours a pair.
            _ => {
                self.plain = None;
                self.recorded = (0, 0.0);
            }
        }
    }
}
