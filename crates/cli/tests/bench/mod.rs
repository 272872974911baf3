//! `llmprof bench` as a user runs it, against the stub.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
mod configured;
mod damaged;
mod dcgm;
mod gpus;
mod killed;
mod secrets;
mod server_side;

use std::{path::Path, process::Command, time::Duration};

use llmprof_stub::{Behaviour, RequestFault, Stub};
use serde_json::Value;

fn bench(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .arg("bench")
        .args(args)
        .current_dir(dir)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn stub() -> Stub {
    Stub::start(Behaviour {
        prefill: Duration::from_millis(10),
        step: Duration::from_millis(2),
        slots: 4,
        ..Behaviour::default()
    })
    .unwrap()
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Whether a process runs; one that nobody waited for has ended all the same.
fn runs(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&read(path)).unwrap()
}

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/server.py");

#[test]
fn json_has_the_keys_that_programs_read() {
    let stub = stub();
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = bench(
        dir.path(),
        &[
            &stub.url(),
            "--rate",
            "50",
            "--requests",
            "40",
            "--output-tokens",
            "5",
            "--warmup",
            "3",
            "-o",
            "run",
            "--json",
        ],
    );
    assert_eq!(code, 0, "{err}");
    let json: Value = serde_json::from_str(&out).unwrap();
    for latency in ["ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"] {
        for statistic in ["mean", "p50", "p90", "p99"] {
            assert!(
                json[latency][statistic].as_f64().unwrap() > 0.0,
                "{latency} {statistic}"
            );
        }
    }
    for rate in ["request_throughput", "output_throughput"] {
        assert!(json[rate].as_f64().unwrap() > 0.0, "{rate}");
    }
    assert_eq!(json["completed"], 40);
    assert_eq!(json["failed"], 0);
    assert_eq!(json["total_output_tokens"], 200);
    assert!(json["schedule_lag_ms"]["p99"].as_f64().unwrap() >= 0.0);
    // Warm-up and probe are in the stub's count, not in ours.
    assert_eq!(stub.served_when_idle().len(), 40 + 3 + 1);
    assert_eq!(json["server"]["queue_ms"]["count"], 40.0);

    // The parts of each request add up to its latency.
    let run = dir.path().join("run");
    let csv = std::fs::read_to_string(run.join("requests.csv")).unwrap();
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|h| *h == name).unwrap();
    let mut rows = 0;
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let ms = |name: &str| cells[column(name)].parse::<f64>().unwrap();
        let sum: f64 = [
            "client_ms",
            "connect_ms",
            "queue_prefill_network_ms",
            "running_step_ms",
            "queue_ms",
            "prefill_ms",
            "network_ms",
            "decode_ms",
            "others_prefill_ms",
            "stall_ms",
        ]
        .iter()
        .map(|name| ms(name))
        .sum();
        assert!((sum - ms("e2e_ms")).abs() < 1e-5, "{line}");
        rows += 1;
    }
    assert_eq!(rows, 40);
    for file in [
        "report.html",
        "report.md",
        "bench.json",
        "vllm_bench.json",
        "server/metrics.txt",
        "plots/ttft.svg",
    ] {
        assert!(run.join(file).is_file(), "{file}");
    }
    is_a_run_like_any_other(dir.path(), &json);
    let (code, out, _) = bench(dir.path(), &["--import", "run/vllm_bench.json", "--json"]);
    assert_eq!(code, 0);
    let imported: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(imported[0]["completed"], 40);
    assert_eq!(imported[0]["ttft_ms"]["p99"], json["ttft_ms"]["p99"]);
}

/// Analyzed again, reported again, shown and compared with itself: the numbers are those of the load.
fn is_a_run_like_any_other(folder: &std::path::Path, printed: &Value) {
    let run = folder.join("run");
    let files = ["requests.csv", "report.md", "vllm_bench.json"];
    let read = || files.map(|file| std::fs::read_to_string(run.join(file)).unwrap());
    let before = read();
    for file in files {
        std::fs::remove_file(run.join(file)).unwrap();
    }
    let analysis: Value =
        serde_json::from_str(&common::works(folder, &["analyze", "run", "--json"])).unwrap();
    assert_eq!(analysis["serving"]["ttft_ms"], printed["ttft_ms"]);
    let codes = |of: &Value| -> Vec<Value> {
        let findings = of["findings"].as_array().unwrap().iter();
        findings.map(|finding| finding["code"].clone()).collect()
    };
    assert_eq!(codes(&analysis), codes(printed));
    assert_eq!(json(&run.join("bench.json"))["e2e_ms"], printed["e2e_ms"]);
    assert_eq!(read(), before);
    std::fs::remove_file(run.join("report.md")).unwrap();
    common::works(folder, &["report", "run"]);
    assert_eq!(read(), before);
    let shown = common::works(folder, &["runs", "show", "run"]);
    assert!(shown.contains("TTFT p50"), "{shown}");
    let compared = common::works(folder, &["compare", "--json", "run", "run"]);
    let compared: Value = serde_json::from_str(&compared).unwrap();
    assert_eq!(compared["a"]["measured_in"], "load");
    let mut metrics = compared["metrics"].as_array().unwrap().iter();
    let ttft = metrics.find(|one| one["metric"] == "ttft").unwrap();
    assert_eq!(ttft["values"], 40);
}

#[test]
fn objectives_decide_the_exit_code() {
    let stub = stub();
    let dir = tempfile::tempdir().unwrap();
    let url = stub.url();
    let common = [
        url.as_str(),
        "--concurrency",
        "2",
        "--requests",
        "10",
        "--output-tokens",
        "3",
    ];
    let run = |slo: &str| {
        let mut args = common.to_vec();
        args.extend(["--slo", slo]);
        bench(dir.path(), &args)
    };
    let (code, out, _) = run("ttft:p90<30s");
    assert_eq!(code, 0);
    assert!(out.contains("ttft:p90<30000ms: met"), "{out}");
    let (code, out, _) = run("ttft:p50<1us");
    assert_eq!(code, 1);
    // On a busy machine the client sends late, and its latencies prove nothing.
    let is_judged = out.contains("not met") || out.contains("the client was late");
    assert!(is_judged, "{out}");
    // Of 10 requests the 99th percentile is the longest: the table has none, and neither has the objective.
    let (code, out, _) = run("ttft:p99<30s");
    assert_eq!(code, 1);
    assert!(out.contains("ttft:p99<30000ms: not known"), "{out}");
}

#[test]
fn a_server_that_stops_meets_no_objective_and_the_time_is_told() {
    // The probe is the first request.
    let stub = Stub::start(Behaviour {
        faults: vec![(18, RequestFault::Stop)],
        ..Behaviour::default()
    })
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let url = stub.url();
    let args = "--requests 60 --output-tokens 3 --slo ttft:p99<30s -o run";
    let words: Vec<&str> = std::iter::once(url.as_str())
        .chain(args.split(' '))
        .collect();
    let (code, out, err) = bench(dir.path(), &words);
    assert_eq!(code, 1, "{err}");
    assert!(out.contains("The server stopped answering at "), "{out}");
    let reason = "ttft:p99<30000ms: not met (43 of 60 requests failed; ";
    assert!(out.contains(reason), "{out}");
    let summary = json(&dir.path().join("run/bench.json"));
    assert_eq!(
        (&summary["completed"], &summary["failed"]),
        (&17.into(), &43.into())
    );
    assert_eq!(summary["slos"][0]["is_met"], false);
    assert!(summary["server_stopped_s"].as_f64().unwrap() > 0.0);
    assert!(err.contains("bench.server_stopped"), "{err}");
}

#[test]
fn a_load_without_one_result_fails_with_the_reason() {
    let stub = Stub::start(Behaviour {
        faults: (1..6)
            .map(|number| (number, RequestFault::Status(503)))
            .collect(),
        ..Behaviour::default()
    })
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let args = [&stub.url(), "--requests", "5", "--json", "-o", "run"];
    let (code, out, err) = bench(dir.path(), &args);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("all of 5 requests failed"), "{err}");
    assert!(err.contains("refused by the stub"), "{err}");
    let printed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&printed["completed"], &printed["failed"]),
        (&0.into(), &5.into())
    );
    assert_eq!(json(&dir.path().join("run/run.json"))["status"], "failed");
}

/// Flags as `vllm bench serve` has them, an address without a scheme, and a folder named by the model.
#[test]
fn hands_that_know_vllm_bench_serve_find_their_way() {
    let stub = stub();
    let dir = tempfile::tempdir().unwrap();
    let url = stub.url();
    let address = url.strip_prefix("http://").unwrap();
    let args = "--num-prompts 12 --request-rate inf --max-concurrency 3 --random-input-len 9 --random-output-len 4";
    let words: Vec<&str> = std::iter::once(address).chain(args.split(' ')).collect();
    let (code, out, err) = bench(dir.path(), &words);
    assert_eq!(code, 0, "{err}");
    for line in [
        "Successful requests",
        "Total generated tokens",
        "Output token throughput, tok/s",
        "TTFT",
        "E2EL",
    ] {
        assert!(
            out.lines().any(|printed| printed.starts_with(line)),
            "{line}: {out}"
        );
    }
    let folder = dir.path().join("runs/bench/stub");
    let run = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap();
    let summary = json(&run.path().join("bench.json"));
    assert_eq!(
        (
            &summary["total_input_tokens"],
            &summary["total_output_tokens"]
        ),
        (&108.into(), &48.into())
    );
    assert_eq!(
        summary["arrivals"],
        serde_json::json!({"kind": "closed", "concurrency": 3})
    );
    assert_eq!(
        summary["load"],
        "12 requests, 3 in flight, 9 prompt and 4 output tokens"
    );
    // A bound of requests in flight alone is a closed loop too.
    let (code, out, err) = bench(
        dir.path(),
        &[&url, "--max-concurrency", "2", "-n", "4", "--json"],
    );
    assert_eq!(code, 0, "{err}");
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["arrivals"]["concurrency"], 2);
}

#[test]
fn a_trace_is_headed_by_its_own_number_of_requests() {
    let stub = stub();
    let dir = tempfile::tempdir().unwrap();
    let line = |at: u64| {
        format!("{{\"timestamp\":{at},\"input_length\":4,\"output_length\":2,\"hash_ids\":[]}}\n")
    };
    let trace: String = (0..6).map(line).collect();
    std::fs::write(dir.path().join("trace.jsonl"), trace).unwrap();
    let (code, out, err) = bench(
        dir.path(),
        &[&stub.url(), "--trace", "trace.jsonl", "--json"],
    );
    assert_eq!(code, 0, "{err}");
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["completed"], 6);
    let load = summary["load"].as_str().unwrap();
    assert!(load.starts_with("6 requests, "), "{load}");
}

/// The probe waited two minutes, whatever `--timeout` said.
#[test]
fn the_probe_keeps_the_timeout() {
    let stub = Stub::start(Behaviour {
        faults: vec![(0, RequestFault::HalfOpen)],
        ..Behaviour::default()
    })
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = bench(dir.path(), &[&stub.url(), "--timeout", "300ms"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("no answer within 300ms"), "{err}");
}

#[test]
fn failures_are_told_and_the_rest_is_measured() {
    let stub = Stub::start(Behaviour {
        fault_every: Some((4, RequestFault::Status(500))),
        ..Behaviour::default()
    })
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (code, out, _) = bench(
        dir.path(),
        &[
            &stub.url(),
            "--requests",
            "15",
            "--output-tokens",
            "3",
            "--json",
            "-o",
            "run",
        ],
    );
    assert_eq!(code, 0);
    let json: Value = serde_json::from_str(&out).unwrap();
    // The probe was the first request.
    assert_eq!(json["failed"], 4);
    assert_eq!(json["failures"]["server_error"], 4);
    assert_eq!(json["completed"], 11);
    let report = std::fs::read_to_string(dir.path().join("run/report.md")).unwrap();
    assert!(report.contains("bench.failed"), "{report}");
}

#[test]
fn mistakes_are_found_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    for (args, words) in [
        (vec!["ftp://localhost:8000"], "http or https"),
        (vec!["http://127.0.0.1:9", "--requests", "0"], "--requests"),
        (vec!["http://127.0.0.1:9", "--rate", "0"], "rate"),
        (
            vec!["http://127.0.0.1:9", "--rate", "-4"],
            "rate must be a positive number, not -4",
        ),
        (
            vec![
                "http://127.0.0.1:9",
                "--sweep",
                "64:4",
                "--slo",
                "ttft:p50<1s",
            ],
            "the lower rate comes first: 4:64",
        ),
        (
            vec!["http://127.0.0.1:9", "--rate", "1e-8"],
            "rate must be at least",
        ),
        (
            vec!["http://127.0.0.1:9", "-n", "1000000000000"],
            "--requests must lie",
        ),
        (
            vec!["http://127.0.0.1:9", "--concurrency", "1000000000000"],
            "concurrency must be at most",
        ),
        (
            vec!["http://127.0.0.1:9", "--max-concurrency", "1000000000000"],
            "concurrency must be at most",
        ),
        (
            // 20 requests have no 99th percentile but the longest.
            vec![
                "http://127.0.0.1:9",
                "--sweep",
                "1:8",
                "--slo",
                "ttft:p99<1s",
                "-n",
                "20",
            ],
            "needs at least 100 requests",
        ),
        (vec!["http://127.0.0.1:9", "--slo", "ttft<5"], "bad SLO"),
        (
            vec!["http://127.0.0.1:9", "--trace", "absent.jsonl"],
            "absent.jsonl",
        ),
        (
            vec!["http://127.0.0.1:9", "--api-key-env", "LLMPROF_NO_SUCH_KEY"],
            "LLMPROF_NO_SUCH_KEY",
        ),
        (
            vec!["http://127.0.0.1:9", "--extra-body", "[1]"],
            "--extra-body",
        ),
    ] {
        let (code, _, err) = bench(dir.path(), &args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(words), "{args:?}: {err}");
        assert!(!dir.path().join("runs").exists(), "{args:?} left a run");
    }
    let (code, _, err) = bench(dir.path(), &["http://127.0.0.1:9", "-o", "gone"]);
    assert_eq!(code, 2);
    assert!(err.contains("does not answer"), "{err}");
}

#[test]
fn a_served_command_is_ended_with_all_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let serve = format!("python3 {SERVER} {port} 1");
    let url = format!("http://127.0.0.1:{port}");
    let (code, out, err) = bench(
        dir.path(),
        &[
            "--serve",
            &serve,
            "--serve-url",
            &url,
            "--requests",
            "5",
            "--output-tokens",
            "1",
            "--json",
            "-o",
            "run",
            "--no-record",
        ],
    );
    assert_eq!(code, 0, "{err}");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&json["completed"], &json["model"]),
        (&Value::from(5), &Value::from("tiny"))
    );
    assert!(
        std::net::TcpStream::connect(("127.0.0.1", port)).is_err(),
        "the server still listens"
    );
    for file in ["child.pid", "daemon.pid"] {
        let process = read(&dir.path().join(file));
        assert!(!runs(process.trim()), "{file} still runs");
    }
}

#[test]
fn a_server_that_dies_is_told_with_its_last_lines() {
    let dir = tempfile::tempdir().unwrap();
    let serve = "sh -c 'echo loading weights; echo out of memory >&2; exit 3'";
    let (code, _, err) = bench(
        dir.path(),
        &[
            "--serve",
            serve,
            "--requests",
            "5",
            "--no-record",
            "-o",
            "run",
        ],
    );
    assert_eq!(code, 2);
    assert!(err.contains("ended before it was healthy"), "{err}");
    assert!(err.contains("loading weights"), "{err}");
    assert!(err.contains("out of memory"), "{err}");
    // Killed by its first request, which finds out what it understands.
    let port = free_port();
    let serve = format!("python3 {SERVER} {port} 1 sh -c 'echo out of luck >&2; kill -9 $PPID'");
    let url = format!("http://127.0.0.1:{port}");
    let args = [
        "--serve",
        &serve,
        "--serve-url",
        &url,
        "--no-record",
        "-o",
        "killed",
    ];
    let (code, _, err) = bench(dir.path(), &args);
    assert_eq!(code, 2);
    assert!(err.contains("ended during the load"), "{err}");
    assert!(err.contains("out of luck"), "{err}");
    let (code, _, err) = bench(
        dir.path(),
        &[
            "--serve",
            "sleep 100",
            "--serve-url",
            "http://127.0.0.1:9",
            "--ready-timeout",
            "500ms",
            "--no-record",
            "-o",
            "slow",
        ],
    );
    assert_eq!(code, 2);
    assert!(err.contains("was not healthy within"), "{err}");
}

#[test]
fn a_runtime_of_the_config_loads_an_endpoint() {
    let stub = stub();
    let dir = tempfile::tempdir().unwrap();
    let url = format!("runtime.serving.url={}", stub.url());
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args([
            "run",
            "runtime=openai",
            &url,
            "runtime.serving.requests=8",
            "infer.max_new_tokens=3",
            "workload.prompt_tokens=7",
        ])
        .args(["hydra.run.dir=run"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{err}");
    let text = std::fs::read_to_string(dir.path().join("run/bench.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["completed"], 8);
    assert_eq!(json["total_input_tokens"], 56);
    assert_eq!(json["total_output_tokens"], 24);
    // Mistakes are those of any config.
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args(["run", "runtime=vllm"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("model.path"));
}
