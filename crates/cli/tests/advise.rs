//! `llmprof predict --advise` and `--try`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{collections::BTreeSet, fs};

use serde_json::Value;

fn advised(args: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<&str> = ["predict", "--advise", "--format=json"]
        .iter()
        .chain(args)
        .copied()
        .collect();
    serde_json::from_str(&common::works(folder.path(), &all)).unwrap()
}

fn overrides(advice: &Value) -> Vec<&str> {
    let lines = advice["overrides"].as_array().unwrap();
    lines.iter().map(|line| line.as_str().unwrap()).collect()
}

fn codes(advised: &Value) -> BTreeSet<&str> {
    let advice = advised["advice"].as_array().unwrap();
    advice
        .iter()
        .map(|one| one["code"].as_str().unwrap())
        .collect()
}

/// Every override is one that `config` composes, and that `run` accepts where the advice says so; the prediction is what `predict`
/// says of it.
#[test]
fn advice_is_what_config_run_and_predict_say() {
    let folder = tempfile::tempdir().unwrap();
    let base = [
        "model=llama3_1_8b",
        "hardware.spec=h100_sxm",
        "--efficiency=fused",
        "runtime.batch_size=4",
        "workload.prompt_tokens=2048",
    ];
    let result = advised(&base);
    let advice = result["advice"].as_array().unwrap();
    assert!(advice.len() > 8, "{result}");
    let speedups: Vec<f64> = advice
        .iter()
        .filter(|one| one["figures"]["fits"] != Value::Bool(false))
        .map(|one| one["speedup"].as_f64().unwrap())
        .collect();
    assert!(speedups.is_sorted_by(|a, b| a >= b), "{speedups:?}");
    let request = base.iter().filter(|word| !word.starts_with("--"));
    let request: Vec<&str> = request.copied().collect();
    for one in advice {
        let lines = overrides(one);
        let all: Vec<&str> = ["config"]
            .iter()
            .chain(&request)
            .chain(&lines)
            .copied()
            .collect();
        common::works(folder.path(), &all);
        let all: Vec<&str> = ["run", "--cfg=job"]
            .iter()
            .chain(&request)
            .chain(&lines)
            .copied()
            .collect();
        common::works(folder.path(), &all);
        let all: Vec<&str> = ["predict", "--format=json"]
            .iter()
            .chain(&base)
            .chain(&lines)
            .copied()
            .collect();
        let predicted: Value = serde_json::from_str(&common::works(folder.path(), &all)).unwrap();
        assert_eq!(
            predicted["points"][0]["ttft_ns"], one["figures"]["ttft_ns"],
            "{lines:?}"
        );
    }
    let codes = codes(&result);
    for code in [
        "batch",
        "weights",
        "kv_dtype",
        "tensor_parallel",
        "device",
        "kv_heads",
    ] {
        assert!(codes.contains(code), "{code}: {codes:?}");
    }
}

/// A batch of the workload that is stated by itself hides that of the runtime.
#[test]
fn a_larger_batch_is_advised_whichever_key_states_it() {
    let speedup = |key: &str| {
        let batch = format!("{key}=4");
        let result = advised(&[
            "model=llama3_1_8b",
            "hardware.spec=h100_sxm",
            "--efficiency=fused",
            &batch,
        ]);
        let advice = result["advice"].as_array().unwrap();
        let one = advice.iter().find(|one| one["code"] == "batch").unwrap();
        one["speedup"].as_f64().unwrap()
    };
    let runtime = speedup("runtime.batch_size");
    assert!(runtime > 1.5, "{runtime}");
    assert_eq!(runtime, speedup("workload.batch_size"));
}

/// Where the host is the slower one, less work of the device gains nothing; graphs and compilation do, in decode.
#[test]
fn a_host_bound_request_is_told_to_launch_less() {
    let base = [
        "model=llama3_1_8b",
        "hardware.spec=h100_sxm",
        "runtime=pytorch",
        "device=cuda:0",
    ];
    let result = advised(&base);
    let codes = codes(&result);
    assert!(
        codes.contains("cuda_graph") && codes.contains("fusion"),
        "{codes:?}"
    );
    assert!(!codes.contains("weights"), "{codes:?}");
    for one in result["advice"].as_array().unwrap() {
        if one["code"] == "cuda_graph" {
            // Prefill writes into a static cache, by a few kernels more.
            let ttft = |of: &Value| of["ttft_ns"].as_f64().unwrap();
            let ratio = ttft(&one["figures"]) / ttft(&result["request"]);
            assert!((1.0..1.15).contains(&ratio), "{ratio}");
            assert_eq!(one["runs"], true);
        }
    }
}

/// A prediction is made without a GPU; the overrides of a CUDA graph name the one that it needs.
#[test]
fn a_cuda_graph_is_advised_with_the_device_that_it_needs() {
    let base = [
        "model=llama3_1_8b",
        "hardware.spec=h100_sxm",
        "runtime=pytorch",
    ];
    let result = advised(&base);
    for (code, line) in [
        ("cuda_graph", "runtime.cuda_graph=true"),
        ("fusion", "runtime.compile=reduce-overhead"),
    ] {
        let advice = result["advice"].as_array().unwrap();
        let one = advice.iter().find(|one| one["code"] == code).unwrap();
        assert_eq!(overrides(one), ["device=cuda:0", line]);
        assert_eq!(one["runs"], true, "{one}");
    }
}

#[test]
fn design_edits_keep_the_parameters() {
    for model in ["llama3_1_8b", "qwen2_5_7b", "qwen3_30b_a3b", "mixtral_8x7b"] {
        let result = advised(&[
            &format!("model={model}"),
            "hardware.spec=h200",
            "--efficiency=fused",
            "runtime.batch_size=16",
            "workload.prompt_tokens=4096",
        ]);
        let wanted = result["request"]["parameters"].as_f64().unwrap();
        let mut edits = 0;
        for one in result["advice"].as_array().unwrap() {
            if overrides(one).iter().any(|line| line.contains("model.")) {
                edits += 1;
                let parameters = one["figures"]["parameters"].as_f64().unwrap();
                assert!((parameters / wanted - 1.0).abs() <= 0.01, "{model}: {one}");
            }
        }
        assert!(edits > 0, "{model}");
    }
}

#[test]
fn what_run_refuses_is_said_with_its_reason() {
    let result = advised(&["model=qwen2_5_0_5b", "hardware.spec=xeon_8480"]);
    let advice = result["advice"].as_array().unwrap();
    // The native engine quantizes: fewer bits are fewer bytes.
    let weights: Vec<_> = advice
        .iter()
        .filter(|one| one["code"] == "weights")
        .collect();
    let lines: Vec<_> = weights.iter().flat_map(|one| overrides(one)).collect();
    assert_eq!(
        lines,
        ["workload.weights=int4_g128", "workload.weights=int8"]
    );
    assert!(weights.iter().all(|one| one["runs"] == true), "{weights:?}");
    let other = advised(&[
        "model=llama3_1_8b",
        "hardware.spec=h200",
        "runtime=vllm",
        "--efficiency=fused",
    ]);
    // A server needs the model's directory, which nobody named; a run has one device besides.
    let reason = |code: &str| {
        let advice = other["advice"].as_array().unwrap();
        let refused = advice.iter().find(|one| one["code"] == code).unwrap();
        assert_eq!(refused["runs"], false, "{refused}");
        refused["refused"].as_str().unwrap().to_owned()
    };
    let needs = "a server needs the model's directory";
    assert!(reason("batch").contains(needs));
    assert!(!reason("batch").contains("one device"));
    let split = reason("tensor_parallel");
    assert!(split.contains(needs) && split.contains("a run is on one device"));
    let batch = advice.iter().find(|one| one["code"] == "batch").unwrap();
    assert_eq!(batch["runs"], true);
    let folder = tempfile::tempdir().unwrap();
    let said = common::refused(
        folder.path(),
        &[
            "predict",
            "--advise",
            "hardware.spec=h200",
            "runtime.batch_size=1,2",
        ],
    );
    assert!(said.contains("one request"), "{said}");
    let said = common::refused(
        folder.path(),
        &["predict", "--advise", "hardware.spec=h200", "--format=csv"],
    );
    assert!(said.contains("table or JSON"), "{said}");
}

/// From two ranks on, more are considered; what misses a target comes after what meets it; the same prediction is one row.
#[test]
fn targets_ranks_and_equal_changes() {
    let base = [
        "model=llama3_1_8b",
        "hardware.spec=h100_sxm",
        "--efficiency=vllm",
        "parallel.tensor=2",
        "workload.prompt_tokens=2048",
    ];
    let result = advised(&base);
    let advice = result["advice"].as_array().unwrap();
    let ranks: BTreeSet<&str> = advice
        .iter()
        .filter(|one| one["code"] == "tensor_parallel")
        .flat_map(overrides)
        .collect();
    let expected = ["parallel.tensor=4", "parallel.tensor=8"];
    assert_eq!(ranks, BTreeSet::from(expected));
    for (index, one) in advice.iter().enumerate() {
        let same = |other: &&Value| {
            (&other["code"], &other["figures"], &other["runs"])
                == (&one["code"], &one["figures"], &one["runs"])
        };
        assert_eq!(advice[index..].iter().filter(same).count(), 1, "{one}");
    }
    // Between what the request takes and what four times its batch takes.
    let ttft_ms = result["request"]["ttft_ns"].as_f64().unwrap() / 1e6;
    let target = format!("--ttft={:.3}ms", ttft_ms * 1.5);
    let words: Vec<&str> = base.into_iter().chain([target.as_str()]).collect();
    let result = advised(&words);
    let fitting = result["advice"].as_array().unwrap().iter();
    let fitting = fitting.filter(|one| one["figures"]["fits"] != Value::Bool(false));
    let meets: Vec<bool> = fitting
        .map(|one| one["meets_target"].as_bool().unwrap())
        .collect();
    assert!(meets.contains(&true) && meets.contains(&false), "{meets:?}");
    assert!(meets.is_sorted_by(|a, b| a >= b), "{meets:?}");
    let folder = tempfile::tempdir().unwrap();
    let words: Vec<&str> = ["predict", "--advise"].into_iter().chain(words).collect();
    let text = common::works(folder.path(), &words);
    assert!(
        text.contains("as long)") && text.contains("MEETS TARGET"),
        "{text}"
    );
}

const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 100, "tie_word_embeddings": false, "eos_token_id": 2}"#;

#[test]
fn the_best_change_is_tried_in_turns() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.json"), TINY).unwrap();
    let words = [
        "predict",
        "--try",
        "--time=5s",
        "--format=json",
        "--efficiency=ideal",
        "model=local",
        "model.config=tiny.json",
        "model.dtype=f32",
        "workload.prompt_tokens=8",
        "infer.max_new_tokens=4",
        "hardware.spec=xeon_8480",
    ];
    let result: Value = serde_json::from_str(&common::works(folder.path(), &words)).unwrap();
    let tried = &result["tried"];
    assert!(
        tried["predicted_speedup"].as_f64().unwrap() > 1.0,
        "{tried}"
    );
    assert!(tried["measured_speedup"].as_f64().unwrap() > 0.0, "{tried}");
    let comparison = folder.path().join(tried["comparison"].as_str().unwrap());
    assert!(comparison.join("compare.json").is_file());
    let sides = fs::read_to_string(comparison.join("sides.txt")).unwrap();
    assert!(
        overrides(tried).iter().all(|line| sides.contains(line)),
        "{sides}"
    );
}

/// A change of the weights' format alone, tried on the native engine and compared with the request.
#[test]
fn quantized_weights_run_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.json"), TINY).unwrap();
    let base = "model=local model.config=tiny.json model.dtype=f32 workload.prompt_tokens=8 infer.max_new_tokens=4 hardware.spec=xeon_8480";
    let words: Vec<&str> = ["run"].into_iter().chain(base.split(' ')).collect();
    // Two layers of 128 × 64 weights: 4 bytes a row, or 2 for each 32 inputs, beside the integers.
    for (format, expected) in [
        ("int8", 2 * (8192 + 128 * 4)),
        ("int8_g32", 2 * (8192 + 256 * 2)),
        ("int4_g32", 2 * (4096 + 256 * 2)),
    ] {
        let weights = format!("workload.weights={format}");
        let out = format!("hydra.run.dir={format}");
        let all: Vec<&str> = words
            .iter()
            .copied()
            .chain([weights.as_str(), &out])
            .collect();
        common::works(folder.path(), &all);
        let operators = folder.path().join(format).join("operators.csv");
        let operators = fs::read_to_string(operators).unwrap();
        let gate = operators
            .lines()
            .find(|line| line.starts_with("prefill,model.layers.*.mlp.gate_proj,"))
            .unwrap();
        let bytes: u64 = gate.split(',').nth(8).unwrap().parse().unwrap();
        assert_eq!(bytes, expected, "{gate}");
    }
    for format in ["awq", "int4_g16", "int8_g48"] {
        let weights = format!("workload.weights={format}");
        let refused: Vec<&str> = words.iter().copied().chain([weights.as_str()]).collect();
        let said = common::refused(folder.path(), &refused);
        assert!(said.contains("int8, int8_gN or int4_gN"), "{said}");
    }
}

/// The host is the same with and without the change, and a batch gains at most its factor.
#[test]
fn a_larger_batch_gains_at_most_its_factor() {
    for device in ["device=cuda:0", "runtime.cuda_graph=true"] {
        let result = advised(&[
            "model=qwen2_5_7b",
            "hardware.spec=h200",
            "runtime=pytorch",
            "device=cuda:0",
            device,
        ]);
        let advice = result["advice"].as_array().unwrap();
        let batches: Vec<&Value> = advice.iter().filter(|one| one["code"] == "batch").collect();
        assert_eq!(batches.len(), 2, "{result}");
        for one in batches {
            let line = overrides(one)[0];
            let factor: f64 = line.rsplit('=').next().unwrap().parse().unwrap();
            let end = |key: &str| one[key].as_f64();
            let (point, low, high) = (
                end("speedup").unwrap(),
                end("speedup_low").unwrap(),
                end("speedup_high").unwrap(),
            );
            assert!(low <= point && point <= high.max(factor), "{one}");
            assert!(high <= factor * 1.0001, "{one}");
        }
    }
}
