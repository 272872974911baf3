//! Direct inference: every sample of the dataset once, without profilers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Plan, RuntimeType, StagePlan};

/// The stage and what it leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DirectInferencePlan {
    /// Whether the stage runs.
    pub enable: bool,
    /// What is written of predictions.
    pub output: DirectOutputPlan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DirectOutputPlan {
    /// Text and token ids of every sample; times are kept in any case.
    pub prediction: StagePlan,
    /// Boxes of grounded text drawn on the images of the dataset.
    pub visualization: StagePlan,
}

impl Default for DirectOutputPlan {
    fn default() -> Self {
        let on = StagePlan { enable: true };
        Self {
            prediction: on,
            visualization: on,
        }
    }
}

/// What stands against running a request as direct inference.
pub(super) fn mistakes(plan: &Plan, wrong: &mut impl FnMut(&'static str, String, Option<&str>)) {
    let direct = &plan.pipeline.direct_inference;
    if !direct.enable {
        return;
    }
    let runs = matches!(
        plan.runtime.kind,
        RuntimeType::Native | RuntimeType::Pytorch | RuntimeType::Worker
    );
    if !runs {
        wrong(
            "pipeline.direct_inference.enable",
            "direct inference needs a runtime that runs the model itself".to_owned(),
            Some("runtime=native, runtime=pytorch or runtime=worker"),
        );
    }
    let profilers = [
        (
            "pipeline.cupti.enable",
            plan.pipeline.cupti.enable == Some(true),
        ),
        (
            "pipeline.torch_profiler.enable",
            plan.pipeline.torch_profiler.enable == Some(true),
        ),
        ("pipeline.nsys.enable", plan.pipeline.nsys.is_enabled()),
        ("pipeline.ncu.enable", plan.pipeline.ncu.is_enabled()),
        (
            "pipeline.cublas_log.enable",
            plan.pipeline.cublas_log.enable,
        ),
    ];
    for (key, is_on) in profilers {
        if is_on {
            wrong(
                key,
                "direct inference runs without profilers".to_owned(),
                Some("pipeline.direct_inference.enable=false profiles; it keeps predictions too"),
            );
        }
    }
    if direct.output.visualization.enable && !direct.output.prediction.enable {
        wrong(
            "pipeline.direct_inference.output.visualization.enable",
            "boxes are drawn from predictions, which are off".to_owned(),
            Some("pipeline.direct_inference.output.prediction.enable=true"),
        );
    }
}
