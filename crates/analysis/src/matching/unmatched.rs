//! Work that ran and belongs to no operator of the model, and operators that did not run.

use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::waterfall::UnmatchedReason;

/// Calls of one operator that ran and are not matched for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct UnmatchedOperator {
    /// Its path.
    pub path: String,
    /// Why.
    pub reason: UnmatchedReason,
    /// What ran, of the first such call.
    pub found: String,
    /// What theory counts there, where it counts something.
    pub expected: Option<String>,
    /// Calls.
    pub calls: u64,
    /// Their time.
    pub time_ns: Nanos,
}

/// An operator that theory counts and that did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct MissingOperator {
    /// Its path.
    pub path: String,
    /// How often it was missed.
    pub calls: u64,
}
