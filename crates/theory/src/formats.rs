//! How numbers are stored and multiplied.

use llmprof_units::DType;

use crate::quant::WeightFormat;

/// Number formats of a workload with the model's own where the workload says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formats {
    /// Storage of the matrices that a quantized checkpoint quantizes.
    pub weights: WeightFormat,
    /// Storage of all other weights.
    pub plain: DType,
    pub activations: DType,
    pub kv: DType,
    /// What matrix units multiply where a weight is quantized.
    pub compute: DType,
}

impl Formats {
    /// The storage of a matrix.
    pub fn matrix_format(&self, quantized: bool) -> WeightFormat {
        if quantized {
            self.weights
        } else {
            WeightFormat::Plain(self.plain)
        }
    }

    /// What matrix units multiply for a matrix.
    pub(crate) fn compute_for(&self, quantized: bool) -> DType {
        if quantized {
            self.compute
        } else {
            self.activations
        }
    }
}
