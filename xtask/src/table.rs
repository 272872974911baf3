//! The small table of known errors that `llmprof predict` prints from.

use llmprof_predict::{EfficiencyProfile, Implementation, KnownError};

use crate::{DataSplit, Grade, GradeSummary, captured_grades, grades, summarize};

/// Errors on models that nothing was fitted to, by profile, of the profiles that such were measured with: GPU times, and TPOT where steps
/// are captured.
pub fn known_errors() -> Result<Vec<KnownError>, Box<dyn std::error::Error>> {
    let mut errors = Vec::new();
    for name in EfficiencyProfile::names() {
        let profile = EfficiencyProfile::embedded(name)?;
        let (what, all) = match profile.implementation {
            Some(Implementation::HfEager) => ("GPU times", grades(&profile)?),
            Some(Implementation::HfGraph | Implementation::TorchCompile) => {
                let captured = captured_grades(&profile)?;
                let both = [captured.gpu, captured.tpot].concat();
                ("GPU times and TPOT", both)
            }
            _ => continue,
        };
        let is_held_out =
            |grade: &&Grade| grade.split == DataSplit::Grading && !grade.by_common_keys;
        let held_out: Vec<&Grade> = all.iter().filter(is_held_out).collect();
        if let Some(summary) = summarize(&held_out) {
            errors.push(known_error(&profile, what, &summary));
        }
    }
    Ok(errors)
}

/// Shares to three digits: more would change with the last digit of a prediction.
fn known_error(profile: &EfficiencyProfile, what: &str, summary: &GradeSummary) -> KnownError {
    let round = |share: f64| (share * 1e3).round() / 1e3;
    let has_range = profile.spreads.is_some();
    KnownError {
        profile: profile.name.clone(),
        what: what.to_owned(),
        times: summary.times,
        median: round(summary.median),
        p90: round(summary.p90),
        worst: round(summary.worst),
        bias: round(summary.bias),
        coverage: has_range.then(|| round(summary.coverage)),
        half_width: has_range.then(|| round(summary.half_width)),
    }
}
