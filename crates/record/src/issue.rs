//! What was lost or should not be trusted.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What gives more slices of a sampled recording.
pub const MORE_SLICES: &str = "let it run longer (a run: more infer.max_new_tokens), allow a larger share (pipeline.cupti.overhead, --overhead), or set \
                               none, which records everything";

/// How much an [`Issue`] takes away from the numbers beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; no number is affected.
    Info,
    /// Some numbers are incomplete or less certain.
    Warning,
    /// Something asked for is missing or wrong.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A loss in the data, or a reason for distrust. It never stops a run; it stands at the top of every report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// How much it matters.
    pub severity: Severity,
    /// A stable, dotted name that a machine may match: `kineto.truncated`, `telemetry.no_gpu`.
    pub code: String,
    /// What was found and where, for a person.
    pub message: String,
    /// How many things it concerns (events lost, samples missing…); one where counting makes no sense.
    pub count: u64,
    /// What would avoid it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Issue {
    /// An issue about one thing, with no hint.
    pub fn new(severity: Severity, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity,
            code: code.into(),
            message: message.into(),
            count: 1,
            hint: None,
        }
    }

    /// The same issue concerning `count` things.
    #[must_use]
    pub fn counting(mut self, count: u64) -> Self {
        self.count = count;
        self
    }

    /// The same issue with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The issue with what would avoid it, for a report.
    pub fn with_advice(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{self} ({hint})"),
            None => self.to_string(),
        }
    }

    /// The issue as a terminal tells it, whichever command found it: with advice where a number is affected.
    pub fn in_a_line(&self) -> String {
        if self.severity > Severity::Info {
            self.with_advice()
        } else {
            self.to_string()
        }
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.severity, self.message, self.code)?;
        if self.count > 1 {
            write!(f, " ×{}", self.count)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_advice_where_a_number_is_affected() {
        let line = |severity| {
            let issue = Issue::new(severity, "a.code", "something").with_hint("do this");
            issue.in_a_line()
        };
        assert_eq!(
            line(Severity::Warning),
            "warning: something [a.code] (do this)"
        );
        assert_eq!(line(Severity::Error), "error: something [a.code] (do this)");
        assert_eq!(line(Severity::Info), "info: something [a.code]");
    }
}
