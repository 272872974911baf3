use super::Mark;

/// How long each step took, in the order of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct StepLatency {
    pub title: String,
    /// Lines share the axis of step numbers.
    pub lines: Vec<StepLine>,
    /// Values to point out: percentiles.
    pub marks: Vec<Mark>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StepLine {
    pub label: String,
    /// A value that is not finite is a gap.
    pub values_ns: Vec<f64>,
}
