use llmprof_units::Count;

use super::ValueMark;

/// How long each step took, in the order of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct StepLatency {
    pub title: String,
    /// What one value is of: a step, a gap between tokens.
    pub noun: &'static str,
    /// Lines share the axis of step numbers.
    pub lines: Vec<StepLine>,
    /// Values to point out: percentiles.
    pub marks: Vec<ValueMark>,
}

impl StepLatency {
    /// How many values there are: `15 steps`, `93 gaps in 3 requests`.
    pub(crate) fn counted(&self) -> String {
        let values: usize = self.lines.iter().map(|line| line.values_ns.len()).sum();
        let values = Count(values as u64, self.noun);
        match self.lines.len() {
            0 | 1 => values.to_string(),
            lines => format!("{values} in {}", Count(lines as u64, "request")),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct StepLine {
    pub label: String,
    /// A value that is not finite is a gap.
    pub values_ns: Vec<f64>,
}
