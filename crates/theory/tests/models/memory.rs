//! Memory: caches worked by hand, and the peak against torch's allocator on an H200.

use std::path::PathBuf;

use crate::support::published;
use llmprof_theory::{Logits, MlaDecode, Precision, WeightFormat, Workload};
use llmprof_units::DType;
use serde_json::Value;

/// Live bytes at the worst moment of the recorded allocations (prefill of 128 tokens with all logits, one decode step),
/// weights apart: the running sum of allocations and frees in the allocator's own trace of the same process.
const TRACED_PEAK: u64 = 40_786_440;

#[test]
fn the_peak_is_what_torch_allocated() {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/h200/memory_stats.json");
    let stats: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let model = published("qwen2_5_0_5b");
    let workload = Workload {
        prompt: 128,
        new_tokens: 2,
        logits: Logits::All,
        ..Workload::default()
    };
    let memory = model.count_memory(&workload).unwrap();
    let moving = memory.kv_cache + memory.activations_peak;
    let error = moving as f64 / TRACED_PEAK as f64 - 1.0;
    assert!(error.abs() < 0.005, "{moving} bytes, {error:+.4}");
    // What stays allocated at the end is weights, cuBLAS's 32 MiB and the allocator's rounding.
    let current = stats["allocated_bytes.all.current"].as_u64().unwrap();
    let rest = current - memory.weights - (32 << 20);
    assert!((rest as f64) < 0.01 * memory.weights as f64, "{rest}");
    let peak = stats["allocated_bytes.all.peak"].as_u64().unwrap();
    assert!(memory.total_bytes() < peak);
}

#[test]
fn windows_bound_the_cache() {
    let workload = Workload {
        batch: 3,
        ..Workload::default()
    };
    // Mistral: 2 × 8 heads × 128 × 2 bytes in 32 layers; 4096 tokens at most.
    let mistral = published("mistral_7b");
    let token = 2 * 8 * 128 * 2 * 32 * 3;
    assert_eq!(mistral.kv_cache_bytes(&workload, 100), 100 * token);
    assert_eq!(mistral.kv_cache_bytes(&workload, 4096), 4096 * token);
    assert_eq!(mistral.kv_cache_bytes(&workload, 50_000), 4096 * token);
    // Gemma 3 1B: 4 of 26 layers see everything, 22 see 512; 2 × 1 head × 256 × 2 bytes.
    let gemma = published("gemma3_1b");
    let expected = (4 * 10_000 + 22 * 512) * 2 * 256 * 2 * 3;
    assert_eq!(gemma.kv_cache_bytes(&workload, 10_000), expected);
}

#[test]
fn latent_caches_hold_what_their_mode_says() {
    let model = published("deepseek_v3");
    let bytes = |mla| {
        let workload = Workload {
            mla,
            ..Workload::default()
        };
        model.kv_cache_bytes(&workload, 1)
    };
    assert_eq!(bytes(MlaDecode::Absorbed), 61 * 576 * 2);
    assert_eq!(bytes(MlaDecode::Expanded), 61 * 576 * 2);
    assert_eq!(bytes(MlaDecode::Naive), 61 * 128 * (192 + 128) * 2);
    let fp8 = Workload {
        precision: Precision {
            kv: Some(DType::F8E4m3),
            ..Precision::default()
        },
        ..Workload::default()
    };
    assert_eq!(model.kv_cache_bytes(&fp8, 1), 61 * 576);
}

#[test]
fn published_checkpoints_have_their_published_size() {
    // gpt-oss-20b in mxfp4 is 12.8 GiB on the hub, gpt-oss-120b 60.8 GiB.
    let bytes = |name| published(name).parameter_bytes(&Precision::default()) as f64;
    let gib = f64::from(1 << 30);
    assert!((bytes("gpt_oss_20b") / gib - 12.8).abs() < 0.05);
    assert!((bytes("gpt_oss_120b") / gib - 60.8).abs() < 0.05);
    // DeepSeek-V3: fp8 everywhere but embeddings, head, norms and gates.
    let v3 = bytes("deepseek_v3") / published("deepseek_v3").parameter_count() as f64;
    assert!((1.0..1.01).contains(&v3), "{v3} bytes a parameter");
    let awq = Precision {
        weights: Some(WeightFormat::AWQ),
        ..Precision::default()
    };
    let llama = published("llama3_1_8b");
    let ratio =
        llama.parameter_bytes(&awq) as f64 / llama.parameter_bytes(&Precision::default()) as f64;
    // The published AWQ checkpoint of Llama 3.1 8B is 5.73 GB of 16.06.
    assert!((ratio - 5.73 / 16.06).abs() < 0.01, "{ratio}");
}

#[test]
fn the_largest_batch_and_context_just_fit() {
    let model = published("llama3_1_8b");
    let workload = Workload {
        prompt: 2048,
        new_tokens: 512,
        ..Workload::default()
    };
    let device = 80_000_000_000;
    let batch = model.largest_batch(&workload, device).unwrap();
    let total = |batch| {
        model
            .count_memory(&Workload { batch, ..workload })
            .unwrap()
            .total_bytes()
    };
    assert!(total(batch) <= device && total(batch + 1) > device);
    let context = model.largest_context(&workload, device).unwrap();
    let sequence_tokens = 2048 + 511;
    let total = |cached| {
        model
            .count_memory(&Workload { cached, ..workload })
            .unwrap()
            .total_bytes()
    };
    assert!(
        total(context - sequence_tokens) <= device && total(context - sequence_tokens + 1) > device
    );
    assert_eq!(model.largest_batch(&workload, 1_000_000), None);
    assert_eq!(model.largest_context(&workload, 1_000_000), None);
}
