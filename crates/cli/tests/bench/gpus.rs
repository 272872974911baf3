//! GPUs of this machine beside a load, by a stand-in for NVIDIA's library.

use std::{path::Path, process::Command, time::Duration};

use llmprof_stub::{Behaviour, Stub};
use serde_json::Value;

use super::{json, read};

/// A load of more than a second, which utilization takes; the numbers it printed.
fn load(dir: &Path, library: &Path, more: &[&str]) -> Value {
    let stub = Stub::start(Behaviour {
        step: Duration::from_millis(20),
        ..Behaviour::default()
    })
    .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args(["bench", &stub.url(), "--requests", "16", "-o", "run"])
        .args(["--output-tokens", "10", "--concurrency", "2"])
        .args(more)
        .current_dir(dir)
        .env("LLMPROF_NVML", library)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    json(&dir.join("run/bench.json"))
}

fn codes(summary: &Value) -> Vec<&str> {
    let issues = summary["issues"].as_array().unwrap();
    issues
        .iter()
        .filter_map(|issue| issue["code"].as_str())
        .collect()
}

#[test]
fn gpus_are_sampled_beside_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let library = crate::nvml::stand_in(dir.path(), &[]);
    let summary = load(dir.path(), &library, &[]);
    let gpus = summary["gpus"].as_array().unwrap();
    assert_eq!(gpus.len(), 2, "{summary}");
    for gpu in gpus {
        // Either GPU takes 249.5 W at any moment.
        assert_eq!(gpu["mean_power_w"], 249.5, "{gpu}");
        assert!(
            gpu["utilization"]
                .as_f64()
                .is_some_and(|share| share <= 1.0),
            "{gpu}"
        );
        assert!(gpu["memory_used_max_bytes"].as_u64().unwrap() > 0, "{gpu}");
        assert!(gpu["energy_j"].as_f64().unwrap() > 0.0, "{gpu}");
        assert_eq!(gpu["energy_basis"], "measured", "{gpu}");
    }
    let run = dir.path().join("run");
    // A header, and some samples of both.
    assert!(read(&run.join("nvml.csv")).lines().count() > 2 * 2);
    for plot in ["concurrency", "gpu_utilization", "gpu_power", "gpu_memory"] {
        let drawn = read(&run.join(format!("plots/{plot}.svg")));
        assert!(plot == "concurrency" || drawn.contains("GPU 1"), "{plot}");
    }
    let named = load_in("1", &library);
    assert_eq!(named["gpus"].as_array().unwrap().len(), 1);
    assert_eq!(named["gpus"][0]["index"], 1);
}

/// One GPU alone.
fn load_in(gpus: &str, library: &Path) -> Value {
    let dir = tempfile::tempdir().unwrap();
    load(dir.path(), library, &["--gpus", gpus])
}

#[test]
fn a_machine_without_gpus_says_so_where_one_was_named() {
    let dir = tempfile::tempdir().unwrap();
    let library = crate::nvml::stand_in(dir.path(), &["NO_DEVICES"]);
    let summary = load(dir.path(), &library, &[]);
    assert_eq!(summary["gpus"], serde_json::json!([]));
    assert!(!codes(&summary).contains(&"telemetry.no_gpu"), "{summary}");
    assert!(dir.path().join("run/telemetry.csv").is_file());
    let named = load_in("0", &library);
    assert!(codes(&named).contains(&"telemetry.no_gpu"), "{named}");
    let dir = tempfile::tempdir().unwrap();
    load(dir.path(), &library, &["--no-telemetry"]);
    assert!(!dir.path().join("run/telemetry.csv").exists());
}
