//! Kernels that serving engines launch, counted in public traces (`fixtures/public`) and predicted.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{io::Read, path::Path};

use flate2::read::GzDecoder;
use llmprof_predict::{EfficiencyProfile, Prediction, Predictor, parallel::ParallelModel};
use llmprof_theory::{Workload, parallel::Parallel};
use serde_json::Value;

use crate::support::{embedded_device, published_model};

/// Kernels of a trace, copies and fills not among them.
fn recorded(folder: &str) -> f64 {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/public");
    let file = std::fs::File::open(root.join(folder).join("trace.json.gz")).unwrap();
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let kernels = events.iter().filter(|event| event["cat"] == "kernel");
    kernels.count() as f64
}

fn predicted(name: &str, engine: &str, batch: u64, prompt: u64) -> Prediction {
    let device = embedded_device("mi300x");
    let profile = EfficiencyProfile::embedded(engine).unwrap();
    let model = published_model(name);
    let workload = Workload {
        batch,
        prompt,
        new_tokens: 2,
        ..Workload::default()
    };
    let predictor = Predictor::new(&model, &device, &profile);
    predictor.predict(&workload).unwrap()
}

/// gpt-oss-20b: 17 kernels a layer, of which 9 route tokens to experts and back. Qwen3-8B: 14; each of queries and keys is copied before its norm, which is not predicted. Qwen3-30B-A3B: 16
/// in a decode step; the rotation writes the KV cache, attention is two kernels.
#[test]
fn launches_are_those_of_public_traces() {
    for (folder, kernels) in [
        (
            "vllm_piecewise_mi300",
            predicted("gpt_oss_20b", "vllm", 1, 1024).prefill.kernels,
        ),
        (
            "sglang_mi300",
            predicted("qwen3_8b", "sglang", 15, 1024).prefill.kernels,
        ),
        (
            "sglang_decode_qwen3_30b_mi300",
            predicted("qwen3_30b_a3b", "sglang", 16, 1024)
                .decode_step
                .kernels,
        ),
    ] {
        let ratio = kernels as f64 / recorded(folder);
        assert!((0.8..1.2).contains(&ratio), "{folder}: {kernels}, {ratio}");
    }
}

/// The host launches collectives too: two a layer.
#[test]
fn the_host_launches_collectives() {
    let (model, device) = (published_model("qwen3_8b"), embedded_device("h200"));
    let profile = EfficiencyProfile::embedded("sglang").unwrap();
    let workload = Workload {
        prompt: 64,
        ..Workload::default()
    };
    let prefill = |tensor| {
        let parallel = Parallel {
            tensor,
            ..Parallel::default()
        };
        let spread = ParallelModel::new(&model, &device, parallel).unwrap();
        let predictor = spread.rank_predictor(&device, &profile);
        spread
            .predict(&predictor, &workload)
            .unwrap()
            .prediction
            .prefill
    };
    let (one, two) = (prefill(1), prefill(2));
    // One after the embedding, and a gather of the logits.
    assert_eq!(two.kernels, one.kernels + 2 * 36 + 2);
    let each = profile.host_us_per_kernel.unwrap().value * 1e-6;
    let host = two.host_ns.unwrap().seconds();
    assert!((host - two.kernels as f64 * each).abs() < 1e-9, "{host}");
    assert_eq!(two.time_ns, two.host_ns.unwrap());
}

/// vLLM replays short prompts from CUDA graphs: the host holds back only those beyond.
#[test]
fn captured_prompts_have_no_host_time() {
    let short = predicted("qwen3_8b", "vllm", 1, 512).prefill;
    let long = predicted("qwen3_8b", "vllm", 1, 513).prefill;
    assert_eq!(short.host_ns, None);
    assert!(long.host_ns.is_some());
    assert!(short.time_ns > short.device_ns);
}
