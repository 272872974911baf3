//! Time that recording adds to a step: recorded steps compared with the unrecorded steps before and after.

use super::samples::Samples;

#[derive(Default)]
pub(super) struct Pairs {
    /// Duration of the last unrecorded step, ns.
    plain: Option<f64>,
    /// Number of recorded steps since then, and the sum of their durations, ns.
    recorded: (u32, f64),
    /// Time that recording added to a step, ns.
    pub(super) added: Samples<33>,
}

impl Pairs {
    pub(super) fn add_step(&mut self, duration: f64, recorded: Option<bool>) {
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
                    self.added.add_value(mean - f64::midpoint(before, duration));
                }
                self.plain = Some(duration);
            }
            // CUPTI detaches in the step after the recorded ones; the next unrecorded step is near enough.
            (None, Some(_)) if self.recorded.0 > 0 => {}
            // Recording was switched during this step: start again.
            _ => {
                self.plain = None;
                self.recorded = (0, 0.0);
            }
        }
    }
}
