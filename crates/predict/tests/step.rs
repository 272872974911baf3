//! Steps of any sequences: equal to what a workload is predicted to take where it is made of them, and to sums over their sequences.

use llmprof_predict::{EfficiencyProfile, Predictor};
use llmprof_theory::{Part, Sequences, Step, Workload};
use llmprof_units::Nanos;
use proptest::prelude::*;

use crate::support::{embedded_device, published_model};

fn sequences(count: u64, new: u64, cached: u64) -> Sequences {
    Sequences { count, new, cached }
}

#[test]
fn a_workload_takes_what_its_steps_take() {
    let workload = Workload {
        batch: 4,
        prompt: 700,
        new_tokens: 2,
        ..Workload::default()
    };
    for (name, device_name, profile) in [
        ("llama3_1_8b", "h200", "vllm"),
        ("qwen3_30b_a3b", "h200", "hf_eager"),
        ("gemma2_9b", "h100_sxm", "sglang"),
        ("deepseek_v3", "b200", "trtllm"),
        ("qwen3_next_80b_a3b", "h200", "vllm"),
        ("qwen2_5_0_5b", "xeon_8480", "native"),
        ("llama3_1_8b", "tpu_v5p", "fused"),
    ] {
        let (model, device) = (published_model(name), embedded_device(device_name));
        let profile = EfficiencyProfile::embedded(profile).unwrap();
        let predictor = Predictor::new(&model, &device, &profile);
        let whole = predictor.predict(&workload).unwrap();
        let step = |part| predictor.predict_step(&workload, &part).unwrap();
        let prefill = step(Step::all_prefill(Part::Groups(vec![sequences(4, 700, 0)])));
        let decode = step(Step::all_decode(Part::Groups(vec![sequences(4, 1, 700)])));
        let near = |one: Nanos, other: Nanos| (one - other).0.abs() <= 1;
        assert!(near(prefill.time_ns, whole.prefill.time_ns), "{name}");
        assert!(near(prefill.device_ns, whole.prefill.device_ns), "{name}");
        assert!(near(decode.time_ns, whole.decode_step.time_ns), "{name}");
        assert_eq!(decode.kernels, whole.decode_step.kernels, "{name}");
        assert_eq!(prefill.range, whole.ttft_interval, "{name}");
    }
}

/// Half of the sequences see a window of 4,096 keys, half see their 100: an equal batch of the mean context would see 2,098 each.
#[test]
fn sequences_of_different_lengths_do_not_stand_as_equal_ones() {
    let (model, h200) = (published_model("gemma2_9b"), embedded_device("h200"));
    let profile = EfficiencyProfile::embedded("vllm").unwrap();
    let predictor = Predictor::new(&model, &h200, &profile);
    let time = |groups: Vec<Sequences>| {
        let step = Step::all_decode(Part::Groups(groups));
        predictor
            .predict_step(&Workload::default(), &step)
            .unwrap()
            .device_ns
    };
    let different = time(vec![sequences(32, 1, 100), sequences(32, 1, 30_000)]);
    let equal = time(vec![sequences(64, 1, 15_050)]);
    // Layers with a window read half as many keys of the short sequences.
    assert!(different < equal, "{different} {equal}");
}

/// A static KV cache holds the sequences of the step, not those of the workload.
#[test]
fn a_static_cache_is_as_long_as_the_sequences_need() {
    let (model, h200) = (published_model("llama3_1_8b"), embedded_device("h200"));
    for name in ["hf_graph", "torch_compile"] {
        let profile = EfficiencyProfile::embedded(name).unwrap();
        let predictor = Predictor::new(&model, &h200, &profile);
        let time = |prompt: u64| {
            let asked = Workload {
                prompt,
                new_tokens: 2,
                ..Workload::default()
            };
            let step = Step::all_decode(Part::Groups(vec![sequences(8, 1, 4000)]));
            predictor.predict_step(&asked, &step).unwrap().device_ns
        };
        assert_eq!(time(16), time(4000), "{name}");
        assert!(time(8000) > time(4000), "{name}");
    }
}

#[test]
fn a_mixed_step_costs_more_than_its_prompt_and_less_than_both_apart() {
    let (model, h200) = (published_model("llama3_1_8b"), embedded_device("h200"));
    let profile = EfficiencyProfile::embedded("vllm").unwrap();
    let predictor = Predictor::new(&model, &h200, &profile);
    let time = |groups: Vec<Sequences>| {
        let step = Step::of_sequences(groups);
        predictor.predict_step(&Workload::default(), &step).unwrap()
    };
    let (prompt, decode) = (sequences(1, 1024, 0), sequences(64, 1, 2000));
    let [alone, decoding] = [prompt, decode].map(|group| time(vec![group]).device_ns);
    let mixed = time(vec![prompt, decode]);
    assert!(alone < mixed.device_ns && mixed.device_ns < alone + decoding);
    // No step that mixes the two was ever measured by itself.
    assert_eq!(mixed.range, None);
}

proptest! {
    /// How sequences are grouped does not matter.
    #[test]
    fn equal_sequences_may_be_listed_apart(count in 1u64..40, other in 1u64..40, cached in 1u64..5000) {
        let (model, h200) = (published_model("llama3_1_8b"), embedded_device("h200"));
        let profile = EfficiencyProfile::embedded("vllm").unwrap();
        let predictor = Predictor::new(&model, &h200, &profile);
        let time = |groups: Vec<Sequences>| {
            let step = Step::all_decode(Part::Groups(groups));
            predictor.predict_step(&Workload::default(), &step).unwrap().device_ns.0
        };
        let together = time(vec![sequences(count + other, 1, cached)]);
        let apart = time(vec![sequences(count, 1, cached), sequences(other, 1, cached)]);
        prop_assert!((together - apart).abs() <= 2, "{} {}", together, apart);
    }
}
