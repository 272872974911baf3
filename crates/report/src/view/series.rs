use llmprof_units::Nanos;

use super::Unit;

/// Sampled values over time; lines that share a unit share a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What was sampled.
    pub title: String,
    /// The unit of the values.
    pub unit: Unit,
    /// The lines.
    pub lines: Vec<Line>,
    /// Stretches of time behind them, such as phases.
    pub bands: Vec<Band>,
}

/// One sensor over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The sensor.
    pub label: String,
    /// When it was read and what it said, by time. A value that is not finite is a gap.
    pub samples: Vec<(Nanos, f64)>,
}

/// A named stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Band {
    /// Its name.
    pub label: String,
    /// Its start.
    pub start_ns: Nanos,
    /// Its end.
    pub end_ns: Nanos,
}
