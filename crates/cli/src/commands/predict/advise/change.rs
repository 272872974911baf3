//! One change that could be made.

use llmprof_predict::EfficiencyProfile;
use schemars::JsonSchema;
use serde::Serialize;

/// What sort of change it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
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

impl Code {
    /// As it is serialized.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CudaGraph => "cuda_graph",
            Self::Fusion => "fusion",
            Self::AttentionBackend => "attention_backend",
            Self::Batch => "batch",
            Self::KvDtype => "kv_dtype",
            Self::Weights => "weights",
            Self::TensorParallel => "tensor_parallel",
            Self::Device => "device",
            Self::KvHeads => "kv_heads",
            Self::HeadSize => "head_size",
            Self::Widths => "widths",
            Self::Experts => "experts",
        }
    }

    /// Whether it edits the model.
    pub(super) fn is_design(self) -> bool {
        matches!(
            self,
            Self::KvHeads | Self::HeadSize | Self::Widths | Self::Experts
        )
    }
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
