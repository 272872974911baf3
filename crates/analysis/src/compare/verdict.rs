//! The conclusion that an interval allows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bootstrap::RatioInterval;
use super::metric::ComparedMetric;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Faster,
    Slower,
    /// Metrics without a direction of better: memory, energy.
    Lower,
    Higher,
    /// The whole interval lies within the resolution.
    Same,
    /// The interval holds 1 and reaches beyond the resolution, or the metric has no interval.
    CannotTell,
    /// The two sides did other work.
    NotComparable,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::Same => "same",
            Self::CannotTell => "cannot_tell",
            Self::NotComparable => "not_comparable",
        }
    }

    /// `resolution` is the relative difference that does not matter: 0.02.
    pub fn from_interval(
        metric: ComparedMetric,
        interval: Option<RatioInterval>,
        resolution: f64,
    ) -> Self {
        let Some(interval) = interval else {
            return Self::CannotTell;
        };
        let most = 1.0 + resolution;
        if interval.low >= 1.0 / most && interval.high <= most {
            return Self::Same;
        }
        let rises = interval.low > 1.0;
        if !rises && interval.high >= 1.0 {
            return Self::CannotTell;
        }
        match (metric.is_speed, rises, metric.higher_is_better) {
            (true, true, true) | (true, false, false) => Self::Faster,
            (true, _, _) => Self::Slower,
            (false, true, _) => Self::Higher,
            (false, false, _) => Self::Lower,
        }
    }
}

/// Rounds that would narrow an interval to `resolution` on either side: its width shrinks with the root of their number.
pub fn rounds_needed(interval: RatioInterval, rounds: usize, resolution: f64) -> usize {
    let target = (1.0 + resolution).ln() * 2.0;
    let width = (interval.high / interval.low).ln();
    let needed = rounds as f64 * (width / target).powi(2);
    (needed.ceil() as usize).max(rounds + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_by_hand() {
        let verdict = |key: &str, low: f64, high: f64| {
            let interval = RatioInterval {
                ratio: f64::midpoint(low, high),
                low,
                high,
            };
            Verdict::from_interval(ComparedMetric::by_key(key).unwrap(), Some(interval), 0.02)
        };
        assert_eq!(verdict("tpot", 1.01, 1.03), Verdict::Slower);
        assert_eq!(verdict("tpot", 0.90, 0.97), Verdict::Faster);
        assert_eq!(verdict("tpot", 0.99, 1.015), Verdict::Same);
        // A difference that is sure but within the resolution does not matter.
        assert_eq!(verdict("tpot", 1.005, 1.01), Verdict::Same);
        assert_eq!(verdict("tpot", 0.97, 1.01), Verdict::CannotTell);
        assert_eq!(verdict("tokens_per_s", 1.05, 1.10), Verdict::Faster);
        assert_eq!(verdict("peak_memory", 1.05, 1.10), Verdict::Higher);
        let none = Verdict::from_interval(ComparedMetric::by_key("tpot").unwrap(), None, 0.02);
        assert_eq!(none, Verdict::CannotTell);
    }

    /// A width of ±4 % at 10 rounds is ±2 % at about four times as many.
    #[test]
    fn rounds_grow_with_the_square_of_the_width() {
        let interval = RatioInterval {
            ratio: 1.0,
            low: 1.0 / 1.04,
            high: 1.04,
        };
        let needed = rounds_needed(interval, 10, 0.02);
        assert!((38..=41).contains(&needed), "{needed}");
    }
}
