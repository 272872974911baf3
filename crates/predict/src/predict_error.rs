//! Why something cannot be predicted.

use llmprof_theory::{WorkloadError, device::MissingPeak};
use thiserror::Error;

/// Reasons why a prediction is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PredictError {
    /// The device states no rate in a format that the workload computes in.
    #[error(transparent)]
    MissingPeak(#[from] MissingPeak),
    /// The workload cannot be run on the model.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// Kernels are costed one by one on GPUs alone, and traced as eager mode runs them.
    #[error(
        "a model that no family knows is predicted from its traced kernels: for a GPU, with the profile hf_eager"
    )]
    NeedsKernels,
    /// A run that predictions should start from is no run of what is predicted.
    #[error("the run takes {times:.3} times as long as predicted in {phase}")]
    RunTooFar { times: f64, phase: &'static str },
    /// Transformers launches kernels of gated delta layers that only a trace shows.
    #[error(
        "what transformers launches for gated delta layers is known from a trace alone: hf_eager predicts it where runtime.python names a Python with torch and transformers; vllm, sglang, trtllm and fused need no trace"
    )]
    NeedsTrace,
}
