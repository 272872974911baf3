//! What a request says about recording CUDA with our own library.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Place, Plan, RuntimeType};

/// How a GPU is recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CuptiPlan {
    /// Whether it is; absent is where the model runs on a GPU.
    pub enable: Option<bool>,
    /// The share of time that recording may cost, as `0.02` or `2%`; absent records everything.
    #[serde(deserialize_with = "share")]
    pub overhead: Option<f64>,
    /// Whether CUPTI leaves the process while nothing is recorded.
    pub detach: bool,
    /// Whether every call of the CUDA API is recorded, not only those that launch or wait.
    pub all_calls: bool,
}

impl CuptiPlan {
    /// Whether a run has a pass that is recorded so.
    pub fn applies(&self, plan: &Plan) -> bool {
        let on_gpu = plan.device != Place::Cpu && is_recorded(plan.runtime.kind);
        self.enable.unwrap_or(on_gpu)
    }

    /// What is wrong with it.
    pub(super) fn mistakes(
        &self,
        plan: &Plan,
        wrong: &mut impl FnMut(&'static str, String, Option<&str>),
    ) {
        if self.enable == Some(true)
            && (plan.device == Place::Cpu || !is_recorded(plan.runtime.kind))
        {
            wrong(
                "pipeline.cupti.enable",
                "there is no CUDA program to record".to_owned(),
                Some("runtime=pytorch device=cuda:0, or `llmprof record` for any command"),
            );
        }
        if self
            .overhead
            .is_some_and(|share| !(share > 0.0 && share < 1.0))
        {
            wrong(
                "pipeline.cupti.overhead",
                "must be a share above 0 and below 1".to_owned(),
                Some("pipeline.cupti.overhead=0.02"),
            );
        }
    }
}

/// Whether a runtime is a program that may use CUDA.
fn is_recorded(kind: RuntimeType) -> bool {
    matches!(kind, RuntimeType::Pytorch | RuntimeType::Worker)
}

/// A share as a number, or as a text in percent.
fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Share {
        Number(f64),
        Text(String),
    }
    let number = match Option::<Share>::deserialize(deserializer)? {
        None => return Ok(None),
        Some(Share::Number(number)) => Some(number),
        Some(Share::Text(text)) => read_share(&text),
    };
    number
        .map(Some)
        .ok_or_else(|| D::Error::custom("expected a share such as 0.02 or 2%"))
}

/// A share as people write it: `0.02` or `2%`.
pub fn read_share(text: &str) -> Option<f64> {
    let (number, whole) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    number.trim().parse::<f64>().ok().map(|share| share / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_numbers_or_percent() {
        let read = |text: &str| serde_json::from_str::<CuptiPlan>(text).map(|plan| plan.overhead);
        let of = |value: &str| read(&format!(r#"{{"overhead":{value}}}"#));
        assert_eq!(of("0.02").unwrap(), Some(0.02));
        assert_eq!(of("\"2%\"").unwrap(), Some(0.02));
        assert_eq!(of("\"2.5 %\"").unwrap(), Some(0.025));
        assert_eq!((of("null").unwrap(), read("{}").unwrap()), (None, None));
        let error = of("\"much\"").unwrap_err().to_string();
        assert!(error.contains("0.02 or 2%"), "{error}");
    }
}
