//! Numbers that support a conclusion.

use llmprof_units::{Basis, Nanos};
use serde::{Deserialize, Serialize};

/// A number that supports a conclusion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it is.
    pub what: String,
    /// The number.
    pub value: f64,
    /// Its unit; `1` for a fraction of one.
    pub unit: String,
    /// How it is known.
    pub basis: Basis,
}

impl Evidence {
    /// A number with its unit.
    pub(crate) fn new(what: impl Into<String>, value: f64, unit: &str, basis: Basis) -> Self {
        Self {
            what: what.into(),
            value,
            unit: unit.to_owned(),
            basis,
        }
    }

    /// A fraction of one.
    pub(crate) fn share(what: impl Into<String>, value: f64, basis: Basis) -> Self {
        Self::new(what, value, "1", basis)
    }

    pub(crate) fn time(what: impl Into<String>, value: Nanos, basis: Basis) -> Self {
        Self::new(what, value.0 as f64, "ns", basis)
    }
}
