//! Calls as the protocol has them, right and wrong.

use std::fs;

use serde_json::{Value, json};

use super::{client::Client, common, fixture};

fn two_runs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, trace) in [
        ("a", "faults/control.json.gz"),
        ("b", "faults/sync_each_layer.json.gz"),
    ] {
        let (trace, run) = (fixture(trace), format!("runs/{name}"));
        let config = fixture("faults/config.json");
        let words = ["import", &trace, "--config", &config, "-o", &run];
        common::works(folder.path(), &words);
    }
    folder
}

#[test]
fn every_tool_answers_and_every_hint_leads_on() {
    let folder = two_runs();
    let mut client = Client::start(folder.path());
    let listed = client.request("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(tools.len() <= 8);
    let run = "runs/b";
    let calls = [
        ("runs", json!({})),
        ("runs", json!({"filter": "sync"})),
        ("summary", json!({"run": run})),
        ("findings", json!({"run": run})),
        ("findings", json!({"run": run, "from": 2})),
        ("explain", json!({"run": run, "id": "finding=1"})),
        ("explain", json!({"run": run, "id": "kernel=1"})),
        ("explain", json!({"run": run, "id": "phase=decode"})),
        ("explain", json!({"run": run, "id": "step=0"})),
        ("explain", json!({"run": run, "id": "window=0..1000000"})),
        ("kernels", json!({"run": run})),
        ("kernels", json!({"run": run, "filter": "gemm", "from": 2})),
        ("kernels", json!({"run": run, "filter": "no such kernel"})),
        ("window", json!({"run": run, "step": 1})),
        ("window", json!({"run": run, "from_ms": 0.5, "to_ms": 2})),
        ("compare", json!({"a": "runs/a", "b": run})),
        (
            "predict",
            json!({"overrides": ["model=llama3_1_8b", "hardware.spec=h200", "runtime.batch_size=1,8"]}),
        ),
    ];
    let mut names: Vec<&str> = calls.iter().map(|(tool, _)| *tool).collect();
    names.dedup();
    let offered: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert!(
        offered.iter().all(|tool| names.contains(tool)),
        "{offered:?}"
    );
    for (tool, arguments) in calls {
        let called = client.call(tool, &arguments);
        assert!(!called.is_error, "{tool} {arguments}: {}", called.answer);
        let hints = called.answer["next"].as_array().into_iter().flatten();
        for next in hints.cloned().collect::<Vec<Value>>() {
            client.follow(&next);
        }
    }
}

/// Numbers of answers are those of `analysis.json`.
#[test]
fn answers_have_the_numbers_of_the_analysis() {
    let folder = two_runs();
    let analysis = common::json(&folder.path().join("runs/b/analysis.json"));
    let mut client = Client::start(folder.path());
    let findings = client.call("findings", &json!({"run": "runs/b"})).answer;
    let first = &findings["findings"][0];
    assert_eq!(first["code"], analysis["findings"][0]["code"]);
    let cause = &analysis["findings"][0]["conclusion"];
    let (stated, gain) = (&cause["gains"][0], &first["gain"][0]);
    let ms = |value: &Value| value.as_f64().unwrap() / 1e6;
    assert!(
        (gain["saved_ms"].as_f64().unwrap() - ms(&stated["saved_ns"])).abs() < 1e-3,
        "{first} {cause}"
    );
    assert!((gain["of_ms"].as_f64().unwrap() - ms(&stated["now_ns"])).abs() < 1e-3);
    let kernels = client.call("kernels", &json!({"run": "runs/b"})).answer;
    let row = &analysis["timeline"]["kernels"][0];
    assert_eq!(kernels["kernels"][0]["calls"], row["calls"]);
    let explained = client
        .call("explain", &json!({"run": "runs/b", "id": "kernel=1"}))
        .answer;
    let by = explained["launched_by"].as_array().unwrap();
    let calls: u64 = by.iter().filter_map(|by| by["calls"].as_u64()).sum();
    assert!(calls <= row["calls"].as_u64().unwrap());
    let phase = client
        .call("explain", &json!({"run": "runs/b", "id": "phase=decode"}))
        .answer;
    let parts = phase["parts_ms"].as_object().unwrap();
    let sum: f64 = parts.values().filter_map(Value::as_f64).sum();
    let wall = phase["wall_ms"].as_f64().unwrap();
    assert!((sum - wall).abs() < 0.02, "{sum} of {wall}: {phase}");
}

#[test]
fn mistakes_name_the_next_call() {
    let folder = two_runs();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.json"), "{\"traceEvents\": []}").unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("runs/out")).unwrap();
    let secret = outside.path().join("secret.json");
    let mut client = Client::start(folder.path());
    let run = "runs/b";
    let wrong = [
        ("summary", json!({})),
        ("summary", json!({"run": 5})),
        ("summary", json!({"path": run})),
        ("summary", json!([])),
        ("summary", json!({"run": "runs/none"})),
        ("summary", json!({"run": "../"})),
        ("summary", json!({"run": "/etc/passwd"})),
        ("summary", json!({"run": "runs/out/secret.json"})),
        ("summary", json!({"run": secret})),
        ("summary", json!({"run": "runs/a/report.md"})),
        ("compare", json!({"a": run, "b": secret})),
        ("explain", json!({"run": run, "id": "finding=99"})),
        ("explain", json!({"run": run, "id": "kernel=0"})),
        ("explain", json!({"run": run, "id": "request=0"})),
        ("explain", json!({"run": run, "id": "phase=none"})),
        ("explain", json!({"run": run, "id": "sql"})),
        ("findings", json!({"run": run, "from": 1000})),
        ("kernels", json!({"run": run, "from": -1})),
        ("window", json!({"run": run})),
        ("window", json!({"run": run, "step": 1, "from_ms": 1})),
        ("window", json!({"run": run, "from_ms": 5, "to_ms": 5})),
        (
            "window",
            json!({"run": run, "from_ms": 1e300, "to_ms": 1e301}),
        ),
        ("window", json!({"run": run, "step": u64::MAX})),
        ("predict", json!({"overrides": ["model.path=/etc"]})),
        ("predict", json!({"overrides": ["model=no_such_model"]})),
        ("predict", json!({"overrides": "model=x"})),
    ];
    for (tool, arguments) in wrong {
        let called = client.call(tool, &arguments);
        assert!(called.is_error, "{tool} {arguments}: {}", called.answer);
        assert_eq!(called.answer["schema"], "llmprof.agent.error/1");
        let next = called.answer["next"][0].clone();
        client.follow(&next);
        let said = called.answer.to_string();
        let place = outside.path().to_str().unwrap();
        assert!(
            !said.contains(place) || arguments.to_string().contains(place),
            "{said}"
        );
    }
    client.send("not json");
    assert_eq!(client.receive()["error"]["code"], -32700);
    assert!(!client.call("runs", &json!({})).is_error, "it goes on");
}

/// Nothing below the folder changes.
#[test]
fn the_server_writes_nothing() {
    let folder = two_runs();
    let listing = || {
        let mut files = Vec::new();
        let mut folders = vec![folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else {
                    let modified = entry.metadata().unwrap().modified().unwrap();
                    files.push((entry.path(), modified));
                }
            }
        }
        files.sort();
        files
    };
    let before = listing();
    let mut client = Client::start(folder.path());
    client.call("summary", &json!({"run": "runs/a"}));
    client.call("compare", &json!({"a": "runs/a", "b": "runs/b"}));
    client.call(
        "predict",
        &json!({"overrides": ["model=llama3_1_8b", "hardware.spec=h200"]}),
    );
    drop(client);
    assert_eq!(listing(), before);
}
