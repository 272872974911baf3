//! Predicted latency of a model on a device.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::{Answer, AnswerBody};

const POINTS_MAX: usize = 12;

/// Predictions, one for each point of the sweep; the keys of a point are those of `llmprof predict --format json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictAnswer {
    /// `predicted`: nothing here was measured.
    pub basis: String,
    /// The software that is assumed.
    pub efficiencies: String,
    /// Error on models that were held out.
    pub known_error: String,
    /// Points in all.
    pub count: usize,
    /// Predictions, one for each point of the sweep.
    pub points: Vec<Map<String, Value>>,
    /// What the predictions rest on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl AnswerBody for PredictAnswer {
    const NAME: &'static str = "predict";
    const CUT: &'static [&'static str] = &["points", "notes"];
}

/// The answer about a grid as `llmprof predict --format json` prints it.
pub fn predict_answer(grid: &Value) -> Answer<PredictAnswer> {
    let text = |key: &str| grid[key].as_str().unwrap_or_default().to_owned();
    let list = |key: &str| grid[key].as_array().cloned().unwrap_or_default();
    let points = list("points");
    let known = |point: &Value| -> Map<String, Value> {
        let keys = point.as_object().into_iter().flatten();
        let keys = keys.filter(|(_, value)| !value.is_null());
        keys.map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let failed = points.iter().find_map(|point| point["error"].as_str());
    let failed = failed.map(str::to_owned);
    let notes = list("notes");
    let notes = notes.iter().filter_map(Value::as_str).map(str::to_owned);
    let mut answer = Answer::new(
        None,
        PredictAnswer {
            basis: text("basis"),
            efficiencies: text("efficiencies"),
            known_error: text("known_error"),
            count: points.len(),
            points: points.iter().take(POINTS_MAX).map(known).collect(),
            notes: notes.collect(),
        },
    );
    let hidden = points.len().saturating_sub(POINTS_MAX) as u64;
    if hidden > 0 {
        answer.left_off.insert("points".to_owned(), hidden);
    }
    answer.abstained.extend(failed);
    answer
}
