//! Predictions: what they rest on, and how far off they are known to be.

use llmprof_theory::predict::{EfficiencyProfile, error_summary, fixture_comparison};
use llmprof_units::Percent;

pub const TITLE: &str = "Predicted, not measured";

/// How a time is predicted.
pub const BASIS: &str = "prediction: roofline time ÷ efficiency + a fixed time per kernel";

pub fn notes(profile: &EfficiencyProfile) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Basis: {BASIS}, with the efficiencies `{}` ({}).",
            profile.name, profile.title
        ),
        format!("Known error: {}", profile.known_error),
    ];
    if let Some(summary) = error_summary(&fixture_comparison(profile)) {
        notes.push(format!(
            "Checked on {} GPU times that no efficiency was fitted to (three models on an H200, eager): mean |error| {}, worst {:+.1} % \
             ({}).",
            summary.figures,
            Percent(summary.mean),
            summary.worst * 100.0,
            summary.worst_at
        ));
    }
    notes
        .push("TTFT and TPOT include the host's launch time where it exceeds GPU time.".to_owned());
    notes.push(
        "Memory is weights and KV cache; activations and the runtime's own memory are not included."
            .to_owned(),
    );
    notes
}
