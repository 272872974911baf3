//! The native runtime from the command line: what it is fed, what it leaves, and what it refuses.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use common::json;

const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false, "eos_token_id": 2}"#;

/// Words of one letter, as `tokenizer.json` describes them.
fn tokenizer() -> String {
    let words: Vec<String> = ('a'..='z')
        .enumerate()
        .map(|(id, letter)| format!("\"{letter}\": {}", id + 1))
        .collect();
    format!(
        r#"{{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": {{"type": "Whitespace"}}, "post_processor": null, "decoder": null,
            "model": {{"type": "WordLevel", "vocab": {{"<unk>": 0, {}}}, "unk_token": "<unk>"}}}}"#,
        words.join(", ")
    )
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.json"), TINY).unwrap();
    folder
}

/// The words of a run of the tiny model. The device is named, so that nothing is measured first.
fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let common = [
        "model=local",
        "model.config=tiny.json",
        "model.dtype=f32",
        "workload.prompt_tokens=8",
        "infer.max_new_tokens=4",
        "runtime.repeats=1",
        "hardware.spec=xeon_8480",
    ];
    let (options, overrides): (Vec<&str>, Vec<&str>) =
        more.iter().partition(|word| word.starts_with('-'));
    [vec!["run"], options, common.to_vec(), overrides].concat()
}

fn works(folder: &Path, more: &[&str]) -> String {
    common::works(folder, &words(more))
}

/// What it says beside its data: warnings.
fn warns(folder: &Path, more: &[&str]) -> String {
    let output = common::llmprof(folder, &words(more));
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stderr).unwrap()
}

fn refused(folder: &Path, more: &[&str]) -> String {
    common::refused(folder, &words(more))
}

#[test]
fn texts_are_tokenized_and_every_sample_is_a_request() {
    let folder = folder();
    let root = folder.path();
    fs::create_dir(root.join("texts")).unwrap();
    fs::write(root.join("texts/one.txt"), "a b c").unwrap();
    fs::write(root.join("texts/two.txt"), "d e f g h i j k l m n o").unwrap();
    fs::write(root.join("texts/three.txt"), "p q r s t").unwrap();
    fs::write(root.join("tokenizer.json"), tokenizer()).unwrap();
    // The dataset's own list comes before one of that name in the working directory.
    fs::write(root.join("list.txt"), "one.txt\n").unwrap();
    fs::write(root.join("texts/list.txt"), "two.txt\nthree.txt\none.txt\n").unwrap();
    works(
        root,
        &[
            "dataset=text",
            "dataset.root=texts",
            "dataset.subset_filelist=list.txt",
            "dataset.sampling.num_epochs=2",
            "dataset.sampling.num_samples_per_epoch=2",
            "model.tokenizer=.",
            "hydra.run.dir=out",
        ],
    );
    let metrics = json(&root.join("out/metrics.json"));
    let requests: Vec<(&str, u64)> = metrics["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["id"].as_str().unwrap(),
                row["prompt_tokens"].as_u64().unwrap(),
            )
        })
        .collect();
    // A window of two that rotates over three; prompts are cut to workload.prompt_tokens.
    assert_eq!(
        requests,
        [
            ("0/two.txt", 8),
            ("0/three.txt", 5),
            ("1/one.txt", 3),
            ("1/two.txt", 8)
        ]
    );
    let inputs = fs::read_to_string(root.join("out/inputs.yaml")).unwrap();
    assert!(
        inputs.contains("count: 4\n") && inputs.contains("    bytes: 23\n"),
        "{inputs}"
    );
    // Prompts of different lengths are counted each with its own.
    let analysis = json(&root.join("out/analysis.json"));
    for phase in analysis["phases"].as_array().unwrap() {
        assert!(phase["unmatched"].as_array().unwrap().is_empty());
        assert!(phase["missing"].as_array().unwrap().is_empty());
        let idle = phase["waterfall"]["idle"].as_array().unwrap();
        assert!(
            idle.iter().any(|part| part["name"] == "sampling"),
            "{idle:?}"
        );
    }
    assert_speaks_of_a_processor(&root.join("out"));
}

/// A run without a GPU is reported without the words of one.
fn assert_speaks_of_a_processor(run: &Path) {
    for name in ["report.md", "stakeholder_summary.md", "operators.md"] {
        let text = fs::read_to_string(run.join(name)).unwrap();
        let foreign = ["tensor", "kernel", "CUDA", "GPU", "NVTX", "slow the host"];
        for line in text.lines() {
            // The part of a waterfall has one name everywhere.
            let line = line.replace("kernel inefficiency", "");
            let foreign_word = foreign.iter().find(|word| line.contains(*word));
            assert_eq!(foreign_word, None, "{name}: {line}");
        }
    }
}

/// Weights of 8 bits are computed with in 32: a CPU without a rate for 8 bits is judged all the same.
#[test]
fn eight_bit_weights_need_no_eight_bit_arithmetic() {
    let folder = folder();
    let device = "name: plain\ntitle: A CPU with 32-bit arithmetic\nvendor: none\nkind: cpu\nbasis: datasheet\nsources: { sheet: a data sheet }\n\
        peaks: [{ dtype: f32, engine: vector, tflops: 1, source: sheet, not_recounted: made up }]\nmemory: { bandwidth_gb_s: { value: 50, source: sheet } }\n";
    fs::write(folder.path().join("plain.yaml"), device).unwrap();
    let more = [
        "workload.weights=int8",
        "hardware.spec=plain.yaml",
        "hydra.run.dir=run",
    ];
    works(folder.path(), &more);
    let statics = json(&folder.path().join("run/static_compute.json"));
    assert_eq!(statics["workload"]["precision"]["compute"], "f32");
}

#[test]
fn prompts_of_a_batch_have_one_length_and_a_cut_is_reported() {
    let folder = folder();
    let text = warns(
        folder.path(),
        &[
            "runtime.batch_size=3",
            "dataset.min_prompt_tokens=2",
            "dataset.sampling.num_samples_per_epoch=5",
            "hydra.run.dir=out",
        ],
    );
    // Nothing is wrong with the numbers: it stands in the report, not on the terminal.
    assert!(!text.contains("native.prompts_cut"), "{text}");
    let manifest = std::fs::read_to_string(folder.path().join("out/run.json")).unwrap();
    assert!(manifest.contains("native.prompts_cut"), "{manifest}");
    let metrics = json(&folder.path().join("out/metrics.json"));
    let batches: Vec<u64> = metrics["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["batch"].as_u64().unwrap())
        .collect();
    assert_eq!(batches, [3, 3, 3, 2, 2]);
    let analysis = json(&folder.path().join("out/analysis.json"));
    for phase in analysis["phases"].as_array().unwrap() {
        assert!(phase["unmatched"].as_array().unwrap().is_empty());
    }
}

#[test]
fn telemetry_covers_the_run_and_can_be_left_out() {
    let folder = folder();
    works(
        folder.path(),
        &["hydra.run.dir=with", "pipeline.telemetry.hz=50"],
    );
    let with = folder.path().join("with");
    let samples = fs::read_to_string(with.join("telemetry.csv")).unwrap();
    assert!(samples.lines().count() >= 3, "{samples}");
    let analysis = json(&with.join("analysis.json"));
    let phases = analysis["telemetry"]["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 2);
    assert_eq!(phases[1]["tokens"], 3);
    let report = fs::read_to_string(with.join("report.md")).unwrap();
    assert!(report.contains("## Telemetry") && report.contains("## Roofline"));
    works(
        folder.path(),
        &["hydra.run.dir=without", "pipeline.telemetry.enable=false"],
    );
    let without = folder.path().join("without");
    assert!(!without.join("telemetry.csv").exists());
    assert!(
        json(&without.join("analysis.json"))
            .get("telemetry")
            .is_none()
    );
}

/// Threads that keep every processor busy twice over, until they are dropped.
struct Spinning {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinning {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let processors = thread::available_parallelism().unwrap().get();
        let threads = (0..2 * processors).map(|_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        });
        Self {
            threads: threads.collect(),
            stop,
        }
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// With two threads of others for each processor, the worker has to wait on any machine.
#[test]
fn programs_that_take_processors_from_a_run_are_reported() {
    let folder = folder();
    let spinning = Spinning::start();
    let text = warns(
        folder.path(),
        &[
            "workload.prompt_tokens=256",
            "infer.max_new_tokens=64",
            "runtime.repeats=10",
            "pipeline.telemetry.hz=50",
            "hydra.run.dir=out",
        ],
    );
    drop(spinning);
    assert!(
        text.contains("[run.processors_shared]") && text.contains("`top` shows"),
        "{text}"
    );
    let out = folder.path().join("out");
    let issues = json(&out.join("run.json"))["issues"].to_string();
    assert!(issues.contains("run.processors_shared"), "{issues}");
    for name in ["report.md", "report.html"] {
        let page = fs::read_to_string(out.join(name)).unwrap();
        assert!(page.contains("other programs kept"), "{name}");
    }
    let summary = fs::read_to_string(out.join("stakeholder_summary.md")).unwrap();
    assert!(summary.contains("on a quiet one it is faster"), "{summary}");
    let usage = &json(&out.join("analysis.json"))["telemetry"]["processors"];
    let figure = |name: &str| usage[name].as_f64().unwrap();
    assert!(figure("busy") > figure("worker"), "{usage}");
    let samples = fs::read_to_string(out.join("telemetry.csv")).unwrap();
    let columns = "usable_cores,usable_cores_busy,worker_waiting_threads,quota_throttled_cores";
    assert!(samples.lines().next().unwrap().ends_with(columns));
}

#[test]
fn jobs_of_a_sweep_are_compared() {
    let folder = folder();
    let text = works(
        folder.path(),
        &["-m", "runtime.batch_size=1,2", "hydra.sweep.dir=sweep"],
    );
    assert!(text.starts_with("Most tokens/s: "), "{text}");
    assert!(text.ends_with("report: sweep/comparison.html\n"), "{text}");
    let is_head = |line: &&str| line.contains("TOKENS/S  ");
    let rows = text.lines().skip_while(|line| !is_head(line)).skip(1);
    for (row, batch) in rows.zip(1..=2) {
        let differing = format!("  runtime.batch_size={batch}  complete");
        assert!(row.contains(&differing), "{text}");
    }
    let csv = fs::read_to_string(folder.path().join("sweep/comparison.csv")).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 3);
    for (row, job) in rows[1..].iter().zip(["0", "1"]) {
        // The table repeats each job's own figures.
        let metrics = json(&folder.path().join("sweep").join(job).join("metrics.json"));
        let rate = metrics["aggregates"]["tokens_per_s"]["mean"]
            .as_f64()
            .unwrap();
        assert_eq!(row[5].parse::<f64>().unwrap(), rate);
    }
    let page = fs::read_to_string(folder.path().join("sweep/comparison.md")).unwrap();
    assert!(page.contains("| 1.00× |"), "{page}");
}

/// Only what differs stands in the table, and no job starts where one is a mistake.
#[test]
fn mistakes_of_a_sweep_are_found_before_its_first_job() {
    let folder = folder();
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder.path())
        .args(words(&[
            "-m",
            "runtime.batch_size=1,many",
            "hydra.sweep.dir=sweep",
        ]))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("runtime.batch_size=many"), "{text}");
    assert!(!text.contains("job 0") && !folder.path().join("sweep").exists());
}

#[test]
fn bad_requests_are_refused_in_their_own_words() {
    let folder = folder();
    let root = folder.path();
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("blank.txt"), "").unwrap();
    fs::write(root.join("words.txt"), "a b").unwrap();
    fs::write(root.join("missing.lst"), "words.txt\ngone.txt\n").unwrap();
    fs::write(
        root.join("other.json"),
        TINY.replace("\"llama\"", "\"gpt_neox\"").replace(
            "\"num_key_value_heads\": 2,",
            "\"rotary_pct\": 0.25, \"max_position_embeddings\": 64,",
        ),
    )
    .unwrap();
    fs::write(root.join("broken.json"), "{\"version\": ").unwrap();
    let beside = root.join("absent.lst").display().to_string();
    let cases: [(&[&str], &[&str]); 9] = [
        (
            &["model.config=other.json"],
            &["gpt_neox", "llama, mistral, qwen2"],
        ),
        (
            &["dataset=text", "dataset.root=empty"],
            &[
                "dataset text",
                "no .txt, .md, .jsonl, .json, .csv, .parquet or image file",
            ],
        ),
        (&["dataset=text", "dataset.root=blank.txt"], &["blank.txt"]),
        (
            &[
                "dataset=text",
                "dataset.root=.",
                "dataset.subset_filelist=missing.lst",
            ],
            &["gone.txt"],
        ),
        (
            &["dataset=text", "dataset.root=words.txt"],
            &["no tokenizer", "model.tokenizer=DIR"],
        ),
        (
            &[
                "dataset=text",
                "dataset.root=words.txt",
                "model.tokenizer=broken.json",
            ],
            &["cannot read the tokenizer", "broken.json"],
        ),
        (&["hardware.spec=h2000"], &["h2000", "h200"]),
        (
            &["pipeline.telemetry.hz=1000"],
            &["pipeline.telemetry.hz", "between 1 and 50"],
        ),
        (
            &[
                "dataset=text",
                "dataset.root=empty",
                "dataset.subset_filelist=absent.lst",
            ],
            &["no file list absent.lst", "empty/absent.lst and", &beside],
        ),
    ];
    for (number, (overrides, expected)) in cases.into_iter().enumerate() {
        let dir = format!("hydra.run.dir=case{number}");
        let words: Vec<&str> = overrides.iter().copied().chain([dir.as_str()]).collect();
        let text = refused(root, &words);
        for part in expected {
            assert!(text.contains(part), "{overrides:?}: {text}");
        }
    }
    // What a request alone shows to be wrong leaves no directory.
    for number in [1, 2, 3, 6, 7] {
        assert!(!root.join(format!("case{number}")).exists(), "{number}");
    }
}

/// A pass is held in memory: sizes beyond that are refused before it is filled.
#[test]
fn passes_that_do_not_fit_in_memory_are_refused() {
    let folder = folder();
    for (size, words) in [
        (
            "workload.prompt_tokens=99999999999",
            "`workload.prompt_tokens` is 99999999999",
        ),
        (
            "dataset.sampling.num_epochs=99999999999",
            "99999999999 prompts",
        ),
        ("runtime.batch_size=16000000", "16000000"),
    ] {
        let said = refused(folder.path(), &[size]);
        assert!(said.contains(words), "{size}: {said}");
    }
    assert!(!folder.path().join("runs").exists());
}

#[test]
fn requests_beyond_the_context_are_reported() {
    let folder = folder();
    let more = ["+model.max_position_embeddings=10", "hydra.run.dir=out"];
    works(folder.path(), &more);
    let issues = json(&folder.path().join("out/run.json"))["issues"].clone();
    let mut issues = issues.as_array().unwrap().iter();
    let issue = issues.find(|issue| issue["code"] == "workload.beyond_context");
    let values = &issue.unwrap()["values"];
    assert_eq!(
        (&values["positions"], &values["most"]),
        (&11.into(), &10.into())
    );
}

/// What was measured before a Ctrl-C is analyzed and reported.
#[test]
fn an_interrupted_run_tells_what_it_measured() {
    let folder = folder();
    let mut child = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder.path())
        .args(words(&["runtime.repeats=1000000", "hydra.run.dir=out"]))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(child.stderr.take().unwrap()).lines();
    let second = progress.find(|line| line.as_ref().unwrap().starts_with("plain 2"));
    assert!(second.is_some());
    // The worker's pipe is read on, so that it never waits for us.
    let reader = std::thread::spawn(move || progress.count());
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    reader.join().unwrap();
    let out = folder.path().join("out");
    assert_eq!(json(&out.join("run.json"))["status"], "interrupted");
    assert!(
        json(&out.join("metrics.json"))["aggregates"]["tpot_ms"]["mean"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("the run was interrupted"), "{report}");
    assert!(!report.contains("Where the time went"), "{report}");
    assert!(!out.join("trace.llmprof").exists() && !out.join("operators.md").exists());
    common::works(folder.path(), &["analyze", "out"]);
}

#[test]
fn a_step_that_takes_too_long_is_ended() {
    let folder = folder();
    let more = ["runtime.timeout_s=0.000001", "hydra.run.dir=out"];
    let said = refused(folder.path(), &more);
    assert!(
        said.contains("the worker did not load the model: it took longer than 1µs")
            && said.contains("runtime.timeout_s=SECONDS"),
        "{said}"
    );
    assert_eq!(
        json(&folder.path().join("out/run.json"))["status"],
        "failed"
    );
}

/// A sweep that is interrupted exits like a run that is.
#[test]
fn an_interrupted_sweep_says_so() {
    let folder = folder();
    let more = [
        "-m",
        "runtime.repeats=1000000",
        "runtime.batch_size=1,2",
        "hydra.sweep.dir=out",
    ];
    let mut child = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder.path())
        .args(words(&more))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(progress.any(|line| line.unwrap().starts_with("plain 1")));
    let reader = std::thread::spawn(move || progress.count());
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    reader.join().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("interrupted") && table.contains("1 job was not started"),
        "{table}"
    );
}

#[test]
fn generation_ends_at_the_end_token_when_asked_to() {
    let folder = folder();
    // Every token ends a text, so that the first does.
    let all: Vec<String> = (0..100).map(|id| id.to_string()).collect();
    let config = TINY.replace(
        "\"eos_token_id\": 2",
        &format!("\"eos_token_id\": [{}]", all.join(", ")),
    );
    fs::write(folder.path().join("tiny.json"), config).unwrap();
    works(
        folder.path(),
        &["infer.ignore_eos=false", "hydra.run.dir=out"],
    );
    let metrics = json(&folder.path().join("out/metrics.json"));
    assert_eq!(metrics["requests"][0]["output_tokens"], 1);
}

/// One layer, one token of prompt, one new one, one pass: whatever is counted, one of it is no plural.
#[test]
fn one_is_never_reported_in_the_plural() {
    let folder = folder();
    let one = [
        "+model.num_hidden_layers=1",
        "workload.prompt_tokens=1",
        "infer.max_new_tokens=1",
        "runtime.warmup=1",
        "hydra.run.dir=out",
    ];
    let output = common::llmprof(folder.path(), &words(&one));
    assert!(output.status.success());
    let mut texts = vec![
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    ];
    for entry in fs::read_dir(folder.path().join("out")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|end| end == "md" || end == "html")
        {
            texts.push(fs::read_to_string(path).unwrap());
        }
    }
    assert!(texts.len() > 5 && texts.concat().contains("1 new token"));
    for text in &texts {
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.windows(2) {
            let name = pair[1].trim_matches(|letter: char| !letter.is_alphanumeric());
            // `GFLOP/s` is a unit.
            let is_plural = name.len() > 3
                && name.ends_with('s')
                && !name.ends_with("ss")
                && !name.contains('/');
            let is_one = pair[0].trim_start_matches(['(', '>']) == "1";
            assert!(!(is_one && is_plural), "{pair:?}");
        }
    }
}

/// 60 kB of text that rules of a small file double forty times: the process that tokenizes ends, and nothing else.
#[test]
fn a_tokenizer_that_grows_without_bound_ends_alone() {
    let folder = folder();
    let root = folder.path();
    let doubling = r#"{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}"#;
    let normalizers = format!(
        r#""normalizer": {{"type": "Sequence", "normalizers": [{}]}}"#,
        [doubling; 40].join(", ")
    );
    let hostile = tokenizer().replace(r#""normalizer": null"#, &normalizers);
    assert!(hostile.len() < 10_000);
    fs::write(root.join("tokenizer.json"), hostile).unwrap();
    fs::write(root.join("text.txt"), "a".repeat(60_000)).unwrap();
    let text = refused(
        root,
        &[
            "dataset=text",
            "dataset.root=text.txt",
            "model.tokenizer=.",
            "hydra.run.dir=out",
        ],
    );
    assert!(
        text.contains("cannot tokenize") && text.contains("the tokenizer needs more than"),
        "{text}"
    );
}

#[test]
fn files_of_models_that_are_no_files_are_refused() {
    let folder = folder();
    let root = folder.path();
    fs::write(root.join("text.txt"), "a b c").unwrap();
    fs::create_dir(root.join("model")).unwrap();
    let fifo = root.join("model/tokenizer.json");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let zeros = root.join("model/config.json");
    std::os::unix::fs::symlink("/dev/zero", &zeros).unwrap();
    let text = refused(root, &["model.config=model/config.json"]);
    assert!(text.contains("is not a file"), "{text}");
    let text = refused(
        root,
        &[
            "dataset=text",
            "dataset.root=text.txt",
            "model.tokenizer=model/tokenizer.json",
        ],
    );
    assert!(text.contains("not a regular file"), "{text}");
    let huge = root.join("model/huge.json");
    fs::File::create(&huge).unwrap().set_len(1 << 30).unwrap();
    let text = refused(root, &["model.config=model/huge.json"]);
    assert!(text.contains("larger than the limit of 16 MiB"), "{text}");
}
