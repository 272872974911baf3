//! Memory of an engine against what vLLM printed when it started.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use llmprof_predict::{EfficiencyProfile, EngineLimits, EngineMemory, parallel::ParallelModel};
use llmprof_theory::{Model, WeightFormat, Workload, device::Device, parallel::Parallel};
use llmprof_units::Bytes;

use crate::support::{embedded_device, published_model};

fn tensor(ranks: u64) -> Parallel {
    Parallel {
        tensor: ranks,
        ..Parallel::default()
    }
}

fn memory(
    model: &Model,
    device: &Device,
    parallel: Parallel,
    limits: &EngineLimits,
) -> EngineMemory {
    let spread = ParallelModel::new(model, device, parallel).unwrap();
    let workload = Workload::default();
    spread.engine_memory(device, &workload, limits).unwrap().0
}

fn gib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / (1_u64 << 30) as f64
}

/// `vllm serve meta-llama/Meta-Llama-3-8B` on an H100, over one GPU and over two: 14.96 and 7.48 GiB of weights, 1.26 GiB of activations,
/// 71.29 GiB of 79.22 (vllm-project/vllm#10511).
#[test]
fn llama_on_an_h100_is_as_vllm_says() {
    let (llama, h100) = (published_model("llama3_1_8b"), embedded_device("h100_sxm"));
    for (ranks, weights) in [(1, 14.96), (2, 7.48)] {
        let engine_memory = memory(&llama, &h100, tensor(ranks), &EngineLimits::default());
        assert!(
            (gib(engine_memory.weights_bytes) / weights - 1.0).abs() < 0.005,
            "{engine_memory:?}"
        );
        assert!(
            (gib(engine_memory.activations_bytes) / 1.26 - 1.0).abs() < 0.05,
            "{engine_memory:?}"
        );
        assert!(
            (gib(engine_memory.budget_bytes.unwrap()) - 71.29).abs() < 0.05,
            "{engine_memory:?}"
        );
    }
}

/// 70.6 G parameters in 8 bits leave an H100 a few thousand tokens, and what `predict` says of a workload is what the engine has.
#[test]
fn llama_70b_in_fp8_fits_one_h100_with_short_prompts() {
    let (llama, h100) = (published_model("llama3_1_70b"), embedded_device("h100_sxm"));
    let profile = EfficiencyProfile::embedded("vllm").unwrap();
    let mut workload = Workload {
        batch: 1,
        new_tokens: 16,
        ..Workload::default()
    };
    workload.precision.weights = Some(WeightFormat::Fp8 {
        rows: 0,
        columns: 0,
    });
    for parallel in [tensor(1), tensor(2)] {
        let spread = ParallelModel::new(&llama, &h100, parallel).unwrap();
        let predictor = spread.rank_predictor(&h100, &profile);
        let mut verdicts = Vec::new();
        for prompt in [512, 4096, 16_384, 65_536] {
            let asked = Workload { prompt, ..workload };
            let prediction = spread
                .predict(&predictor, &asked)
                .unwrap()
                .prediction
                .memory;
            let limits = EngineLimits::default();
            let (engine, kv) = spread.engine_memory(&h100, &asked, &limits).unwrap();
            assert_eq!(
                (prediction.kv_bytes, prediction.fits),
                (kv, engine.fits(kv))
            );
            verdicts.push(prediction.fits.unwrap());
        }
        let expected = [true, true, parallel.tensor > 1, parallel.tensor > 1];
        assert_eq!(verdicts, expected, "{parallel:?}");
    }
}

/// CUDA graphs are captured beside the engine's share.
#[test]
fn an_engine_that_takes_everything_leaves_room_for_graphs() {
    let (llama, h100) = (published_model("llama3_1_8b"), embedded_device("h100_sxm"));
    let all = EngineLimits {
        gpu_memory_utilization: 1.0,
        ..EngineLimits::default()
    };
    let engine_memory = memory(&llama, &h100, tensor(1), &all);
    let left =
        gib(engine_memory.capacity_bytes.unwrap()) - gib(engine_memory.budget_bytes.unwrap());
    assert!((left - 0.73).abs() < 1e-6, "{left}");
    let more = EngineLimits {
        max_num_seqs: 1024,
        ..all
    };
    assert!(memory(&llama, &h100, tensor(1), &more).kv_bytes() < engine_memory.kv_bytes());
}
