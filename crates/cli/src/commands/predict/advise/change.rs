//! One change that could be made.

use llmprof_theory::predict::EfficiencyProfile;
use serde::Serialize;

/// What sort of change it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Code {
    CudaGraph,
    Fusion,
    AttentionBackend,
    Batch,
    KvDtype,
    Weights,
    TensorParallel,
    Device,
    KvHeads,
    HeadSize,
    Widths,
    Experts,
}

pub(super) struct Change {
    pub(super) code: Code,
    pub(super) overrides: Vec<String>,
    /// Where the change is one of the software: the profile of that.
    pub(super) profile: Option<EfficiencyProfile>,
}

impl Change {
    pub(super) fn new(code: Code, overrides: Vec<String>) -> Self {
        Self {
            code,
            overrides,
            profile: None,
        }
    }
}
