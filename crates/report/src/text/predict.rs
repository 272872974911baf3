//! Predictions: what they rest on, and how far off they are known to be.

use llmprof_theory::predict::{
    EfficiencyProfile, Implementation, error_summary, fixture_comparison, held_out,
};
use llmprof_units::Percent;

pub const TITLE: &str = "Predicted, not measured";

const UNQUANTIZED_KERNELS: &str = "This profile times the GEMMs of transformers in the dtype of activations: quantized weights and KV caches change memory, not time, \
                                   and such times have no intervals. `--efficiency vllm` has kernels that read quantized weights.";
const COMPILED_KERNELS: &str = "Quantized weights and KV caches were not measured with this profile: such times have no intervals. `--efficiency vllm` has measured kernels for them.";

/// How a time is predicted.
pub fn basis(profile: &EfficiencyProfile) -> &'static str {
    if profile.implementation.is_some() {
        "prediction: the kernels that the software launches, each timed from curves measured on an H200"
    } else {
        "prediction: roofline time ÷ efficiency + a fixed time per kernel"
    }
}

/// `quantized` says that weights or a KV cache are in formats that the software was not measured with.
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
    if quantized {
        let note = match profile.implementation {
            Some(Implementation::TorchCompile) => COMPILED_KERNELS,
            _ => UNQUANTIZED_KERNELS,
        };
        notes.push(note.to_owned());
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
    if let Some(summary) = held_out(profile) {
        let what = match profile.implementation {
            Some(Implementation::HfEager) => "GPU times",
            _ => "GPU times and TPOT",
        };
        return Some(format!(
            "Checked on {} {what} of models that nothing was fitted to (H200): median |error| {}, 90th percentile {}; \
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
