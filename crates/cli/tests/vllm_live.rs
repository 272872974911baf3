//! The real vLLM on a CPU: `scripts/with-vllm cargo test -p llmprof vllm_live:: -- --ignored`.
//!
//! A tiny model with random weights; the server runs on the first core and the client on the others.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

const MODEL: &str = r#"
import json, sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
folder = sys.argv[1]
words = ["<unk>", "<s>", "</s>"] + [f"w{i}" for i in range(1021)]
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>").save_pretrained(folder)
config = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=256, intermediate_size=512, num_hidden_layers=4,
              num_attention_heads=4, num_key_value_heads=2, vocab_size=1024, max_position_embeddings=2048, rms_norm_eps=1e-6,
              rope_theta=10000.0, hidden_act="silu", tie_word_embeddings=False, torch_dtype="float32", bos_token_id=1, eos_token_id=2)
json.dump(config, open(folder + "/config.json", "w"))
"#;

/// The `bin` of the environment that has vLLM.
fn bin() -> PathBuf {
    let folder = std::env::var_os("LLMPROF_VLLM_BIN").expect("scripts/with-vllm names it");
    PathBuf::from(folder)
}

fn model(folder: &Path) -> PathBuf {
    let model = folder.join("model");
    std::fs::create_dir_all(&model).unwrap();
    let made = Command::new(bin().join("python"))
        .args(["-c", MODEL])
        .arg(&model)
        .status()
        .unwrap();
    assert!(made.success());
    model
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

const VARIABLES: [(&str, &str); 4] = [
    ("HF_HUB_OFFLINE", "1"),
    ("VLLM_CPU_KVCACHE_SPACE", "1"),
    ("VLLM_CPU_OMP_THREADS_BIND", "0"),
    ("VLLM_NO_USAGE_STATS", "1"),
];

fn options(model: &Path, port: u16) -> Vec<String> {
    let mut words: Vec<String> = [
        "serve",
        &model.to_string_lossy(),
        "--host",
        "127.0.0.1",
        "--port",
        &port.to_string(),
    ]
    .map(str::to_owned)
    .to_vec();
    words.extend(
        "--load-format dummy --dtype float32 --enforce-eager --max-model-len 1024 --max-num-seqs 8"
            .split(' ')
            .map(str::to_owned),
    );
    words
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

fn serve(model: &Path, port: u16) -> Server {
    let child = Command::new("taskset")
        .args(["-c", "0"])
        .arg(bin().join("vllm"))
        .args(options(model, port))
        .envs(VARIABLES)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server(child);
    let started = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            started.elapsed() < Duration::from_mins(10),
            "vLLM did not start"
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    server
}

/// Runs llmprof away from the server's core.
fn llmprof(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new("taskset")
        .args(["-c", "1-1023", env!("CARGO_BIN_EXE_llmprof")])
        .args(args)
        .current_dir(dir)
        .envs(VARIABLES)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The parts of every request add up to its latency; how many requests there are, and how many are split by `split`.
fn parts_add_up(run: &Path, split: &str) -> (usize, usize) {
    const PARTS: [&str; 10] = [
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
    ];
    let text = std::fs::read_to_string(run.join("requests.csv")).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| header.iter().position(|h| *h == name).unwrap();
    let (mut rows, mut by) = (0, 0);
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let ms = |name: &str| cells[at(name)].parse::<f64>().unwrap();
        let sum: f64 = PARTS.iter().map(|part| ms(part)).sum();
        assert!((sum - ms("e2e_ms")).abs() < 1e-5, "{line}");
        rows += 1;
        by += usize::from(cells[at("split_by")] == split);
    }
    (rows, by)
}

/// What the server's histograms say of the load is what the client measured.
fn sides_agree(json: &Value) {
    let server = &json["server"];
    assert_eq!(
        server["ttft_ms"]["count"],
        json["completed"].as_f64().unwrap()
    );
    let (client, own) = (
        json["ttft_ms"]["mean"].as_f64().unwrap(),
        server["ttft_ms"]["mean"].as_f64().unwrap(),
    );
    assert!(
        own <= client && client - own < 0.3 * client + 20.0,
        "TTFT {client} and {own} ms"
    );
    for name in ["tpot_ms", "e2e_ms"] {
        let (client, own) = (
            json[name]["mean"].as_f64().unwrap(),
            server[name]["mean"].as_f64().unwrap(),
        );
        assert!(
            (client - own).abs() < 0.1 * own,
            "{name} {client} and {own} ms"
        );
    }
}

#[test]
#[ignore = "needs vLLM: scripts/with-vllm"]
fn loads_of_a_real_server() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let _server = serve(&model, port);
    let common = [
        "--vocabulary",
        "1024",
        "--prompt-tokens",
        "64",
        "--output-tokens",
        "16",
        "--warmup",
        "4",
    ];

    let mut args = vec![
        "bench",
        &url,
        "--rate",
        "4",
        "--requests",
        "60",
        "-o",
        "poisson",
        "--json",
    ];
    args.extend(common);
    let (code, out, err) = llmprof(folder.path(), &args);
    assert_eq!(code, Some(0), "{err}");
    let poisson: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&poisson["completed"], &poisson["total_output_tokens"]),
        (&Value::from(60), &Value::from(960))
    );
    assert_eq!(poisson["token_basis"]["continuous_usage"], 60);
    assert_eq!(
        parts_add_up(&folder.path().join("poisson"), "nothing").0,
        60
    );
    sides_agree(&poisson);

    let mut args = vec![
        "bench",
        &url,
        "--requests",
        "30",
        "--sweep",
        "2:64",
        "--slo",
        "ttft:p90<1s",
        "-o",
        "sweep",
        "--json",
    ];
    args.extend(common);
    let (code, out, err) = llmprof(folder.path(), &args);
    assert_eq!(code, Some(0), "{err}");
    let sweep: Value = serde_json::from_str(&out).unwrap();
    assert!(
        sweep["sweep"]["best_rate"].as_f64().unwrap() >= 2.0,
        "{out}"
    );

    compare_with_its_own(folder.path(), &model, &url);
}

/// Replays of what `vllm bench serve` sent have its means and percentiles, within the spread of three runs of its own.
fn compare_with_its_own(folder: &Path, model: &Path, url: &str) {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for round in 0..3 {
        let file = format!("theirs{round}.json");
        let done = Command::new("taskset")
            .args(["-c", "1-1023"])
            .arg(bin().join("vllm"))
            .args([
                "bench",
                "serve",
                "--backend",
                "vllm",
                "--base-url",
                url,
                "--dataset-name",
                "random",
            ])
            .args([
                "--random-input-len",
                "64",
                "--random-output-len",
                "16",
                "--num-prompts",
                "60",
                "--request-rate",
                "4",
            ])
            .args([
                "--ignore-eos",
                "--save-result",
                "--save-detailed",
                "--result-dir",
                ".",
                "--result-filename",
                &file,
            ])
            .args([
                "--percentile-metrics",
                "ttft,tpot,itl,e2el",
                "--metric-percentiles",
                "50,90,99",
                "--model",
            ])
            .args([model, Path::new("--tokenizer"), model])
            .current_dir(folder)
            .envs(VARIABLES)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        let run = format!("ours{round}");
        let (code, out, err) = llmprof(
            folder,
            &[
                "bench",
                url,
                "--trace",
                &file,
                "--requests",
                "60",
                "--vocabulary",
                "1024",
                "--warmup",
                "4",
                "-o",
                &run,
                "--json",
            ],
        );
        assert_eq!(code, Some(0), "{err}");
        theirs.push(json(&folder.join(&file)));
        ours.push(serde_json::from_str::<Value>(&out).unwrap());
    }
    for (name, key) in [
        ("ttft", "ttft_ms"),
        ("tpot", "tpot_ms"),
        ("itl", "itl_ms"),
        ("e2el", "e2e_ms"),
    ] {
        for statistic in ["mean", "p50", "p90", "p99"] {
            let range = |values: Vec<f64>| {
                let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                (least, values.iter().copied().fold(0.0, f64::max))
            };
            let (least, most) = range(
                theirs
                    .iter()
                    .map(|r| r[format!("{statistic}_{name}_ms")].as_f64().unwrap())
                    .collect(),
            );
            let (low, high) = range(
                ours.iter()
                    .map(|r| r[key][statistic].as_f64().unwrap())
                    .collect(),
            );
            // Ranges of three meet, unless the machine changed between them; a tenth for the width of three.
            assert!(
                low <= 1.1 * most && high >= 0.9 * least,
                "{name} {statistic}: theirs {least}–{most} ms, ours {low}–{high} ms"
            );
        }
    }
}

#[test]
#[ignore = "needs vLLM: scripts/with-vllm"]
fn a_served_and_profiled_command_leaves_nothing_running() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    let port = free_port();
    let traces = folder.path().join("traces");
    std::fs::create_dir(&traces).unwrap();
    let program = bin().join("vllm");
    let profiler = format!(
        "--profiler-config.profiler=torch --profiler-config.torch_profiler_dir={} --profiler-config.detailed_trace_annotation=true \
         --profiler-config.torch_profiler_with_stack=false",
        traces.display()
    );
    let command = format!(
        "taskset -c 0 {} {} {profiler}",
        program.display(),
        options(&model, port).join(" ")
    );
    let (code, out, err) = llmprof(
        folder.path(),
        &[
            "bench",
            "--serve",
            &command,
            "--rate",
            "4",
            "--requests",
            "80",
            "--vocabulary",
            "1024",
            "--prompt-tokens",
            "64",
            "--output-tokens",
            "16",
            "--warmup",
            "4",
            "--profile",
            "--profile-for",
            "2s",
            "--profile-dir",
            &traces.to_string_lossy(),
            "--no-record",
            "--ready-timeout",
            "20min",
            "-o",
            "run",
            "--json",
        ],
    );
    assert_eq!(code, Some(0), "{err}");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["completed"], 80);
    assert!(json["steps"]["count"].as_u64().unwrap() > 5, "{out}");
    let run = folder.path().join("run");
    let (rows, split) = parts_add_up(&run, "steps");
    assert_eq!(rows, 80);
    assert!(split > 0, "no request lies inside of the recording");
    // Half of the requests ended before the profiler began: they are the ones that latencies are of.
    let timed = json["ttft_ms"]["count"].as_u64().unwrap();
    assert!((30..80).contains(&timed), "{timed}");
    assert!(
        run.join("server/trace/report.html").is_file() && run.join("server/steps.csv").is_file()
    );
    assert!(
        std::net::TcpStream::connect(("127.0.0.1", port)).is_err(),
        "the server still listens"
    );
    let left = Command::new("pgrep")
        .args(["-f", &model.to_string_lossy()])
        .output()
        .unwrap();
    assert!(
        left.stdout.is_empty(),
        "left running: {}",
        String::from_utf8_lossy(&left.stdout)
    );
}

#[test]
#[ignore = "needs vLLM: scripts/with-vllm"]
fn the_runtime_starts_a_server_or_the_class() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    let path = format!("model.path={}", model.display());
    let common = [
        "run",
        "runtime=vllm",
        "model=local",
        &path,
        "model.load_format=dummy",
        "model.dtype=f32",
        "model.max_seq_len=1024",
        "runtime.serving.extra_args=[--enforce-eager,--max-num-seqs,4]",
        "runtime.serving.requests=16",
        "workload.prompt_tokens=64",
        "infer.max_new_tokens=12",
    ];
    let python = format!("runtime.python={}", bin().join("python").display());
    let mut args = common.to_vec();
    args.extend([
        "runtime.serving.offline=true",
        "runtime.serving.profile=true",
        &python,
        "hydra.run.dir=offline",
    ]);
    let (code, _, err) = llmprof(folder.path(), &args);
    assert_eq!(code, Some(0), "{err}");
    let run = folder.path().join("offline");
    assert_eq!(parts_add_up(&run, "timings"), (16, 16));
    let summary = json(&run.join("bench.json"));
    assert_eq!(
        (&summary["completed"], &summary["total_output_tokens"]),
        (&Value::from(16), &Value::from(192))
    );
    // Four run at once, so the others queue.
    let parts = summary["parts"]["parts"].as_array().unwrap();
    assert!(
        parts.iter().any(|part| part["part"] == "queueing"),
        "{parts:?}"
    );
    assert!(run.join("server/trace/report.html").is_file());

    let program = format!(
        "runtime.serving.program=[{},serve]",
        bin().join("vllm").display()
    );
    let port = format!("runtime.serving.port={}", free_port());
    let mut args = common.to_vec();
    args.extend([
        program.as_str(),
        &port,
        "runtime.serving.rate=4",
        "hydra.run.dir=server",
    ]);
    let (code, _, err) = llmprof(folder.path(), &args);
    assert_eq!(code, Some(0), "{err}");
    let summary = json(&folder.path().join("server/bench.json"));
    assert_eq!(
        (&summary["completed"], &summary["total_input_tokens"]),
        (&Value::from(16), &Value::from(1024))
    );
    sides_agree(&summary);
}
