//! What slices say of the whole, in sentences.

use llmprof_units::{Count, Nanos, Percent};

use crate::trace::scaled::{Estimate, Scaled};

impl Scaled {
    /// What the sample is: how much of the time, and of which steps.
    pub fn basis(&self) -> String {
        let share = Percent(self.recorded_ns.0 as f64 / self.whole_ns.0.max(1) as f64);
        let sample = match (&self.step, &self.pattern) {
            (Some(step), _) => format!(
                "{} of {} ranges `{step}` were recorded whole",
                self.sampled, self.units
            ),
            (None, Some(found)) => format!(
                "{} of about {:.0} steps ({:.0} to {:.0}) were recorded whole, by the pattern of launches",
                self.sampled, found.steps.value, found.steps.low, found.steps.high
            ),
            (None, None) => format!("{}, scaled by time", Count(self.sampled, "slice")),
        };
        format!("Recorded {share} of the time: {sample}.")
    }

    /// Kernels and their time over the whole, and in a step where the pattern of launches shows steps.
    pub fn totals(&self) -> Vec<String> {
        let whole = match (&self.step, &self.pattern) {
            (Some(step), _) => format!("all `{step}`"),
            (None, Some(_)) => "all steps".to_owned(),
            (None, None) => "the whole time".to_owned(),
        };
        let mut lines = vec![format!(
            "Over {whole}: {:.0} kernels ({:.0} to {:.0}), kernel time {} (95 % interval).",
            self.kernels.value,
            self.kernels.low,
            self.kernels.high,
            self.kernel_time_ns.time()
        )];
        lines.extend(self.pattern.as_ref().map(|found| {
            format!(
                "A step: {:.1} kernels ({:.1} to {:.1}), kernel time {}.",
                found.kernels.value,
                found.kernels.low,
                found.kernels.high,
                found.kernel_time_ns.time()
            )
        }));
        lines
    }
}

impl Estimate {
    /// The figure as a time with its interval.
    pub fn time(&self) -> String {
        let nanos = |value: f64| Nanos(value.round() as i64);
        format!(
            "{} ({} to {})",
            nanos(self.value),
            nanos(self.low),
            nanos(self.high)
        )
    }

    /// The figure as a number with its interval.
    pub fn number(&self) -> String {
        format!("{:.0} ({:.0} to {:.0})", self.value, self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_steps_is_told_with_its_interval() {
        let estimate = |value: f64, half: f64| Estimate {
            value,
            low: value - half,
            high: value + half,
        };
        let scaled = Scaled {
            step: Some("decode_step".to_owned()),
            pattern: None,
            units: 80,
            sampled: 20,
            recorded_ns: Nanos(25),
            whole_ns: Nanos(100),
            kernels: estimate(4000.0, 10.0),
            kernel_time_ns: estimate(4e6, 1e6),
            by_kernel: Vec::new(),
        };
        assert_eq!(
            scaled.basis(),
            "Recorded 25.0 % of the time: 20 of 80 ranges `decode_step` were recorded whole."
        );
        let time = |ms: i64| Nanos(ms * 1_000_000);
        assert_eq!(
            scaled.totals(),
            [format!(
                "Over all `decode_step`: 4000 kernels (3990 to 4010), kernel time {} ({} to {}) (95 % interval).",
                time(4),
                time(3),
                time(5)
            )]
        );
    }
}
