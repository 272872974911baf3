//! Kernels by way of the worker: measured on a CPU with small sizes, and traced on the meta device.

use llmprof_capture::{
    process::Interrupt,
    pytorch::{KernelWorker, measured_device, measured_source},
    runner::{
        Problem,
        protocol::{FailureKind, Measure, Trace},
    },
};
use llmprof_theory::{
    device::schema::DeviceFile,
    kernels::{Access, Kernel, KernelClass, TracedStep},
};
use serde_json::{Value, json};

use super::support::python;

fn start() -> (KernelWorker, Interrupt) {
    let python = python();
    let mut interrupt = Interrupt::install().unwrap();
    let worker = KernelWorker::start(&python, &mut interrupt).unwrap();
    (worker, interrupt)
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn kernels_of_a_cpu_become_a_device_file() {
    let (mut worker, mut interrupt) = start();
    let request = Measure {
        device: "cpu".to_owned(),
        seconds: 300.0,
        full: false,
    };
    let mut told = 0;
    let measured = worker
        .measure_kernels(&request, &mut interrupt, &mut |_| told += 1)
        .unwrap();
    assert!(told > 0);
    assert_eq!((measured.name.as_str(), measured.skipped), ("cpu", 0));
    assert!(measured.failed.is_empty(), "{:?}", measured.failed);
    assert!(measured.samples.iter().any(|sample| sample.in_model));
    assert!(measured.launches.host_ns > 0.0 && measured.copies["device"] > 0.0);
    let classes: std::collections::BTreeSet<KernelClass> = measured
        .samples
        .iter()
        .map(|sample| sample.kernel.class())
        .collect();
    for class in KernelClass::ALL {
        // Grouped GEMMs are for GPUs.
        assert_eq!(classes.contains(&class), class != KernelClass::GroupedGemm);
    }

    let file = measured_device(&measured, None, "2026-01-01T00:00:00Z");
    // What is written is read again.
    let text = serde_json::to_string(&file).unwrap();
    let read = DeviceFile::parse_text(&text, "cpu.yaml").unwrap();
    let device = read.to_device("cpu.yaml").unwrap();
    assert!(device.memory_bandwidth().0 > 0.0);
    assert!(measured_source(&measured).contains("on cpu with torch"));

    // Time that is up leaves kernels out, and a GPU that is not there is an error with its reason.
    let none = Measure {
        seconds: 0.0,
        ..request.clone()
    };
    let measured = worker
        .measure_kernels(&none, &mut interrupt, &mut |_| ())
        .unwrap();
    assert!(
        measured.samples.is_empty() && measured.skipped > 100,
        "{}",
        measured.skipped
    );
    let gpu = Measure {
        device: "cuda:7".to_owned(),
        ..request
    };
    let error = worker
        .measure_kernels(&gpu, &mut interrupt, &mut |_| ())
        .unwrap_err();
    match error.problem {
        Problem::Failed(failure) => assert!(
            matches!(failure.kind, FailureKind::Missing | FailureKind::BadRequest),
            "{failure:?}"
        ),
        other => panic!("{other}"),
    }
    worker.finish(&mut interrupt).unwrap();
}

fn design(text: &Value) -> serde_json::Map<String, Value> {
    text.as_object().unwrap().clone()
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn models_without_a_family_are_traced() {
    let (mut worker, mut interrupt) = start();
    let mamba2 = json!({"model_type": "mamba2", "hidden_size": 64, "num_heads": 8, "head_dim": 16, "state_size": 16,
        "num_hidden_layers": 2, "vocab_size": 128, "n_groups": 1, "expand": 2, "chunk_size": 16});
    let t5 = json!({"model_type": "t5", "d_model": 64, "d_kv": 16, "num_heads": 4, "d_ff": 128, "num_layers": 2, "vocab_size": 128,
        "decoder_start_token_id": 0});
    let hybrid = json!({"model_type": "falcon_h1", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 128, "mamba_d_ssm": 64, "mamba_n_heads": 4,
        "mamba_d_head": 16, "mamba_d_state": 16, "mamba_chunk_size": 16});
    for (config, parameters) in [(&mamba2, 72_752), (&t5, 173_056), (&hybrid, 120_600)] {
        let request = Trace {
            config: design(config),
            dtype: None,
            attn_implementation: None,
            batch: 2,
            prompt: 32,
            contexts: vec![32, 48],
        };
        let traced = worker.trace_model(&request, &mut interrupt).unwrap();
        assert_eq!(traced.parameters, parameters, "{config}");
        assert_eq!(traced.weight_bytes.0, 2 * parameters);
        assert!(traced.cache_bytes.0 > 0);
        assert!(traced.prefill.matrix_flops() > traced.decode[0].matrix_flops());
        assert!(traced.decode.iter().all(|step| step.launch_count() > 50));
        assert!(traced.decode[1].min_traffic_bytes() >= traced.decode[0].min_traffic_bytes());
        let gemms = traced.prefill.kernels.iter();
        assert!(
            gemms
                .clone()
                .any(|one| matches!(one.kernel, Kernel::Gemm { .. }))
        );
    }
    let unknown = Trace {
        config: design(&json!({"model_type": "no_such_model"})),
        dtype: None,
        attn_implementation: None,
        batch: 1,
        prompt: 8,
        contexts: vec![8],
    };
    let error = worker.trace_model(&unknown, &mut interrupt).unwrap_err();
    assert!(error.to_string().contains("no_such_model"), "{error}");
    let empty = Trace {
        batch: 0,
        ..unknown
    };
    let error = worker.trace_model(&empty, &mut interrupt).unwrap_err();
    assert!(error.to_string().contains("must be positive"), "{error}");
    worker.finish(&mut interrupt).unwrap();
}

/// Launches of a step that go through memory in such a way.
fn launches(step: &TracedStep, wanted: Access) -> u64 {
    let of = step
        .kernels
        .iter()
        .filter(|one| matches!(one.kernel, Kernel::Stream { access, .. } if access == wanted));
    of.map(|one| one.launches).sum()
}

fn attention(step: &TracedStep) -> u64 {
    let fused = |kernel: &Kernel| matches!(kernel, Kernel::Attention { .. });
    let of = step.kernels.iter().filter(|one| fused(&one.kernel));
    of.map(|one| one.launches).sum()
}

/// What blind models showed: kernels that a trace left out or took for others.
#[test]
#[ignore = "live: needs torch and transformers"]
fn traces_tell_kernels_apart_that_take_different_times() {
    let (mut worker, mut interrupt) = start();
    let mut trace = |config: Value, chosen: Option<&str>| {
        let request = Trace {
            config: design(&config),
            dtype: None,
            attn_implementation: chosen.map(str::to_owned),
            batch: 2,
            prompt: 64,
            contexts: vec![64],
        };
        worker.trace_model(&request, &mut interrupt).unwrap()
    };
    let llama = json!({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 4, "intermediate_size": 128, "vocab_size": 128});
    let fused = trace(llama.clone(), None).prefill;
    let apart = trace(llama.clone(), Some("eager")).prefill;
    assert_eq!((attention(&fused), attention(&apart)), (2, 0));
    assert_eq!(launches(&apart, Access::Softmax), 2);

    let mut odd = llama;
    odd["head_dim"] = json!(20);
    let odd = trace(odd, None);
    assert_eq!(attention(&odd.prefill), 2);
    // Queries, keys and values of both layers are cleared and copied, and the result is cut out.
    let cleared = launches(&odd.prefill, Access::Fill) - launches(&fused, Access::Fill);
    assert_eq!(cleared, 6);
    // Tokens of 40 bytes are joined to the cache as a copy.
    assert!(launches(&odd.decode[0], Access::Copy) >= 4);
    assert_eq!(launches(&odd.decode[0], Access::Append), 0);

    let delta = trace(
        json!({"model_type": "qwen3_5_text", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 16, "intermediate_size": 128, "vocab_size": 128, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
            "linear_key_head_dim": 16, "linear_value_head_dim": 16}),
        None,
    );
    // Three of four layers solve two triangular systems each and convolve their inputs.
    assert_eq!(launches(&delta.prefill, Access::Solve), 6);
    assert_eq!(launches(&delta.prefill, Access::Depthwise), 3);

    let rwkv = trace(
        json!({"model_type": "rwkv", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128}),
        None,
    );
    // States in 32 bits meet parameters in 16.
    assert!(launches(&rwkv.decode[0], Access::Cast) > 4);
    worker.finish(&mut interrupt).unwrap();
}

/// Code that goes through the experts one by one asks a device which of them were chosen.
#[test]
#[ignore = "live: needs torch and transformers"]
fn loops_over_experts_are_traced_with_uniform_routing() {
    let (mut worker, mut interrupt) = start();
    let dbrx = json!({"model_type": "dbrx", "d_model": 64, "n_heads": 4, "n_layers": 1, "max_seq_len": 128, "vocab_size": 128,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0}, "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 64}});
    let jetmoe = json!({"model_type": "jetmoe", "hidden_size": 64, "num_hidden_layers": 1, "num_key_value_heads": 2, "kv_channels": 16,
        "intermediate_size": 96, "vocab_size": 128, "num_local_experts": 4, "num_experts_per_tok": 2});
    for (config, depth) in [(dbrx, 96.0), (jetmoe, 96.0)] {
        let request = Trace {
            config: design(&config),
            dtype: None,
            attn_implementation: None,
            batch: 1,
            prompt: 64,
            contexts: vec![64],
        };
        let traced = worker.trace_model(&request, &mut interrupt).unwrap();
        let down = |step: &TracedStep| {
            let rows = step.kernels.iter().filter_map(|one| match one.kernel {
                Kernel::Gemm { m, k, .. } if k == depth => Some(m * one.launches as f64),
                _ => None,
            });
            rows.sum::<f64>()
        };
        // Two experts for each token, whoever they are.
        assert_eq!(down(&traced.prefill), 128.0, "{config}");
        assert_eq!(down(&traced.decode[0]), 2.0, "{config}");
    }
    worker.finish(&mut interrupt).unwrap();
}
