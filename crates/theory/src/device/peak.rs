use std::fmt;

use llmprof_units::{Basis, DType, FlopsPerSecond};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The kind of arithmetic unit that does some work.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Matrix units: tensor cores, matrix cores, MXUs, AMX tiles.
    Tensor,
    /// Vector units: CUDA cores, SIMD lanes.
    Vector,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tensor => "tensor",
            Self::Vector => "vector",
        })
    }
}

/// The most operations per second that a device does in one number format on one kind of unit.
///
/// For integer formats "FLOP" reads as an integer operation. A multiply-add is two operations.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Peak {
    /// Number format of the two factors that are multiplied.
    pub dtype: DType,
    /// The units that do the work.
    pub engine: Engine,
    /// Format of the accumulator, where the maker states different rates for different ones.
    pub accumulate: Option<DType>,
    /// Rate on dense operands: the only one that any computation here uses.
    pub dense_flops_per_s: FlopsPerSecond,
    /// Rate the maker claims for 2:4 structured sparsity.
    pub sparse_flops_per_s: Option<FlopsPerSecond>,
    /// How the dense rate follows from the number of units, or why that cannot be shown.
    pub recount: Recount,
    /// How the rate is known.
    pub basis: Basis,
    /// The document that states it.
    pub source: String,
}

/// How a peak follows from units × operations per clock × clock.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recount {
    Factors {
        /// Units of the device that work at this rate.
        units: f64,
        /// Operations of one unit in one cycle.
        operations_per_clock: f64,
        /// Name of the clock in the device's table.
        clock: String,
        /// Frequency of that clock in MHz.
        clock_mhz: f64,
    },
    /// Why the factors are not known.
    Unknown(String),
}

impl Recount {
    /// Units × operations per clock × clock, where the factors are known.
    pub fn recounted_rate(&self) -> Option<FlopsPerSecond> {
        match self {
            Self::Factors {
                units,
                operations_per_clock,
                clock_mhz,
                ..
            } => Some(FlopsPerSecond(
                units * operations_per_clock * clock_mhz * 1e6,
            )),
            Self::Unknown(_) => None,
        }
    }
}

/// A number format in which a device has no stated peak.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{device}` has no {engine} peak for {dtype} (it has: {known}); compute in one of those, or add the peak to its device file"
)]
pub struct MissingPeak {
    /// Spec name of the device.
    pub device: String,
    pub dtype: DType,
    pub engine: Engine,
    /// The formats that have a peak on units that could do the work.
    pub known: String,
}
