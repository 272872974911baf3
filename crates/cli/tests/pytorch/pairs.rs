//! A model of an encoder and a decoder from its config to its report: encoder, prefill and decode, each with its roofline.

use std::{fs, process::Command};

use serde_json::Value;

use super::{issues, python, stderr};

const T5: &str = r#"{"model_type": "t5", "vocab_size": 96, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2,
    "num_decoder_layers": 3, "num_heads": 4, "feed_forward_proj": "gated-gelu", "is_encoder_decoder": true,
    "decoder_start_token_id": 0}"#;

const WHISPER: &str = r#"{"model_type": "whisper", "vocab_size": 96, "num_mel_bins": 16, "d_model": 64, "encoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_layers": 3, "decoder_attention_heads": 4, "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128, "max_source_positions": 40, "max_target_positions": 48, "is_encoder_decoder": true,
    "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 1}"#;

fn llmprof(folder: &std::path::Path, args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .args(args)
        .args(["model=local", "model.config=pair.json", "model.dtype=f32"])
        .args(["hardware.spec=xeon_8480", "runtime.batch_size=2"])
        .args(["workload.prompt_tokens=8", "infer.max_new_tokens=5"])
        .output()
        .unwrap()
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn encoder_prefill_and_decode_have_rooflines() {
    let python = python();
    for (config, operator) in [
        (T5, "encoder,encoder.block.*.layer.0.SelfAttention.q,linear"),
        (
            WHISPER,
            "encoder,model.encoder.layers.*.self_attn.q_proj,linear",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("pair.json"), config).unwrap();
        let interpreter = format!("runtime.python={python}");
        let output = llmprof(
            folder.path(),
            &[
                "run",
                "runtime=pytorch",
                &interpreter,
                "hydra.run.dir=out",
                "runtime.warmup=1",
                "runtime.repeats=2",
                "runtime.threads=1",
            ],
        );
        assert!(output.status.success(), "{}", stderr(&output));
        let out = folder.path().join("out");
        let read =
            |name: &str| fs::read_to_string(out.join(name)).unwrap_or_else(|_| panic!("{name}"));
        let json = |name: &str| -> Value { serde_json::from_str(&read(name)).unwrap() };
        let analysis = json("analysis.json");
        let phases = analysis["phases"].as_array().unwrap();
        let names: Vec<_> = phases
            .iter()
            .map(|phase| phase["phase"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["encoder", "prefill", "decode"]);
        for phase in phases {
            let roofline = phase["waterfall"]["roofline_ns"].as_i64();
            assert!(roofline.is_some_and(|time| time > 0), "{phase}");
            let missing = phase["missing"].as_array().unwrap();
            assert!(missing.is_empty(), "{config}: {missing:?}");
        }
        let codes = issues(&read("run.json"));
        for code in [
            "run.unnamed_stacks",
            "invariant.above_peak",
            "run.missing_operators",
        ] {
            assert!(!codes.iter().any(|recorded| recorded == code), "{codes:?}");
        }
        let operators = read("operators.csv");
        assert!(operators.contains(operator), "{operators}");
        assert!(json("metrics.json")["mfu_per_stage"]["encoder"].is_number());
        let statics = json("static_compute.json");
        // The roofline of the whole encoder is what its phase was compared with.
        let (paper, run) = (
            &statics["phases"]["encoder"]["roofline_ns"],
            &phases[0]["waterfall"]["roofline_ns"],
        );
        assert_eq!(paper, run, "{config}");
        // TTFT is encoder and prefill together.
        let wall = |phase: &Value| phase["plain_wall_ns"].as_f64().unwrap();
        let metrics = json("metrics.json");
        let ttft = metrics["aggregates"]["ttft_ms"]["mean"].as_f64().unwrap() * 1e6;
        let sum: f64 = metrics["phases"].as_array().unwrap()[..2]
            .iter()
            .map(wall)
            .sum();
        assert!((sum / ttft - 1.0).abs() < 0.01, "{sum} {ttft}");
    }
}

#[test]
fn commands_without_a_run_know_the_encoder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pair.json"), T5).unwrap();
    let said = |args: &[&str]| {
        let output = llmprof(folder.path(), args);
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let layers = said(&["model", "--layers"]);
    assert!(layers.contains("ENCODER, 8 TOKENS"), "{layers}");
    assert!(layers.contains("decoder.block.2.layer.1.EncDecAttention"));
    let model: Value = serde_json::from_str(&said(&["model", "--json"])).unwrap();
    assert!(model["phases"]["encoder"]["flops"].as_u64().unwrap() > 0);
    let predicted = said(&["predict", "--format", "json"]);
    let rows: Value = serde_json::from_str(&predicted).unwrap();
    let row = &rows["points"][0];
    // The encoder is in TTFT, and nothing measured gives an interval.
    assert!(row["ttft_ns"].as_f64().unwrap() > row["prefill_gpu_ns"].as_f64().unwrap());
    assert!(row["ttft_low_ns"].is_null(), "{row}");
    for (args, word) in [
        (
            ["run", "runtime=native"].as_slice(),
            "does not run the family",
        ),
        (&["simulate"], "encoder"),
    ] {
        let output = llmprof(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = stderr(&output)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(said.contains(word), "{args:?}: {said}");
    }
}
