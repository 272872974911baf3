//! What causes know beside the trace.

use llmprof_units::DType;

use super::Purpose;

/// What is known beside the trace.
#[derive(Clone, Debug)]
pub struct Subject {
    pub purpose: Purpose,
    /// The format of the model's weights as its config states it.
    pub weights: Option<DType>,
}
