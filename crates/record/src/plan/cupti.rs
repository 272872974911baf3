//! What a request says about recording CUDA with our own library.

use llmprof_units::Share;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Plan, RuntimeType};

/// How a GPU is recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CuptiPlan {
    /// Whether it is; absent is where the model runs on a GPU and Nsight Systems does not record the timeline.
    pub enable: Option<bool>,
    /// The share of time that recording may cost; absent records everything.
    pub overhead: Option<Share>,
    /// Whether CUPTI detaches while nothing is recorded.
    pub detach: bool,
    /// Whether every call of the CUDA API is recorded, not only those that launch or wait.
    pub all_calls: bool,
}

impl CuptiPlan {
    /// Whether a run has a pass that is recorded so.
    pub fn applies(&self, plan: &Plan) -> bool {
        let on_gpu =
            plan.device.is_cuda() && is_recorded(plan.runtime.kind) && plan.hardware.ranks == 1;
        let is_recorded_by_nsys = plan.pipeline.nsys.is_enabled() && self.overhead.is_none();
        self.enable.unwrap_or(on_gpu && !is_recorded_by_nsys)
    }

    /// What is wrong with it.
    pub(super) fn mistakes(
        &self,
        plan: &Plan,
        wrong: &mut impl FnMut(&'static str, String, Option<&str>),
    ) {
        if self.enable == Some(true) && (!plan.device.is_cuda() || !is_recorded(plan.runtime.kind))
        {
            wrong(
                "pipeline.cupti.enable",
                "there is no CUDA program to record".to_owned(),
                Some("runtime=pytorch device=cuda:0, or `llmprof record` for any command"),
            );
        }
    }
}

/// Whether a runtime is a program that may use CUDA.
fn is_recorded(kind: RuntimeType) -> bool {
    matches!(kind, RuntimeType::Pytorch | RuntimeType::Worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_a_share_or_absent() {
        let read = |text: &str| serde_json::from_str::<CuptiPlan>(text).map(|plan| plan.overhead);
        let of = |value: &str| read(&format!(r#"{{"overhead":{value}}}"#));
        let share: Share = "2%".parse().unwrap();
        assert_eq!(of("0.02").unwrap(), Some(share));
        assert_eq!(of("\"2%\"").unwrap(), Some(share));
        assert_eq!((of("null").unwrap(), read("{}").unwrap()), (None, None));
        let error = of("\"much\"").unwrap_err().to_string();
        assert!(error.contains("2% or 0.02"), "{error}");
    }
}
