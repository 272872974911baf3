//! `llmprof plan` as a user runs it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{fs, path::Path};

use serde_json::{Value, json};

const LOAD: [&str; 12] = [
    "plan",
    "llama3_1_8b",
    "--rate",
    "2",
    "--prompt-tokens",
    "512",
    "--output-tokens",
    "32",
    "--slo",
    "ttft:p99<500ms",
    "--requests-max",
    "200",
];

#[test]
fn the_answer_comes_first_and_is_the_same_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let devices = [
        "--devices",
        "l40s,h100_sxm",
        "--simulate-max",
        "12",
        "--slo",
        "tpot:p99<60ms",
    ];
    let words: Vec<&str> = LOAD.into_iter().chain(devices).collect();
    let text = common::works(folder.path(), &words);
    let all: Vec<&str> = words
        .iter()
        .copied()
        .chain(["--json", "-o", "plan.html"])
        .collect();
    let plan: Value = serde_json::from_str(&common::works(folder.path(), &all)).unwrap();
    let best = &plan["candidates"][0];
    assert_eq!(best["is_met"], true);
    let device = best["device"].as_str().unwrap();
    assert!(text.contains(&format!("1 replica of {device}")), "{text}");
    assert!(text.contains("It meets the objectives"), "{text}");
    let order = "Without --prices, a GPU of each kind counts as one";
    assert!(text.contains(order), "{text}");
    let page = fs::read_to_string(folder.path().join("plan.html")).unwrap();
    assert!(page.contains("pareto") && page.contains(device));
}

/// The result that `vllm bench serve` would write of a closed loop on a server that decodes 1.5 times as slowly as predicted.
fn slow_bench(folder: &Path, concurrency: &str) -> String {
    let words = [
        "simulate",
        "model=llama3_1_8b",
        "hardware.spec=h100_sxm",
        "--concurrency",
        concurrency,
        "--requests",
        "40",
        "--prompt-tokens",
        "512",
        "--output-tokens",
        "32",
        "--json",
    ];
    let summary: Value = serde_json::from_str(&common::works(folder, &words)).unwrap();
    let p50 = |latency: &str| summary["summary"][latency]["p50"].as_f64().unwrap();
    let result = json!({
        "request_rate": "inf",
        "max_concurrency": concurrency.parse::<u64>().unwrap(),
        "completed": 40,
        "failed": 0,
        "total_input_tokens": 40 * 512,
        "total_output_tokens": 40 * 32,
        "request_throughput": 1.0,
        "mean_ttft_ms": p50("ttft_ms"),
        "median_ttft_ms": p50("ttft_ms"),
        "median_tpot_ms": 1.5 * p50("tpot_ms"),
    });
    let name = format!("bench{concurrency}.json");
    fs::write(folder.join(&name), result.to_string()).unwrap();
    name
}

#[test]
fn benches_of_one_server_shift_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let benches = ["1", "4"].map(|concurrency| slow_bench(folder.path(), concurrency));
    let asked = ["--devices", "h100_sxm", "--keep-formats", "--max-gpus", "1"];
    let server = ["--from-server", "hardware.spec=h100_sxm", "--from"];
    let plain: Vec<&str> = LOAD.into_iter().chain(asked).collect();
    let mut shifted: Vec<&str> = plain.iter().copied().chain(server).collect();
    shifted.extend(benches.iter().map(String::as_str));
    let text = common::works(folder.path(), &shifted);
    assert!(
        text.contains("shifted by 2 benches of hardware.spec=h100_sxm"),
        "{text}"
    );
    assert!(text.contains("Error left over"), "{text}");
    let [plain, shifted] = [plain, shifted].map(|words| -> Value {
        let words: Vec<&str> = words.into_iter().chain(["--json"]).collect();
        serde_json::from_str(&common::works(folder.path(), &words)).unwrap()
    });
    assert!(plain.get("from").is_none());
    let number = |value: &Value| value.as_f64().unwrap();
    let from = &shifted["from"];
    assert!(
        (number(&from["shift"]["decode"]) - 1.5).abs() < 0.05,
        "{from}"
    );
    assert!(
        number(&from["left_out_error"]["tpot"]["worst"]) < 0.05,
        "{from}"
    );
    assert!(
        (number(&from["predicted_error"]["tpot"]["median"]) - 1.0 / 3.0).abs() < 0.01,
        "{from}"
    );
    let tpot = |plan: &Value| number(&plan["candidates"][0]["steady"]["summary"]["tpot_ms"]["p50"]);
    let ratio = tpot(&shifted) / tpot(&plain);
    assert!((1.3..1.6).contains(&ratio), "{ratio}");
}

#[test]
fn benches_that_cannot_be_repeated_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let bench = slow_bench(folder.path(), "1");
    let refused = |file: &str, server: &[&str]| {
        let words: Vec<&str> = LOAD.into_iter().chain(["--from", file]).collect();
        let words: Vec<&str> = words.into_iter().chain(server.iter().copied()).collect();
        common::refused(folder.path(), &words)
    };
    let h100 = ["--from-server", "hardware.spec=h100_sxm"];
    assert!(refused(&bench, &[]).contains("--from-server"));
    assert!(refused(&bench, &["--from-server", "parallel.tensor=2"]).contains("names no device"));
    assert!(refused("none.json", &h100).contains("none.json"));
    let text = fs::read_to_string(folder.path().join(&bench)).unwrap();
    let edited = |key: &str, value: Value| {
        let mut result: Value = serde_json::from_str(&text).unwrap();
        result[key] = value;
        fs::write(folder.path().join("edited.json"), result.to_string()).unwrap();
        refused("edited.json", &h100)
    };
    assert!(edited("failed", json!(10)).contains("10 of 50 requests failed"));
    assert!(edited("request_rate", json!(4.0)).contains("--save-detailed"));
    assert!(edited("median_ttft_ms", json!(0.0)).contains("no median TTFT"));
    assert!(edited("completed", json!(1_000_000)).contains("between 1 and 10000"));
    assert!(edited("median_tpot_ms", json!(5000.0)).contains("times as long as predicted"));
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("prices"), "h100_sxm: 2.5\n").unwrap();
    let cases: [(&[&str], &str); 8] = [
        (
            &["plan", "llama3_1_8b", "--slo", "ttft:p99<1s"],
            "a plan needs a rate",
        ),
        (&["plan", "llama3_1_8b", "--rate", "2"], "--slo"),
        (
            &[
                "plan",
                "llama3_1_8b",
                "--rate",
                "2",
                "--slo",
                "ttft:p99<1s",
                "--devices",
                "h1000",
            ],
            "h1000",
        ),
        (
            &[
                "plan",
                "llama3_1_8b",
                "--rate",
                "2",
                "--slo",
                "ttft:p99<1s",
                "--devices",
                "l4,h200,l4",
            ],
            "--devices names l4 twice",
        ),
        (
            &[
                "plan",
                "llama3_1_8b",
                "hardware.spec=h200",
                "--rate",
                "2",
                "--slo",
                "ttft:p99<1s",
            ],
            "a plan chooses devices and layouts itself",
        ),
        (
            &[
                "plan",
                "llama3_1_8b,llama3_1_70b",
                "--rate",
                "2",
                "--slo",
                "ttft:p99<1s",
            ],
            "one model, not for a sweep",
        ),
        (
            &[
                "plan",
                "llama3_1_8b",
                "--rate",
                "2",
                "--slo",
                "ttft:p99<1s",
                "--prices",
                "prices",
            ],
            "has no price of l4",
        ),
        (
            &[
                "plan",
                "llama3_1_8b",
                "--rate",
                "2",
                "--slo",
                "ttft:p99<1s",
                "--max-gpus",
                "0",
            ],
            "--max-gpus must lie between",
        ),
    ];
    for (args, expected) in cases {
        let said = common::refused(folder.path(), args);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    // What nothing meets is an answer, with another exit code.
    let impossible = [
        "--devices",
        "l4",
        "--max-gpus",
        "1",
        "--slo",
        "tpot:p99<1ms",
    ];
    let words: Vec<&str> = LOAD.into_iter().chain(impossible).collect();
    let answered = common::llmprof(folder.path(), &words);
    assert_eq!(answered.status.code(), Some(1));
    let text = String::from_utf8(answered.stdout).unwrap();
    assert!(text.contains("bounds rule out all"), "{text}");
}
