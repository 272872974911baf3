//! Sweeps, and the server's own profiler.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use llmprof_stub::{Behaviour, Called, Stub};
use serde_json::{Value, json};

use super::{bench, json, read};

#[test]
fn a_sweep_finds_the_highest_rate_that_meets_the_objective() {
    // One request at a time, 40 ms each: 25 requests/s at most, and at 100 the twentieth waits 600 ms.
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(40),
        slots: 1,
        ..Behaviour::default()
    })
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let url = stub.url();
    let sweep = |slo: &str, bounds: &str, requests: &str, run: &str| {
        let args = ["--requests", requests, "--output-tokens", "1", "--json"];
        let own = [url.as_str(), "--sweep", bounds, "--slo", slo, "-o", run];
        let (code, out, err) = bench(dir.path(), &[&own[..], &args].concat());
        let printed: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{err}"));
        (code, printed)
    };
    let (code, summary) = sweep("ttft:p90<250ms", "8:100", "20", "met");
    assert_eq!(code, 0);
    let rate = |name: &str| summary["sweep"][name].as_f64().unwrap();
    let (best, failing) = (rate("best_rate"), rate("first_failing_rate"));
    // On a busy machine 8 may fail too, and it looks below.
    assert!(
        0.0 < best && best < failing && failing <= 100.0,
        "{best} {failing}"
    );
    let points = summary["sweep"]["points"].as_array().unwrap();
    for point in points {
        let p90 = point["summary"]["ttft_ms"]["p90"].as_f64().unwrap();
        assert_eq!(point["is_met"], p90 < 250.0, "{point}");
    }
    let run = dir.path().join("met");
    assert_eq!(json(&run.join("sweep.json")), summary["sweep"]);
    let report = read(&run.join("report.md"));
    assert!(report.contains("requests/s meet ttft:p90"), "{report}");
    for plot in ["latency_throughput_ttft", "ttft"] {
        assert!(run.join(format!("plots/{plot}.svg")).is_file(), "{plot}");
    }
    // It looks below the first rate too, down to a thousandth of it.
    let (code, summary) = sweep("ttft:p50<1us", "2000:4000", "2", "never");
    assert_eq!((code, &summary["sweep"]["best_rate"]), (1, &Value::Null));
}

/// Rows of a CSV by the names of its columns.
fn table(path: &Path) -> Vec<std::collections::HashMap<String, String>> {
    let text = read(path);
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let header: Vec<String> = lines.next().unwrap().collect();
    lines
        .map(|cells| header.iter().cloned().zip(cells).collect())
        .collect()
}

#[test]
fn a_profile_is_joined_with_requests_and_has_the_roofline_of_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let traces = dir.path().join("traces");
    std::fs::create_dir(&traces).unwrap();
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(20),
        step: Duration::from_millis(5),
        slots: 1,
        trace_folder: Some(traces.clone()),
        ..Behaviour::default()
    })
    .unwrap();
    let url = stub.url();
    // Nearly all of the load is profiled: 60 requests of 40 ms each.
    let args = "--requests 60 --concurrency 2 --prompt-tokens 7 --output-tokens 5 --profile --profile-after 1ms \
                --profile-for 60s --profile-dir traces -o run --json";
    let mut words = vec![url.as_str(), "model=llama3_1_8b", "hardware.spec=h200"];
    words.extend(args.split_ascii_whitespace());
    let (code, out, err) = bench(dir.path(), &words);
    assert_eq!(code, 0, "{err}");
    let summary: Value = serde_json::from_str(&out).unwrap();
    let kinds = summary["steps"]["kinds"].as_array().unwrap();
    assert_eq!(
        (kinds.len(), &kinds[0]["kind"]),
        (2, &json!("prefill")),
        "{summary}"
    );
    assert_eq!(kinds[0]["mean_new_tokens"], 7.0);
    for kind in kinds {
        let number = |name: &str| kind[name].as_f64().unwrap();
        // 16 GB of weights at 4.8 TB/s take 3.3 ms; a batch of 7 tokens adds little.
        assert!((2.8..4.0).contains(&number("roofline_ms")), "{kind}");
        let share = number("roofline_ms") / number("mean_ms");
        assert!((number("roofline_share") - share).abs() < 1e-9, "{kind}");
    }
    let run = dir.path().join("run");
    let steps = table(&run.join("server/steps.csv"));
    assert!(steps.len() >= 50, "{}", steps.len());
    assert!(
        steps
            .iter()
            .all(|row| row["roofline_ms"].parse::<f64>().unwrap() > 2.8)
    );
    assert!(read(&run.join("report.md")).contains("% of roofline"));
    // The trace is analyzed with the model too.
    let inner = json(&run.join("server/trace/analysis.json"));
    assert_eq!(
        (&inner["model"], &inner["device"]),
        (&json!("llama3_1_8b"), &json!("h200"))
    );
    // What steps say of a request is what the stub did.
    let requests = table(&run.join("requests.csv"));
    let split: Vec<_> = requests
        .iter()
        .filter(|row| row["split_by"] == "steps")
        .collect();
    assert!(split.len() >= 15, "{} of {}", split.len(), requests.len());
    let served = stub.served();
    for row in split {
        let prefill: f64 = row["prefill_ms"].parse().unwrap();
        let is_that = |ms: f64| (ms - prefill).abs() < 0.01;
        assert!(
            served
                .iter()
                .any(|one| is_that(one.prefill.as_secs_f64() * 1e3)),
            "{row:?}"
        );
    }
    // Without a model there is no roofline, and an override has to name one.
    let plain: Vec<&str> = words
        .iter()
        .filter(|word| !word.contains('='))
        .copied()
        .collect();
    let plain: Vec<&str> = plain
        .iter()
        .map(|w| if *w == "run" { "plain" } else { *w })
        .collect();
    std::fs::remove_file(traces.join("rank0.pt.trace.json")).unwrap();
    let (code, out, err) = bench(dir.path(), &plain);
    assert_eq!(code, 0, "{err}");
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        summary["steps"]["kinds"][0]["roofline_ms"],
        Value::Null,
        "{summary}"
    );
    let (code, _, err) = bench(dir.path(), &[&url, "hardware.spec=h200"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("name no model"), "{err}");
}

/// A stub of slow requests that is profiled: the calls of its profiler, and what the command printed.
fn profiled(prefix: &'static str, args: &str) -> (Vec<Called>, Value) {
    let stub = Stub::start(Behaviour {
        step: Duration::from_millis(10),
        metrics_prefix: prefix,
        ..Behaviour::default()
    })
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let url = stub.url();
    let mut words = vec![url.as_str(), "--output-tokens", "20", "--profile"];
    words.extend("--profile-for 50ms --scrape-interval 20ms -o run --json".split(' '));
    words.extend(args.split(' '));
    let (code, out, err) = bench(dir.path(), &words);
    assert_eq!(code, 0, "{err}");
    (stub.calls(), serde_json::from_str(&out).unwrap())
}

#[test]
fn a_profile_starts_when_it_is_told_to() {
    // Once half of the requests ended; the probe was served too.
    let (calls, summary) = profiled("vllm:", "--requests 8 --concurrency 2");
    // All tables are of the requests that ended before.
    let timed = summary["timed"].as_u64().unwrap();
    assert!((1..=8).contains(&timed), "{summary}");
    assert_eq!(summary["ttft_ms"]["count"], timed);
    assert_eq!(summary["parts"]["requests"], timed);
    let paths: Vec<&str> = calls.iter().map(|call| call.path.as_str()).collect();
    assert_eq!(paths, ["/start_profile", "/stop_profile"]);
    assert!(calls[0].served > 4, "{calls:?}");
    assert_eq!(calls[0].body, "");
    // So long after the start.
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (calls, _) = profiled(
        "vllm:",
        "--requests 8 --concurrency 1 --profile-after 700ms",
    );
    let after = calls[0].at_unix_ns.0 - began.as_nanos() as i64;
    assert!(after >= 700_000_000, "{calls:?}");
    // Once so many run.
    let (calls, summary) = profiled(
        "vllm:",
        "--requests 12 --concurrency 3 --profile-when-running 2",
    );
    assert_eq!(calls.len(), 2, "{}", summary["issues"]);
    assert!(calls[0].running >= 1 && calls[0].served < 12, "{calls:?}");
    let (calls, summary) = profiled(
        "vllm:",
        "--requests 4 --concurrency 1 --profile-when-running 2",
    );
    assert_eq!(calls, []);
    let issues = summary["issues"].as_array().unwrap();
    let issue = issues
        .iter()
        .find(|issue| issue["code"] == "bench.not_profiled");
    assert!(
        issue.is_some_and(|issue| issue.to_string().contains("never_full")),
        "{issues:?}"
    );
}

#[test]
fn sglang_is_given_its_options() {
    let (calls, _) = profiled(
        "sglang:",
        r#"--requests 4 --profile-steps 3 --profile-options {"with_stack":true,"activities":["GPU"]}"#,
    );
    let body: Value = serde_json::from_str(&calls[0].body).unwrap();
    assert_eq!(
        body,
        json!({"with_stack": true, "activities": ["GPU"], "num_steps": 3})
    );
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = bench(
        dir.path(),
        &[
            "http://127.0.0.1:9",
            "--profile",
            "--profile-options",
            "[1]",
        ],
    );
    assert_eq!(code, 2);
    assert!(err.contains("not a JSON object"), "{err}");
}
