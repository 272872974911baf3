//! Predictions: what they rest on, and how far off they are known to be.

use llmprof_theory::predict::{
    EfficiencyProfile, Implementation, Split, error_summary, fixture_comparison, grades, summarize,
};
use llmprof_units::Percent;

pub const TITLE: &str = "Predicted, not measured";

const UNQUANTIZED_KERNELS: &str = "This profile times the GEMMs of transformers in the dtype of activations: quantized weights change memory, not time. \
                                   `--efficiency vllm` has kernels that read quantized weights.";

/// How a time is predicted.
pub fn basis(profile: &EfficiencyProfile) -> &'static str {
    if profile.implementation.is_some() {
        "prediction: the kernels that the software launches, each timed from curves measured on an H200"
    } else {
        "prediction: roofline time ÷ efficiency + a fixed time per kernel"
    }
}

/// `quantized` says that weights are stored in fewer bits than the software calculates in.
pub fn notes(profile: &EfficiencyProfile, quantized: bool) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Basis: {}, with the efficiency profile `{}` ({}).",
            basis(profile),
            profile.name,
            profile.title
        ),
        format!("Known error: {}", profile.known_error),
    ];
    let in_transformers = matches!(
        profile.implementation,
        Some(Implementation::HfEager | Implementation::HfGraph)
    );
    if quantized && in_transformers {
        notes.push(UNQUANTIZED_KERNELS.to_owned());
    }
    notes.extend(checked(profile));
    notes
        .push("TTFT and TPOT include the host's launch time where it exceeds GPU time.".to_owned());
    notes.push(
        "Memory is weights and KV cache; activations and the runtime's own memory are not included."
            .to_owned(),
    );
    notes
}

/// The error where it was measured.
fn checked(profile: &EfficiencyProfile) -> Option<String> {
    // What was measured ran in eager mode.
    if profile.implementation == Some(Implementation::HfEager) {
        let all = grades(profile).ok()?;
        let held_out: Vec<_> = all
            .iter()
            .filter(|grade| grade.split == Split::Grading && !grade.by_common_keys)
            .collect();
        let summary = summarize(&held_out)?;
        return Some(format!(
            "Checked on {} GPU times of models that nothing was fitted to (H200, eager): median |error| {}, 90th percentile {}; \
             {} of them lie in their 90 % interval (docs/prediction.md).",
            summary.times,
            Percent(summary.median),
            Percent(summary.p90),
            Percent(summary.coverage)
        ));
    }
    let summary = error_summary(&fixture_comparison(profile))?;
    Some(format!(
        "Compared with {} GPU times of eager mode (three models on an H200): mean difference {}, largest {:+.1} % ({}).",
        summary.figures,
        Percent(summary.mean),
        summary.worst * 100.0,
        summary.worst_at
    ))
}
