//! `--try`: the best change that runs here, run in turns with the request.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Advice, Advisor};
use crate::{comparing, failure::Failure};

/// Rounds to begin with.
const ROUNDS: u64 = 3;

/// What was predicted of a change beside what was measured.
#[derive(Serialize, JsonSchema)]
pub(super) struct Tried {
    /// Overrides of the change.
    pub(super) overrides: Vec<String>,
    /// Predicted speedup of the change.
    pub(super) predicted_speedup: f64,
    /// Tokens per second of the change ÷ those of the request; absent where a run has none.
    pub(super) measured_speedup: Option<f64>,
    /// Of its 95 % interval, where both sides did the same work.
    pub(super) ci_low: Option<f64>,
    /// Upper end of the 95 % confidence interval of the measured speedup.
    pub(super) ci_high: Option<f64>,
    /// Tokens per second as measured.
    pub(super) request_tokens_per_s: Option<f64>,
    /// Measured output tokens per second with the change.
    pub(super) change_tokens_per_s: Option<f64>,
    /// Directory of the comparison.
    pub(super) comparison: String,
}

/// No further round starts after `time`.
pub(super) fn try_best(
    advisor: &Advisor<'_>,
    advice: &[Advice],
    time: Duration,
) -> Result<Tried, Failure> {
    let Some(best) = advice
        .iter()
        .find(|advice| advice.runs && advice.figures.fits != Some(false))
    else {
        let why = advice.iter().find_map(|advice| advice.refused.clone());
        return Err(Failure::new("`run` accepts none of the changes").hint(why));
    };
    let sides = [advisor.with(&[]), advisor.with(&best.overrides)];
    let (comparison, dir) = comparing::in_turns(&sides, ROUNDS, time)?;
    let found = comparison
        .metrics
        .iter()
        .find(|found| found.metric == "tokens_per_s");
    let (a, b) = (
        found.and_then(|found| found.a),
        found.and_then(|found| found.b),
    );
    Ok(Tried {
        overrides: best.overrides.clone(),
        predicted_speedup: best.speedup,
        measured_speedup: a.zip(b).map(|(a, b)| b / a),
        ci_low: found.and_then(|found| found.ci_low),
        ci_high: found.and_then(|found| found.ci_high),
        request_tokens_per_s: a,
        change_tokens_per_s: b,
        comparison: dir.display().to_string(),
    })
}
