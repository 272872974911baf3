//! `llmprof plan` as a user runs it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;

use serde_json::Value;

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
    let found: Value = serde_json::from_str(&common::works(folder.path(), &all)).unwrap();
    let best = &found["candidates"][0];
    assert_eq!(best["is_met"], true);
    let device = best["device"].as_str().unwrap();
    assert!(text.contains(&format!("1 replica of {device}")), "{text}");
    assert!(text.contains("It meets the objectives"), "{text}");
    let page = fs::read_to_string(folder.path().join("plan.html")).unwrap();
    assert!(page.contains("pareto") && page.contains(device));
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("prices"), "h100_sxm: 2.5\n").unwrap();
    let cases: [(&[&str], &str); 7] = [
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
