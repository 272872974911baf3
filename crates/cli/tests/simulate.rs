//! `llmprof simulate` as a user runs it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{fs, path::Path};

use serde_json::Value;

fn simulated(args: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<&str> = ["simulate"]
        .iter()
        .chain(args)
        .chain(&["--json"])
        .copied()
        .collect();
    serde_json::from_str(&common::works(folder.path(), &all)).unwrap()
}

const LLAMA: [&str; 2] = ["model=llama3_1_8b", "hardware.spec=h200"];

/// On one device and on several, with captured decode steps and with prefill that waits for the host.
#[test]
fn a_lone_request_is_what_predict_says() {
    let alone = ["model=llama3_1_8b", "hardware.spec=h200"];
    let ranks = [
        "model=deepseek_v3",
        "hardware.spec=h200",
        "workload.weights=fp8_128x128",
        "parallel.tensor=8",
    ];
    for (profile, subject) in [
        ("fused", &alone[..]),
        ("vllm", &alone[..]),
        ("hf_graph", &alone[..]),
        ("vllm", &ranks[..]),
        ("trtllm", &ranks[..]),
    ] {
        // vLLM replays the first from a CUDA graph and launches the second kernel by kernel.
        for prompt in ["512", "2048"] {
            lone_request(profile, subject, prompt);
        }
    }
    // An engine that schedules as vLLM does has its kernels, unless others are named.
    let by_default = simulated(&[LLAMA[0], LLAMA[1], "-n", "3"]);
    assert_eq!(by_default["step_time"]["efficiencies"], "vllm");
}

fn lone_request(profile: &str, subject: &[&str], prompt: &str) {
    let folder = tempfile::tempdir().unwrap();
    let efficiency = format!("--efficiency={profile}");
    let tokens = format!("workload.prompt_tokens={prompt}");
    let asked = ["--format=json", &tokens, "infer.max_new_tokens=2"];
    let words = [&["predict", &efficiency], subject, &asked].concat();
    let predicted: Value = serde_json::from_str(&common::works(folder.path(), &words)).unwrap();
    let point = &predicted["points"][0];
    let load = ["-n", "3", "--prompt-tokens", prompt, "--output-tokens", "2"];
    let simulation = simulated(&[&[efficiency.as_str()], subject, &load].concat());
    let summary = &simulation["summary"];
    for (simulated, predicted) in [("ttft_ms", "ttft_ns"), ("tpot_ms", "tpot_ns")] {
        let (ms, ns) = (&summary[simulated]["p50"], &point[predicted]);
        let ratio = ms.as_f64().unwrap() * 1e6 / ns.as_f64().unwrap();
        assert!(
            (ratio - 1.0).abs() < 1e-6,
            "{profile}, {subject:?}: {simulated} {ms}, {predicted} {ns}"
        );
    }
    assert_eq!(simulation["basis"], "predicted");
    assert_eq!(summary["completed"], 3);
}

/// What a request takes to reach the engine is in its TTFT; what is held back waits for others.
#[test]
fn requests_take_time_to_reach_an_engine_and_wait_for_others() {
    let with = |more: &[&str]| {
        let closed = [
            "-n",
            "40",
            "--concurrency",
            "4",
            "--prompt-tokens",
            "256",
            "--output-tokens",
            "uniform:20:80",
        ];
        let args: Vec<&str> = LLAMA.iter().chain(&closed).chain(more).copied().collect();
        let simulation = simulated(&args);
        let mean = simulation["summary"]["ttft_ms"]["mean"].as_f64().unwrap();
        (mean, simulation["settings"].clone())
    };
    let (plain, settings) = with(&[]);
    assert_eq!(settings["async_scheduling"], false);
    assert_eq!(settings["wait_steps"], 0);
    let (delayed, _) = with(&["--request-delay", "40ms"]);
    assert!(
        (39.0..60.0).contains(&(delayed - plain)),
        "{plain} {delayed}"
    );
    // Four prompts of 256 tokens start together and pass the tokenizer one after another.
    let (tokenized, _) = with(&["--token-delay", "100us"]);
    assert!(
        (26.0..80.0).contains(&(tokenized - plain)),
        "{plain} {tokenized}"
    );
    let (ahead, settings) = with(&["--request-delay", "40ms", "--async-scheduling"]);
    assert_eq!(settings["async_scheduling"], true);
    assert!(ahead > delayed, "{delayed} {ahead}");
    let (waited, settings) = with(&["--wait-steps", "10", "--reserve-answer"]);
    assert_eq!(settings["wait_tokens"], 8192);
    assert_eq!(settings["reserve_answer"], true);
    assert!(waited > plain, "{plain} {waited}");
}

/// A sequence of Qwen3-Next keeps states of its gated delta layers: 36 of them with 32 heads of 128 × 128 elements in 32 bits, and three inputs of 8192 channels in 16. Its twelve layers of
/// attention with two KV heads of 256 take 24,576 bytes of each token: 75.5 MB and 1.8 MB are as much as 196 blocks of 16 tokens.
#[test]
fn states_take_kv_blocks() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../theory/tests/data/models/qwen3_next_80b_a3b.json");
    let model = format!("model.config={}", config.display());
    let words = [
        "model=local",
        &model,
        "hardware.spec=h200",
        "workload.weights=fp8",
        "-n",
        "3",
    ];
    let simulation = simulated(&words);
    assert_eq!(simulation["settings"]["sequence_blocks"], 197);
    let simulation = simulated(&[LLAMA[0], LLAMA[1], "-n", "3"]);
    assert_eq!(simulation["settings"]["sequence_blocks"], 0);
}

/// What `predict` says of memory is what `simulate` finds.
#[test]
fn predict_and_simulate_agree_on_memory() {
    let folder = tempfile::tempdir().unwrap();
    for (subject, fits) in [
        (["llama3_1_70b", "h100_sxm", "fp8", "1"], true),
        (["llama3_1_70b", "h100_sxm", "bf16", "1"], false),
        (["llama3_1_70b", "h100_sxm", "bf16", "2"], true),
        (["llama3_1_70b", "h200", "bf16", "1"], false),
        (["llama3_1_8b", "l4", "bf16", "1"], true),
    ] {
        let [model, device, weights, tensor] = subject;
        let subject = [
            format!("model={model}"),
            format!("hardware.spec={device}"),
            format!("workload.weights={weights}"),
            format!("parallel.tensor={tensor}"),
        ];
        let subject = subject.iter().map(String::as_str);
        let workload = [
            "workload.prompt_tokens=512",
            "workload.new_tokens=16",
            "workload.batch_size=1",
        ];
        let software = ["predict", "--efficiency", "vllm", "--format", "json"];
        let asked: Vec<&str> = software
            .into_iter()
            .chain(subject.clone())
            .chain(workload)
            .collect();
        let predicted: Value = serde_json::from_str(&common::works(folder.path(), &asked)).unwrap();
        let load = [
            "simulate",
            "-n",
            "1",
            "--prompt-tokens",
            "512",
            "--output-tokens",
            "16",
        ];
        let asked: Vec<&str> = load.into_iter().chain(subject).collect();
        let simulated = common::llmprof(folder.path(), &asked).status.success();
        assert_eq!(
            (&predicted["points"][0]["fits"], simulated),
            (&fits.into(), fits),
            "{asked:?}"
        );
    }
}

#[test]
fn objectives_decide_the_exit_code_and_replicas_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let rate = [
        "simulate",
        LLAMA[0],
        LLAMA[1],
        "--rate=60",
        "-n",
        "600",
        "--prompt-tokens=2048",
        "--output-tokens=64",
        "--slo=ttft:p99<500ms",
    ];
    let output = common::llmprof(folder.path(), &rate);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("ttft:p99<500ms: not met"));
    let simulation = simulated(&[&rate[1..], &["--search-replicas"]].concat());
    let fewest = simulation["replicas"]["fewest"].as_u64().unwrap();
    assert!(fewest > 1, "{fewest}");
    assert_eq!(simulation["gpus"], fewest);
    assert_eq!(simulation["is_met"], true);
    // One fewer does not do.
    let fewer = format!("--replicas={}", fewest - 1);
    let output = common::llmprof(folder.path(), &[&rate[..], &[&fewer]].concat());
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_search_of_settings_has_its_best_first() {
    let simulation = simulated(&[
        LLAMA[0],
        LLAMA[1],
        "--rate=20",
        "-n",
        "200",
        "--prompt-tokens=1024",
        "--search-settings",
    ]);
    let candidates = simulation["candidates"].as_array().unwrap();
    assert!(candidates.len() > 20);
    assert_eq!(candidates[0]["settings"], simulation["settings"]);
    assert_eq!(candidates[0]["summary"], simulation["summary"]);
}

#[test]
fn ranks_share_the_model_and_leave_more_cache() {
    let one = simulated(&[LLAMA[0], LLAMA[1], "--rate=4", "-n", "50"]);
    let two = simulated(&[
        LLAMA[0],
        LLAMA[1],
        "parallel.tensor=2",
        "--rate=4",
        "-n",
        "50",
    ]);
    assert_eq!((&one["gpus"], &two["gpus"]), (&1.into(), &2.into()));
    let p50 = |simulation: &Value| simulation["summary"]["tpot_ms"]["p50"].as_f64().unwrap();
    assert!(p50(&two) < p50(&one));
    let blocks = |simulation: &Value| simulation["settings"]["kv_blocks"].as_u64().unwrap();
    assert!(blocks(&two) > 2 * blocks(&one));
}

/// A Kineto trace of engine steps: 2 ms and 10 µs a token.
fn trace(folder: &Path) -> String {
    let mut at = 0.0;
    let events: Vec<String> = (0..40)
        .map(|index| {
            let (sequences, prompt) = (
                1 + index % 7,
                if index % 4 == 0 { 16 * (index + 1) } else { 0 },
            );
            let tokens = sequences + prompt;
            let time = 2000.0 + 10.0 * f64::from(tokens);
            let name = format!(
                "execute_context_{}({prompt})_generation_{sequences}({sequences})",
                i32::from(prompt > 0)
            );
            let event = format!(r#"{{"ph":"X","cat":"user_annotation","pid":1,"tid":1,"name":"{name}","ts":{at},"dur":{time}}}"#);
            at += time;
            event
        })
        .collect();
    let text = format!(
        r#"{{"baseTimeNanoseconds": 0, "traceEvents": [{}]}}"#,
        events.join(",")
    );
    let path = folder.join("steps.json");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_recorded_server_calibrates_the_steps() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let simulation = simulated(&[
        "--calibrate",
        &trace,
        "--kv-blocks=1000",
        "-n",
        "5",
        "--prompt-tokens=100",
        "--output-tokens=11",
    ]);
    // 100 tokens of prefill, then ten steps of one.
    let summary = &simulation["summary"];
    assert!(
        (summary["ttft_ms"]["p50"].as_f64().unwrap() - 3.0).abs() < 0.01,
        "{summary}"
    );
    assert!(
        (summary["tpot_ms"]["p50"].as_f64().unwrap() - 2.01).abs() < 0.01,
        "{summary}"
    );
    assert_eq!(simulation["step_time"]["kind"], "calibrated");
    assert!(
        simulation["step_time"]["calibration"]["median_error"]
            .as_f64()
            .unwrap()
            < 1e-3
    );
}

/// A vLLM server on a CPU: the load of `bench` with a seed, and the same load simulated with step times of a profile of another load.
#[test]
fn a_real_server_is_simulated_from_one_profile_of_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/vllm/simulate");
    let measured = common::json(&folder.join("measured.json"));
    let steps = folder.join("steps.json.gz").display().to_string();
    let words = "--kv-blocks=2048 --block-size=32 --max-num-seqs=16 --max-num-batched-tokens=512 -n 60 --rate=1.1 --seed=7 \
                 --prompt-tokens=uniform:32:160 --output-tokens=uniform:8:40 --calibrate";
    let words: Vec<&str> = words.split_whitespace().chain([steps.as_str()]).collect();
    let simulation = &simulated(&words)["summary"];
    // One seed is one load.
    for key in ["completed", "total_input_tokens", "total_output_tokens"] {
        assert_eq!(simulation[key], measured[key], "{key}");
    }
    let off = |key: &str, statistic: &str| {
        let of = |summary: &Value| summary[key][statistic].as_f64().unwrap();
        of(simulation) / of(&measured) - 1.0
    };
    for key in ["ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"] {
        for (statistic, most) in [("mean", 0.05), ("p50", 0.1), ("p90", 0.15)] {
            let off = off(key, statistic);
            assert!(off.abs() < most, "{key} {statistic}: {off:+.3}");
        }
    }
    let rate = |summary: &Value| summary["request_throughput"].as_f64().unwrap();
    assert!((rate(simulation) / rate(&measured) - 1.0).abs() < 0.02);
}

#[test]
fn traces_are_replayed_with_their_prefixes() {
    let folder = tempfile::tempdir().unwrap();
    let line = |at: u32, last: u32| {
        format!(
            r#"{{"timestamp": {at}, "input_length": 1100, "output_length": 4, "hash_ids": [1, 2, {last}]}}"#
        )
    };
    let path = folder.path().join("mooncake.jsonl");
    fs::write(&path, [line(0, 3), line(5000, 4), line(9000, 5)].join("\n")).unwrap();
    let path = path.display().to_string();
    let simulation = simulated(&[LLAMA[0], LLAMA[1], "--trace", &path]);
    // The first two blocks of 512 tokens are shared.
    assert_eq!(simulation["summary"]["cached_tokens"], 2 * 1024);
    let simulation = simulated(&[LLAMA[0], LLAMA[1], "--trace", &path, "--no-prefix-caching"]);
    assert_eq!(simulation["summary"]["cached_tokens"], 0);
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 13] = [
        (&["model=llama3_1_8b"], "a simulation needs a device"),
        (
            &[LLAMA[0], LLAMA[1], "--rate=-1"],
            "rate must be a positive number",
        ),
        (
            &[LLAMA[0], LLAMA[1], "--max-num-batched-tokens=8"],
            "must be at least max_num_seqs",
        ),
        (
            &["model=llama3_1_70b", "hardware.spec=l4"],
            "leaves no memory for a KV cache",
        ),
        (
            &["model=llama3_1_70b", "hardware.spec=h100_sxm"],
            "parallel.tensor=2",
        ),
        (
            &[
                "model=llama3_1_70b",
                "hardware.spec=l40s",
                "parallel.tensor=2",
            ],
            "parallel.tensor=4",
        ),
        (
            &[
                "model=deepseek_v3",
                "hardware.spec=l4",
                "workload.weights=fp8",
            ],
            "a device with more memory",
        ),
        (
            &["model=llama3_1_8b", "hardware.spec=h200,h100_sxm"],
            "`llmprof predict` takes lists",
        ),
        (
            &[LLAMA[0], LLAMA[1], "-n", "0"],
            "--requests must lie between",
        ),
        (
            &[LLAMA[0], LLAMA[1], "--calibrate", "nowhere.json"],
            "nowhere.json",
        ),
        (
            &[LLAMA[0], LLAMA[1], "--replicas=0"],
            "--replicas must lie between",
        ),
        (
            &[LLAMA[0], LLAMA[1], "parallel.tensor=3"],
            "a divisor of the model's attention heads (32)",
        ),
        (&[LLAMA[0], LLAMA[1], "parallel.data=2"], "--replicas N"),
    ];
    for (args, expected) in cases {
        let all: Vec<&str> = ["simulate"].iter().chain(args).copied().collect();
        let said = common::refused(folder.path(), &all);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    let said = common::refused(folder.path(), &["run", "parallel.tensor=2"]);
    assert!(
        said.contains("only `predict` and `simulate` spread a model"),
        "{said}"
    );
}

/// More requests were advised where no number of them settles a queue that grows.
#[test]
fn overload_and_long_requests_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let load = [
        "-n",
        "400",
        "--prompt-tokens",
        "512",
        "--output-tokens",
        "64",
    ];
    let words = [&["simulate"], &LLAMA[..], &load, &["--rate", "1e6"]].concat();
    let said = common::works(folder.path(), &words);
    assert!(
        said.contains("Overload: 1000000 requests/s arrive and "),
        "{said}"
    );
    assert!(!said.contains("Simulate more"), "{said}");
    let calm = simulated(&[&LLAMA[..], &load, &["--rate", "2"]].concat());
    assert!(calm.get("overload").is_none(), "{calm}");
    let long = [
        "simulate",
        "model=qwen2_5_0_5b",
        "hardware.spec=h200",
        "-n",
        "3",
        "--prompt-tokens",
        "40000",
    ];
    let output = common::llmprof(folder.path(), &long);
    let warned = String::from_utf8_lossy(&output.stderr);
    assert!(warned.contains("32768 positions"), "{warned}");
    let long = [
        "predict",
        "model=qwen2_5_0_5b",
        "hardware.spec=h200",
        "workload.prompt_tokens=40000",
    ];
    let said = common::works(folder.path(), &long);
    assert!(said.contains("32768 positions"), "{said}");
}

#[test]
fn the_page_says_what_it_rests_on() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "simulate",
        LLAMA[0],
        LLAMA[1],
        "--rate=4",
        "-n",
        "20",
        "--slo=tpot:p90<1s",
    ];
    let page = common::works(folder.path(), &args);
    for part in [
        "Simulated, not measured",
        "TTFT",
        "tpot:p90<1000ms: met",
        "predicted for llama3_1_8b on h200",
        "KV cache",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = "simulate model=llama3_1_8b hardware.spec=h200 --rate 1 --prompt-tokens 128 --shared-prefix 500";
    let words: Vec<&str> = prefix.split(' ').collect();
    let said = common::refused(folder.path(), &words);
    assert!(
        said.contains("longer than the longest prompt, 128 tokens"),
        "{said}"
    );
    for watts in ["-5", "0", "nan", "inf"] {
        let limit = format!("hardware.power_limit_w={watts}");
        let words = ["predict", LLAMA[0], LLAMA[1], &limit];
        let said = common::refused(folder.path(), &words);
        assert!(said.contains("must lie above 0"), "{watts}: {said}");
    }
}

#[test]
fn a_rate_of_inf_sends_all_requests_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["simulate", LLAMA[0], LLAMA[1], "-n", "50", "--json"];
    let all = |load: &[&str]| common::works(folder.path(), &[&words[..], load].concat());
    assert_eq!(all(&["--rate", "inf"]), all(&["--concurrency", "50"]));
}
