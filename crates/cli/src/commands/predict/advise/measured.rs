//! `--try`: the best change that runs here, run in turns with the request.

use std::time::Duration;

use llmprof_report::compose::advise::{ChangeAdvice, Tried};

use super::Advisor;
use crate::{comparing, failure::Failure};

/// Rounds to begin with.
const ROUNDS: u64 = 3;

/// No further round starts after `time`.
pub(super) fn try_best(
    advisor: &Advisor<'_>,
    advice: &[ChangeAdvice],
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
    let throughput = comparison
        .metrics
        .iter()
        .find(|metric| metric.metric == "tokens_per_s");
    let (a, b) = (
        throughput.and_then(|throughput| throughput.a),
        throughput.and_then(|throughput| throughput.b),
    );
    Ok(Tried {
        overrides: best.overrides.clone(),
        predicted_speedup: best.speedup,
        measured_speedup: a.zip(b).map(|(a, b)| b / a),
        ci_low: throughput.and_then(|throughput| throughput.ci_low),
        ci_high: throughput.and_then(|throughput| throughput.ci_high),
        request_tokens_per_s: a,
        change_tokens_per_s: b,
        comparison: dir.display().to_string(),
    })
}
