//! The sums of docs/plan.md, worked again from the files of models and devices, and beside predictions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use llmprof_predict::{EfficiencyProfile, parallel::ParallelModel};
use llmprof_theory::{
    Model, Precision, Sequences, Step, Workload,
    device::{Catalog, Device, Engine},
    parallel::Parallel,
};
use llmprof_units::DType;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plan.md");
    std::fs::read_to_string(path).unwrap()
}

fn model(name: &str) -> Model {
    let folder = env!("CARGO_MANIFEST_DIR");
    let path = format!("{folder}/../theory/tests/data/models/{name}.json");
    let text = std::fs::read_to_string(path).unwrap();
    Model::from_config(&serde_json::from_str(&text).unwrap(), None).unwrap()
}

fn device(name: &str) -> Device {
    Catalog::embedded().by_name(name).unwrap()
}

fn peak(device: &Device) -> f64 {
    let peak = device.dense_peak(DType::Bf16, Engine::Tensor).unwrap();
    peak.dense_flops_per_s.0
}

/// Weights ÷ bandwidth and FLOPs of a prompt ÷ peak, in ms, and both as predicted for vLLM.
fn times(model: &Model, device: &Device, tensor: u64, prompt: u64) -> [[f64; 2]; 2] {
    let weights = model.parameter_bytes(&Precision::default()) as f64;
    let ranks = tensor as f64;
    let flops = 2.0 * (weights / 2.0) * prompt as f64;
    let by_hand = [
        weights / (ranks * device.memory_bandwidth().0),
        flops / (ranks * peak(device)),
    ];
    let parallel = Parallel {
        tensor,
        ..Parallel::default()
    };
    let spread = ParallelModel::new(model, device, parallel).unwrap();
    let profile = EfficiencyProfile::embedded("vllm").unwrap();
    let predictor = spread.rank_predictor(device, &profile);
    let workload = Workload {
        parallel,
        ..Workload::default()
    };
    let seconds = |new, cached| {
        let one = Sequences {
            count: 1,
            new,
            cached,
        };
        let step = Step::of_sequences([one]);
        let time = spread.predict_step(&predictor, &workload, &step).unwrap();
        time.time_ns.seconds()
    };
    let predicted = [seconds(1, prompt), seconds(prompt, 0)];
    [by_hand, predicted].map(|times| times.map(|seconds| seconds * 1e3))
}

/// A step takes about as long as its sum by hand, which counts embeddings that a decode step does not read, or up to twice as long.
fn compare([by_hand, predicted]: [[f64; 2]; 2]) {
    for (by_hand, predicted) in by_hand.into_iter().zip(predicted) {
        assert!(
            (0.93..2.0).contains(&(predicted / by_hand)),
            "{by_hand} ms, {predicted} ms"
        );
    }
}

#[test]
fn llama_70b_on_two_h200() {
    let (page, model, h200) = (page(), model("llama3_1_70b"), device("h200"));
    let gb = model.parameter_bytes(&Precision::default()) as f64 / 1e9;
    let step_times = times(&model, &h200, 2, 1024);
    let [tpot, ttft] = step_times[0];
    let tflop = gb * 1024.0 / 1e3;
    for sum in [
        format!("{:.1} G parameters × 2 bytes = {gb:.1} GB", gb / 2.0),
        format!("{gb:.1} GB ÷ (2 × 4.8 TB/s) = {tpot:.1} ms"),
        format!("= {tflop:.0} TFLOP ÷ (2 × 989 TFLOP/s) = {ttft:.0} ms at peak"),
    ] {
        assert!(page.contains(&sum), "{sum}");
    }
    compare(step_times);
}

#[test]
fn llama_8b_on_three_devices() {
    let (page, model) = (page(), model("llama3_1_8b"));
    let gb = model.parameter_bytes(&Precision::default()) as f64 / 1e9;
    let of = |name: &str| times(&model, &device(name), 1, 512);
    let [l4, l40s, h100] = ["l4", "l40s", "h100_sxm"].map(of);
    for sum in [
        format!("{gb:.1} GB ÷ 0.3 TB/s = {:.1} ms on an L4", l4[0][0]),
        format!("{:.1} ms on an L40S (0.864 TB/s)", l40s[0][0]),
        format!("{:.1} ms on an H100 (3.35 TB/s)", h100[0][0]),
        format!("{:.1} ms at the peak of an H100", h100[0][1]),
        format!("{:.0} ms on an L40S (362 TFLOP/s)", l40s[0][1]),
    ] {
        assert!(page.contains(&sum), "{sum}");
    }
    for times in [l4, l40s, h100] {
        compare(times);
    }
}
