//! A model over several devices: what ranks hold, compute and say, against sums done by hand.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use llmprof_predict::{
    EfficiencyProfile, PredictError, Prediction, Predictor,
    parallel::{Collectives, ParallelModel},
};
use llmprof_theory::{
    Kind, Model, Pass, Workload, WorkloadError,
    device::Device,
    parallel::{Exchange, Operation, Parallel, list_exchanges, rank_model},
    roofline::Resource,
};
use proptest::prelude::*;

use crate::support::{embedded_device, published_model};

fn tensor(ranks: u64) -> Parallel {
    Parallel {
        tensor: ranks,
        ..Parallel::default()
    }
}

fn h200() -> Device {
    embedded_device("h200")
}

fn predicted(model: &Model, parallel: Parallel, workload: &Workload) -> Prediction {
    let (device, profile) = (h200(), EfficiencyProfile::embedded("fused").unwrap());
    let spread = ParallelModel::new(model, &device, parallel).unwrap();
    let predictor = spread.rank_predictor(&device, &profile);
    spread.predict(&predictor, workload).unwrap().prediction
}

/// Qwen3.5-27B over four ranks, all of whose heads divide: what is whole are its tower, two norms a layer and a last one, norms of queries and keys in 16 layers and of
/// values in 48.
#[test]
fn gated_delta_layers_are_divided_by_heads() {
    let whole = published_model("qwen3_5_27b");
    let tensors = whole.checkpoint_tensors();
    let tower = tensors
        .iter()
        .filter(|tensor| tensor.name.starts_with("model.visual."));
    let tower: u64 = tower.map(|tensor| tensor.shape.elements()).sum();
    let shared = tower + norms(&whole) + 16 * 2 * 256 + 48 * 128;
    let rank = rank_model(&whole, &tensor(4)).unwrap();
    assert_eq!(
        (rank.parameter_count() - shared) * 4,
        whole.parameter_count() - shared
    );
    let workload = Workload {
        batch: 3,
        ..Workload::default()
    };
    for tokens in [0, 1000] {
        assert_eq!(
            rank.kv_cache_bytes(&workload, tokens) * 4,
            whole.kv_cache_bytes(&workload, tokens)
        );
    }
    let flops = |model: &Model| {
        let pass = model.decode_step(&workload);
        let by_kind = |kind| {
            let mut flops = 0;
            model.lower_pass(&workload, &pass, &mut |operator| {
                if operator.kind == kind {
                    flops += operator.vector.flops * u64::from(operator.layers);
                }
            });
            flops
        };
        [Kind::DeltaRule, Kind::Conv1d].map(by_kind)
    };
    assert_eq!(flops(&rank).map(|part| part * 4), flops(&whole));
    // One all-reduce after each mixer and each feed-forward part, for every kind of mixer.
    let pass = Pass::decode_steps(3, 10, 1);
    let exchanges = list_exchanges(&rank, &tensor(4), &workload, &pass);
    let sums = exchanges
        .iter()
        .find(|one| one.operation == Operation::AllReduce);
    assert_eq!(sums.unwrap().count, 2 * 64 + 1);
}

#[test]
fn heads_of_gated_delta_layers_are_not_repeated() {
    // 16 key heads and 64 value heads; the two KV heads of attention are on 16 ranks each.
    let whole = published_model("qwen3_5_397b_a17b");
    assert!(rank_model(&whole, &tensor(16)).is_ok());
    let error = rank_model(&whole, &tensor(32)).unwrap_err().to_string();
    assert!(
        error.contains("key heads of gated delta layers (16)"),
        "{error}"
    );
}

/// States count as what a device has to hold, once, and not with what a step writes.
#[test]
fn a_rank_holds_its_share_of_the_states() {
    let whole = published_model("qwen3_5_27b");
    let workload = Workload {
        batch: 7,
        prompt: 500,
        new_tokens: 100,
        ..Workload::default()
    };
    let one = predicted(&whole, tensor(1), &workload).memory.kv_bytes.0;
    assert_eq!(one, whole.kv_cache_bytes(&workload, 500 + 99));
    let four = predicted(&whole, tensor(4), &workload).memory.kv_bytes.0;
    assert_eq!(four * 4, one);
}

/// Parameters of the norms, which every rank has whole: 2 a layer and a last one, of the model's width.
fn norms(model: &Model) -> u64 {
    let decoder = model.decoder.as_ref().unwrap();
    (2 * u64::from(decoder.layer_count()) + 1) * decoder.hidden
}

#[test]
fn ranks_hold_the_whole_model_and_the_norms_each() {
    for name in ["llama3_1_8b", "llama3_1_70b", "mistral_7b"] {
        let whole = published_model(name);
        for ranks in [2, 4, 8] {
            let rank = rank_model(&whole, &tensor(ranks)).unwrap();
            let norms = norms(&whole);
            assert_eq!(
                (rank.parameter_count() - norms) * ranks,
                whole.parameter_count() - norms,
                "{name} {ranks}"
            );
        }
    }
}

fn tensor_flops(model: &Model, pass: &Pass) -> u64 {
    let mut total = 0;
    model.lower_pass(&Workload::default(), pass, &mut |operator| {
        total += operator.tensor.flops * u64::from(operator.layers);
    });
    total
}

fn kv_bytes(model: &Model, pass: &Pass) -> u64 {
    let mut total = 0;
    model.lower_pass(&Workload::default(), pass, &mut |operator| {
        total +=
            (operator.traffic.kv_read + operator.traffic.kv_write) * u64::from(operator.layers);
    });
    total
}

#[test]
fn ranks_share_the_work_and_the_cache() {
    let pass = Pass::decode_steps(4, 1000, 1);
    for name in ["llama3_1_8b", "gpt_oss_120b", "qwen2_5_7b"] {
        let whole = published_model(name);
        for ranks in [2, 4] {
            let rank = rank_model(&whole, &tensor(ranks)).unwrap();
            // Routers are whole on every rank.
            let share = tensor_flops(&rank, &pass) as f64 * ranks as f64
                / tensor_flops(&whole, &pass) as f64;
            assert!((1.0..1.02).contains(&share), "{name} {ranks}: {share}");
            assert_eq!(
                kv_bytes(&rank, &pass) * ranks,
                kv_bytes(&whole, &pass),
                "{name}"
            );
        }
    }
    // Eight key heads over 16 ranks: each is on two of them.
    let whole = published_model("llama3_1_70b");
    let rank = rank_model(&whole, &tensor(16)).unwrap();
    assert_eq!(kv_bytes(&rank, &pass) * 8, kv_bytes(&whole, &pass));
    // A latent cannot be divided.
    let whole = published_model("deepseek_v3");
    let rank = rank_model(&whole, &tensor(8)).unwrap();
    assert_eq!(kv_bytes(&rank, &pass), kv_bytes(&whole, &pass));
}

#[test]
fn what_does_not_divide_is_refused() {
    let qwen = published_model("qwen2_5_7b");
    let error = rank_model(&qwen, &tensor(8)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`parallel.tensor` is 8, but must be a divisor of the model's attention heads (28)"
    );
    let device = h200();
    for (parallel, key) in [
        (tensor(0), "tensor"),
        (
            Parallel {
                expert: 3,
                tensor: 4,
                ..Parallel::default()
            },
            "expert",
        ),
        (
            Parallel {
                expert: 8,
                tensor: 2,
                data: 2,
                ..Parallel::default()
            },
            "expert",
        ),
        (
            Parallel {
                pipeline: 1 << 40,
                ..Parallel::default()
            },
            "pipeline",
        ),
    ] {
        let error = ParallelModel::new(&qwen, &device, parallel).unwrap_err();
        assert!(
            matches!(error, WorkloadError::Parallel { key: refused, .. } if refused == key),
            "{error}"
        );
    }
    // Two nodes: the tables end at one.
    let llama = published_model("llama3_1_70b");
    let spread = ParallelModel::new(&llama, &device, tensor(16)).unwrap();
    let profile = EfficiencyProfile::embedded("fused").unwrap();
    let predictor: Predictor<'_> = spread.rank_predictor(&device, &profile);
    let error = spread
        .predict(&predictor, &Workload::default())
        .unwrap_err();
    assert!(
        matches!(
            error,
            PredictError::Workload(WorkloadError::Parallel { .. })
        ),
        "{error}"
    );
    let cpu = embedded_device("xeon_8480");
    assert!(ParallelModel::new(&llama, &cpu, tensor(2)).is_err() || !cpu.interconnects.is_empty());
}

/// Llama 3.1 8B, 32 layers of width 4096, vocabulary 128256, bf16: a decode step of 4 sequences over 8 ranks.
#[test]
fn collectives_of_a_step_by_hand() {
    let whole = published_model("llama3_1_8b");
    let parallel = tensor(8);
    let rank = rank_model(&whole, &parallel).unwrap();
    let exchanges = list_exchanges(
        &rank,
        &parallel,
        &Workload::default(),
        &Pass::decode_steps(4, 100, 1),
    );
    let expected = [
        Exchange {
            operation: Operation::AllReduce,
            ranks: 8,
            bytes: 4 * 4096 * 2,
            count: 2 * 32 + 1,
        },
        Exchange {
            operation: Operation::AllGather,
            ranks: 8,
            bytes: 4 * 128_256 * 2,
            count: 1,
        },
    ];
    assert_eq!(exchanges, expected);
    let collectives = Collectives::for_device(&h200()).unwrap();
    let by_hand: f64 = expected
        .iter()
        .map(|e| collectives.seconds(e.operation, e.ranks, e.bytes).unwrap() * e.count as f64)
        .sum();
    let workload = Workload {
        batch: 4,
        prompt: 100,
        new_tokens: 2,
        ..Workload::default()
    };
    let (device, profile) = (h200(), EfficiencyProfile::embedded("fused").unwrap());
    let spread = ParallelModel::new(&whole, &device, parallel).unwrap();
    let prediction = spread
        .predict(&spread.rank_predictor(&device, &profile), &workload)
        .unwrap();
    let step = prediction.decode_step_communication_ns.seconds();
    assert!((step - by_hand).abs() < 2e-9, "{step} {by_hand}");
    let alone = Predictor::new(&rank, &device, &profile)
        .predict(&workload)
        .unwrap();
    let sum = alone.decode_step.device_ns.seconds() + by_hand;
    assert!((prediction.prediction.tpot_ns.unwrap().seconds() - sum).abs() < 5e-9);
    assert_eq!(prediction.ranks, 8);
}

#[test]
fn experts_across_data_parallel_ranks_go_by_all_to_all() {
    let whole = published_model("mixtral_8x7b");
    let parallel = Parallel {
        data: 4,
        expert: 4,
        ..Parallel::default()
    };
    let workload = Workload {
        batch: 8,
        ..Workload::default()
    };
    let exchanges = list_exchanges(&whole, &parallel, &workload, &Pass::decode_steps(2, 100, 1));
    // Two tokens a rank, two experts each, there and back in 32 layers.
    let expected = Exchange {
        operation: Operation::AllToAll,
        ranks: 4,
        bytes: 2 * 2 * 4096 * 2,
        count: 64,
    };
    assert_eq!(exchanges, [expected]);
    let one = predicted(&whole, Parallel::default(), &workload);
    let four = predicted(&whole, parallel, &workload);
    // 8 experts of 3 × 4096 × 14336 in 32 layers, two bytes each, less three quarters of them.
    let experts = 32 * 8 * 3 * 4096 * 14_336 * 2;
    assert_eq!(
        one.memory.weights_bytes.0 - four.memory.weights_bytes.0,
        experts / 4 * 3
    );
    assert_eq!(one.memory.kv_bytes.0, four.memory.kv_bytes.0 * 4);
    let apart = Parallel {
        data: 4,
        ..Parallel::default()
    };
    let replicas = predicted(&whole, apart, &workload);
    assert_eq!(replicas.memory.weights_bytes, one.memory.weights_bytes);
    let small = Workload {
        batch: 2,
        ..workload
    };
    let alone = predicted(&whole, Parallel::default(), &small);
    assert_eq!(replicas.tpot_ns, alone.tpot_ns);
    assert!((replicas.tokens_per_s / alone.tokens_per_s - 4.0).abs() < 1e-9);
}

#[test]
fn more_ranks_are_faster_and_fit() {
    let llama = published_model("llama3_1_70b");
    let workload = Workload {
        batch: 8,
        prompt: 1024,
        ..Workload::default()
    };
    let predictions: Vec<Prediction> = [1, 2, 4, 8]
        .map(|n| predicted(&llama, tensor(n), &workload))
        .into();
    for pair in predictions.windows(2) {
        assert!(pair[1].tpot_ns < pair[0].tpot_ns && pair[1].ttft_ns < pair[0].ttft_ns);
        assert!(pair[1].memory.needed_bytes < pair[0].memory.needed_bytes);
    }
    // 70.6 G parameters of two bytes: 141.1 GB do not fit 90 % of 150.8 GB, 70.6 GB do.
    assert_eq!(predictions[0].memory.fits, Some(false));
    assert_eq!(predictions[1].memory.fits, Some(true));
}

/// A prefill takes at least as long as the host needs to launch its kernels; communication hides behind that.
#[test]
fn prefill_waits_for_the_host_that_launches_its_kernels() {
    let deepseek = published_model("deepseek_v3");
    let (device, mut profile) = (h200(), EfficiencyProfile::embedded("trtllm").unwrap());
    profile.host_us_per_kernel.as_mut().unwrap().value = 100.0;
    let spread = ParallelModel::new(&deepseek, &device, tensor(8)).unwrap();
    let predictor = spread.rank_predictor(&device, &profile);
    let of = |prompt: u64, chunk: Option<u64>| {
        let workload = Workload {
            prompt,
            chunk,
            ..Workload::default()
        };
        spread.predict(&predictor, &workload).unwrap().prediction
    };
    let short = of(512, None);
    assert!(
        (2000..2400).contains(&short.prefill.kernels),
        "61 layers of about 36 kernels: {}",
        short.prefill.kernels
    );
    assert_eq!(short.ttft_ns.0 as u64, short.prefill.kernels * 100_000);
    assert_eq!(short.prefill.host_ns, Some(short.ttft_ns));
    assert_eq!(short.prefill.binds, Resource::Host);
    assert!(short.prefill.device_ns < short.ttft_ns);
    // Each chunk is launched.
    let chunked = of(512, Some(256)).ttft_ns.seconds() / short.ttft_ns.seconds();
    assert!((1.95..2.1).contains(&chunked), "{chunked}");
    let long = of(65_536, None);
    assert_eq!(long.ttft_ns, long.prefill.device_ns);
    assert_ne!(long.prefill.binds, Resource::Host);
    // Decode steps are captured.
    assert_eq!(short.decode_step.host_ns, None);
}

#[test]
fn stages_halve_memory_and_not_latency() {
    let llama = published_model("llama3_1_8b");
    let workload = Workload {
        batch: 8,
        prompt: 512,
        ..Workload::default()
    };
    let one = predicted(&llama, Parallel::default(), &workload);
    let parallel = Parallel {
        pipeline: 2,
        ..Parallel::default()
    };
    let two = predicted(&llama, parallel, &workload);
    assert_eq!(two.memory.kv_bytes.0 * 2, one.memory.kv_bytes.0);
    // Half of the layers, and the embedding (or the head, of the same size) of two.
    let ends = 128_256 * 4096 * 2;
    let expected = (one.memory.weights_bytes.0 - 2 * ends) / 2 + ends;
    assert!(two.memory.weights_bytes.0.abs_diff(expected) <= 2 * 4096 * 2);
    // Each token goes through all stages, with half of the batch.
    let half = Workload {
        batch: 4,
        ..workload
    };
    let traverse = predicted(&llama, Parallel::default(), &half);
    assert!(two.tpot_ns.unwrap() > traverse.tpot_ns.unwrap());
    assert!(two.tpot_ns.unwrap().seconds() < traverse.tpot_ns.unwrap().seconds() + 50e-6);
    // Two parts in two stages: three stages of time.
    let ratio = two.ttft_ns.seconds() / traverse.ttft_ns.seconds();
    assert!((1.5..1.55).contains(&ratio), "{ratio}");
}

proptest! {
    #[test]
    fn one_device_is_the_predictor_itself(
        batch in 1_u64..64,
        prompt in 1_u64..4096,
        new_tokens in 1_u64..64,
        profile in prop::sample::select(vec!["hf_eager", "hf_graph", "vllm", "trtllm"]),
    ) {
        let whole = published_model("qwen2_5_0_5b");
        let workload = Workload { batch, prompt, new_tokens, ..Workload::default() };
        let (device, profile) = (h200(), EfficiencyProfile::embedded(profile).unwrap());
        let spread = ParallelModel::new(&whole, &device, Parallel::default()).unwrap();
        let prediction = spread.predict(&spread.rank_predictor(&device, &profile), &workload).unwrap().prediction;
        let plain = Predictor::new(&whole, &device, &profile).predict(&workload).unwrap();
        prop_assert_eq!(prediction.ttft_ns, plain.ttft_ns);
        prop_assert_eq!(prediction.tpot_ns, plain.tpot_ns);
        prop_assert_eq!(prediction.memory, plain.memory);
    }
}
