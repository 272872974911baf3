//! What was dropped or should not be trusted.

mod code;

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use code::IssueCode;

/// How much an [`Issue`] takes away from the numbers beside it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Issue {
    /// How much the loss affects what the report says.
    pub severity: Severity,
    /// Stable name, such as `kineto.truncated`.
    pub code: IssueCode,
    /// What the sentence of the code is about: `{"byte": 4096}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
    /// The sentence, of a code that the report has none for (workers of others, older runs); else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How many things it concerns (events dropped, samples missing…); one where counting makes no sense.
    pub count: u64,
    /// What would avoid it, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Issue {
    /// An issue with a sentence of its own.
    pub fn new(severity: Severity, code: IssueCode, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::coded(severity, code)
        }
    }

    /// An issue whose sentence and hint the report has by its code.
    pub(crate) fn coded(severity: Severity, code: IssueCode) -> Self {
        Self {
            severity,
            code,
            values: BTreeMap::new(),
            message: String::new(),
            count: 1,
            hint: None,
        }
    }

    pub fn info(code: IssueCode) -> Self {
        Self::coded(Severity::Info, code)
    }

    pub fn warning(code: IssueCode) -> Self {
        Self::coded(Severity::Warning, code)
    }

    pub fn error(code: IssueCode) -> Self {
        Self::coded(Severity::Error, code)
    }

    /// The same issue with a value that its sentence needs.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.values.insert(key.to_owned(), value.into());
        self
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

    /// The stored sentence; of a code that the report has one for, its values as JSON.
    pub fn message_or_values(&self) -> String {
        if self.message.is_empty() {
            serde_json::to_string(&self.values).unwrap_or_default()
        } else {
            self.message.clone()
        }
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.severity)?;
        if self.message.is_empty() {
            for (key, value) in &self.values {
                write!(f, "{key}={value} ")?;
            }
        } else {
            write!(f, "{} ", self.message)?;
        }
        write!(f, "[{}]", self.code)?;
        if self.count > 1 {
            write!(f, " ×{}", self.count)?;
        }
        Ok(())
    }
}
