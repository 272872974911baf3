//! Work that ran and belongs to no operator of the model, and operators that did not run.

use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::waterfall::UnmatchedReason;

/// Calls of one operator that ran and are not matched for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct UnmatchedOperator {
    /// Path of the operator in the model.
    pub path: String,
    /// Why the calls are not matched.
    pub reason: UnmatchedReason,
    /// What ran, of the first such call.
    pub found: String,
    /// What theory counts there, where it counts something.
    pub expected: Option<String>,
    /// Calls of this operator with this reason.
    pub calls: u64,
    /// Measured time of these calls.
    pub time_ns: Nanos,
}

/// An operator that theory counts and that did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct MissingOperator {
    /// Path of the operator in the model.
    pub path: String,
    /// How often it was missed.
    pub calls: u64,
}
