use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Read from a clock, a counter or a sensor during a run.
    Measured,
    /// Counted exactly from a model's design and a workload.
    Counted,
    /// Stated by the maker of a device.
    Datasheet,
    /// Computed from numbers of other bases.
    Derived,
    /// An expectation over something random, such as the experts touched under uniform routing.
    Expected,
    /// A model's estimate of what a measurement would give.
    Predicted,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Counted => "counted",
            Self::Datasheet => "datasheet",
            Self::Derived => "derived",
            Self::Expected => "expected",
            Self::Predicted => "predicted",
        })
    }
}
