use llmprof_units::Nanos;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Unit;

/// Sampled values over time; lines that share a unit share a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What was sampled, for names of files: `gpu_0_power`. Curves that were stored without one are named by their title.
    #[serde(default)]
    pub key: String,
    pub title: String,
    /// The unit of the values.
    pub unit: Unit,
    pub lines: Vec<SeriesLine>,
    /// Intervals behind them, such as phases.
    pub bands: Vec<Band>,
}

/// One sensor over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesLine {
    pub label: String,
    /// When it was read and what it said, by time. A value that is not finite is a gap.
    #[serde(serialize_with = "with_gaps", deserialize_with = "from_gaps")]
    pub samples: Vec<(Nanos, f64)>,
    /// Whether a value holds until the next, as a count does that is noted where it changes.
    #[serde(default)]
    pub is_held: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    pub label: String,
    pub start_ns: Nanos,
    pub end_ns: Nanos,
}

/// JSON has no number for a gap; it is written as null.
fn with_gaps<S: Serializer>(samples: &[(Nanos, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        samples
            .iter()
            .map(|(time, value)| (time, value.is_finite().then_some(value))),
    )
}

fn from_gaps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Nanos, f64)>, D::Error> {
    let samples = Vec::<(Nanos, Option<f64>)>::deserialize(deserializer)?;
    let filled = samples.into_iter();
    Ok(filled
        .map(|(time, value)| (time, value.unwrap_or(f64::NAN)))
        .collect())
}

/// A [`SeriesLine`] in four numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SeriesSummary {
    /// How many samples have a value.
    pub(crate) count: u64,
    /// Their mean: over time where values hold until the next, else all weigh the same.
    pub(crate) mean: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl SeriesLine {
    /// `None` where no sample has a value.
    pub(crate) fn summary(&self) -> Option<SeriesSummary> {
        let values = || {
            self.samples
                .iter()
                .map(|&(_, value)| value)
                .filter(|value| value.is_finite())
        };
        let count = values().count() as u64;
        let over_time = || {
            let mut sums = (0.0, 0.0);
            for pair in self.samples.windows(2) {
                let [(from, value), (to, _)] = [pair[0], pair[1]];
                if value.is_finite() {
                    let length = (to - from).0 as f64;
                    sums = (sums.0 + value * length, sums.1 + length);
                }
            }
            (sums.1 > 0.0).then(|| sums.0 / sums.1)
        };
        let held = self.is_held.then(over_time).flatten();
        (count > 0).then(|| SeriesSummary {
            count,
            mean: held.unwrap_or_else(|| values().sum::<f64>() / count as f64),
            least: values().fold(f64::INFINITY, f64::min),
            most: values().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}
