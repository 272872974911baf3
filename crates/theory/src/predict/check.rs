//! The error of a prediction where the truth is known.

use llmprof_units::Nanos;
use serde::Serialize;
use serde_json::json;

use super::{EfficiencyProfile, Predictor};
use crate::{Model, Workload, device::Catalog};

/// Device time of one decode step after a prompt of 128 tokens, and of the prefill of those: sums over the kernels of a
/// Kineto trace on an H200 (torch 2.11, transformers 5.17, eager, SDPA, bf16, batch 1, Qwen2.5-0.5B's shape with random
/// weights).
const DECODE_STEP: Nanos = Nanos(2_049_643);
const PREFILL: Nanos = Nanos(2_694_063);

/// A predicted time beside a measured one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What was measured.
    pub what: &'static str,
    /// The least time that any software needs.
    pub floor_ns: Nanos,
    /// What the profile predicts for the device.
    pub predicted_ns: Nanos,
    /// What was measured.
    pub measured_ns: Nanos,
    /// Predicted ÷ measured − 1.
    pub error: f64,
}

/// What `profile` predicts for the two figures of the H200 trace. Only profiles of eager mode describe what ran there;
/// for others the difference is a statement about fusion, not an error.
pub fn fixture_comparison(profile: &EfficiencyProfile) -> Vec<Comparison> {
    let Some((model, device)) = fixture() else {
        return Vec::new();
    };
    let workload = Workload {
        prompt: 128,
        new_tokens: 2,
        ..Workload::default()
    };
    let predictor = Predictor::new(&model, &device, profile, false);
    let Ok(prediction) = predictor.predict(&workload) else {
        return Vec::new();
    };
    [
        (
            "decode step at 128 tokens, Qwen2.5-0.5B, H200",
            prediction.decode_step,
            DECODE_STEP,
        ),
        (
            "prefill of 128 tokens, Qwen2.5-0.5B, H200",
            prediction.prefill,
            PREFILL,
        ),
    ]
    .map(|(what, phase, measured_ns)| Comparison {
        what,
        floor_ns: phase.floor_ns,
        predicted_ns: phase.device_ns,
        measured_ns,
        error: phase.device_ns.seconds() / measured_ns.seconds() - 1.0,
    })
    .into()
}

fn fixture() -> Option<(Model, crate::device::Device)> {
    let config = json!({
        "model_type": "qwen2",
        "hidden_size": 896,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "intermediate_size": 4864,
        "vocab_size": 151_936,
        "tie_word_embeddings": true,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
        "max_position_embeddings": 32768,
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
    });
    let model = Model::from_config(&config, None).ok()?;
    Some((model, Catalog::embedded().by_name("h200").ok()?))
}
