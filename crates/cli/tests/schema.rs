//! What is written and printed fits its JSON Schema, and has no key that the schema does not name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use llmprof_load::stub::{Behaviour, Stub};
use serde_json::{Value, json};

const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false, "eos_token_id": 2}"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Python with `jsonschema`; none where there is none and it need not be.
fn python() -> Option<String> {
    let default = root().join(".venv/bin/python").display().to_string();
    let python = std::env::var("LLMPROF_PYTHON").unwrap_or(default);
    let works = Command::new(&python)
        .args(["-c", "import jsonschema"])
        .output();
    let is_there = works.is_ok_and(|output| output.status.success());
    assert!(
        is_there || std::env::var_os("LLMPROF_REQUIRE_PYTHON").is_none(),
        "LLMPROF_REQUIRE_PYTHON is set and {python} has no jsonschema"
    );
    is_there.then_some(python)
}

/// What a validator says of documents, each with the name of its schema. A key that the schema does not name is an error.
fn faults(documents: &[(&str, Value)]) -> Option<String> {
    let mut validator = Command::new(python()?)
        .args(["-c", include_str!("common/validate.py")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = validator.stdin.take().unwrap();
    for (name, document) in documents {
        let schema: Value =
            serde_json::from_str(&common::works(&root(), &["schema", name])).unwrap();
        writeln!(
            input,
            "{}",
            json!({"name": name, "schema": schema, "document": document})
        )
        .unwrap();
    }
    drop(input);
    let output = validator.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.success(), text.trim().is_empty(), "{text}");
    Some(text.trim().to_owned())
}

fn assert_valid(documents: &[(&str, Value)]) {
    let faults = faults(documents).unwrap_or_default();
    assert!(faults.is_empty(), "{faults}");
}

/// Files that have a schema, by the name of it. Other tools define the rest.
const SCHEMAS_OF_FILES: [(&str, &str); 27] = [
    ("run.json", "run"),
    ("record.json", "record"),
    ("analysis.json", "analysis"),
    ("metrics.json", "metrics"),
    ("static_compute.json", "static_compute"),
    ("compare.json", "compare"),
    ("bench.json", "bench"),
    ("sweep.json", "sweep"),
    ("load.json", "load"),
    ("requests.jsonl", "requests"),
    ("metrics_window.json", "metrics_window"),
    ("env.json", "env"),
    ("sources.json", "sources"),
    ("samples.json", "samples"),
    ("counters.json", "counters"),
    ("memory.json", "memory"),
    ("allocator.json", "allocator"),
    ("communication.json", "communication"),
    ("summaries.json", "summaries"),
    ("slices.json", "slices"),
    ("overhead.json", "overhead"),
    ("layers.json", "layers"),
    ("flat.json", "flat"),
    ("direct_inference.json", "direct_inference"),
    ("job.json", "offline_job"),
    ("jobs.json", "jobs"),
    ("info.json", "visualization"),
];
/// vLLM's layout.
const WITHOUT_SCHEMA: [&str; 1] = ["vllm_bench.json"];

/// The name of the schema of a file.
fn schema_of(path: &Path) -> &'static str {
    let name = path.file_name().unwrap().to_str().unwrap();
    if path.parent().unwrap().ends_with("predictions") {
        return if name == "skipped.jsonl" {
            "skipped"
        } else {
            "prediction"
        };
    }
    if name.starts_with("jobs_") {
        return "jobs";
    }
    let known = SCHEMAS_OF_FILES.iter().find(|(file, _)| *file == name);
    known
        .unwrap_or_else(|| panic!("{} has no schema", path.display()))
        .1
}

/// Every JSON file in a folder and the folders in it, with the name of its schema.
fn documents_in(folder: &Path) -> Vec<(&'static str, Value)> {
    let mut documents = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            documents.extend(documents_in(&path));
        } else if path
            .extension()
            .is_some_and(|end| end == "json" || end == "jsonl")
            && !WITHOUT_SCHEMA.contains(&name)
        {
            let schema = schema_of(&path);
            let text = fs::read_to_string(&path).unwrap();
            if path.extension().is_some_and(|end| end == "jsonl") {
                let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
                documents.extend(lines.map(|line| (schema, line)));
            } else {
                documents.push((schema, serde_json::from_str(&text).unwrap()));
            }
        }
    }
    documents
}

/// Checks every JSON file of a run; the answer is the names of their schemas.
fn check(run: &Path) -> Vec<&'static str> {
    let documents = documents_in(run);
    assert_valid(&documents);
    documents.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn an_import_with_a_model_fits_its_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let trace = root().join("fixtures/h200/torch_full.json.gz");
    let trace = trace.to_str().unwrap();
    let words = [
        "import",
        trace,
        "model=qwen2_5_0_5b",
        "workload.prompt_tokens=128",
        "infer.max_new_tokens=3",
        "--device=h200",
        "-o",
        "run",
    ];
    common::works(folder.path(), &words);
    let names = check(&folder.path().join("run"));
    for name in ["analysis", "metrics", "record", "run"] {
        assert!(names.contains(&name), "{names:?}");
    }
}

#[test]
fn other_imports_fit_their_schemas() {
    for file in [
        "cupti/slices.wire.gz",
        "memory_snapshot.pickle.gz",
        "ncu/decode_raw.csv.gz",
        "nsys/stats_cuda_gpu_kern_sum.csv",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = root().join("fixtures/h200").join(file);
        common::works(
            folder.path(),
            &["import", path.to_str().unwrap(), "-o", "run"],
        );
        check(&folder.path().join("run"));
    }
}

#[test]
fn ranks_fit_their_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let rank = |number: u32| {
        let file = format!("fixtures/public/ranks_dlrm/rank{number}.json.gz");
        root().join(file).display().to_string()
    };
    let (first, second) = (rank(0), rank(1));
    let words = ["import", &first, &second, "-o", "run"];
    common::works(folder.path(), &words);
    check(&folder.path().join("run"));
    let words = ["import", "--summary-only", &first, "-o", "S", "--json"];
    let made = serde_json::from_str(&common::works(folder.path(), &words)).unwrap();
    let listed = common::works(folder.path(), &["runs", "list", "--root", ".", "--json"]);
    assert_valid(&[
        ("import_summary_only", made),
        ("runs", serde_json::from_str(&listed).unwrap()),
    ]);
}

/// Counters with classes and findings, GEMMs with shapes, and what is derived where counters are not there.
#[test]
fn a_stage_2_run_fits_its_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let stage2 = root().join("fixtures/h200/stage2");
    let files = ["run.sqlite.gz", "cublaslt.log.gz"].map(|file| stage2.join(file));
    let [timeline, log] = files.each_ref().map(|file| file.to_str().unwrap());
    common::works(folder.path(), &["import", timeline, log, "-o", "run"]);
    fs::copy(stage2.join("record.json"), run.join("record.json")).unwrap();
    common::works(folder.path(), &["analyze", "run"]);
    let keys = |name: &str| {
        let text = fs::read_to_string(run.join("analysis.json")).unwrap();
        let analysis: Value = serde_json::from_str(&text).unwrap();
        analysis.get(name).is_some()
    };
    // The record is that of an earlier version.
    let check_written = || {
        let mut documents = documents_in(&run);
        documents.retain(|(schema, _)| *schema != "record");
        assert_valid(&documents);
    };
    assert!(keys("gemms") && keys("derived_kernels") && !keys("counters"));
    check_written();
    let mut counters = Vec::new();
    let packed = fs::File::open(stage2.join("counters.json.gz")).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut counters).unwrap();
    fs::write(run.join("counters.json"), counters).unwrap();
    common::works(folder.path(), &["analyze", "run"]);
    assert!(keys("counters") && !keys("derived_kernels"));
    check_written();
}

#[test]
fn a_native_run_fits_its_schemas() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.json"), TINY).unwrap();
    let words = [
        "run",
        "model=local",
        "model.config=tiny.json",
        "model.dtype=f32",
        "workload.prompt_tokens=8",
        "infer.max_new_tokens=4",
        "hardware.spec=xeon_8480",
        "hydra.run.dir=run",
    ];
    common::works(folder.path(), &words);
    let run = folder.path().join("run");
    check(&run);
    // The cost of the model is at the root and where the stages have their folders.
    for name in ["static_compute.json", "static_compute.md"] {
        let read = |path: PathBuf| fs::read(path).unwrap();
        assert_eq!(
            read(run.join("static_analysis").join(name)),
            read(run.join(name))
        );
    }
}

/// Direct inference as a sweep of two processes of their own.
#[test]
fn a_sweep_of_direct_inference_fits_its_schemas() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.json"), TINY).unwrap();
    let words = "run -m +preset=direct_inference hydra/launcher=submitit_local hydra.sweep.dir=sweep \
        model=local model.config=tiny.json model.dtype=f32 dataset=synthetic infer.prompt=null \
        infer.max_new_tokens=1,2 hardware.spec=xeon_8480";
    let words: Vec<&str> = words.split_whitespace().collect();
    common::works(folder.path(), &words);
    let names = check(&folder.path().join("sweep"));
    for expected in ["jobs", "direct_inference", "prediction"] {
        assert!(names.contains(&expected), "{expected}: {names:?}");
    }
}

/// Traces, whose kernels replace each other, with a gate; and runs in turns, which have rounds.
#[test]
fn comparisons_fit_their_schema() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.json"), TINY).unwrap();
    let fixture = |name: &str| {
        let path = root().join("fixtures/h200").join(name);
        path.to_str().unwrap().to_owned()
    };
    let (a, b) = (
        fixture("torch_shapes.json.gz"),
        fixture("torch_full.json.gz"),
    );
    let words = [
        "compare",
        &a,
        &b,
        "--gate",
        "decode_step<+900%",
        "-o",
        "traces",
    ];
    common::works(folder.path(), &words);
    check(&folder.path().join("traces"));
    let request = "model=local model.config=tiny.json model.dtype=f32 workload.prompt_tokens=8 \
                   infer.max_new_tokens=4 hardware.spec=xeon_8480";
    let words = [
        "compare", "--run", request, "--run", request, "--rounds", "2", "--time", "1s", "-o",
        "turns",
    ];
    common::works(folder.path(), &words);
    check(&folder.path().join("turns"));
}

/// What a command prints, checked against its schema.
fn printed(words: &str, schema: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let words: Vec<&str> = words.split(' ').collect();
    let printed: Value = serde_json::from_str(&common::works(folder.path(), &words)).unwrap();
    assert_valid(&[(schema, printed.clone())]);
    printed
}

#[test]
fn a_prediction_fits_its_schema() {
    let printed_point = printed(
        "predict model=llama3_1_8b hardware.spec=h200 runtime=pytorch --tpot 20ms --ttft 1s --format json",
        "predict",
    );
    assert!(printed_point["held_out"].is_object());
    // A swept key is named by itself.
    let swept = printed(
        "predict model=llama3_1_8b hardware.spec=h200 runtime.batch_size=1,2 --format json",
        "predict",
    );
    assert_eq!(swept["points"][1]["runtime.batch_size"], "2");
}

#[test]
fn advice_a_simulation_and_a_plan_fit_their_schemas() {
    let advised = printed(
        "predict --advise model=llama3_1_8b hardware.spec=h200 runtime=pytorch --format json",
        "advise",
    );
    assert!(advised["advice"][0].is_object());
    let simulated = printed(
        "simulate model=llama3_1_8b hardware.spec=h200 --rate 8 --requests 50 --prompt-tokens 128 --output-tokens 16 --json",
        "simulate",
    );
    assert!(simulated["summary"].is_object());
    let planned = printed(
        "plan llama3_1_8b --rate 2 --prompt-tokens 128 --output-tokens 16 --slo ttft:p99<1s --devices h100_sxm --simulate-max 2 --requests-max 50 --json",
        "plan",
    );
    assert!(planned["candidates"][0].is_object());
}

#[test]
fn devices_and_checks_of_the_machine_fit_their_schemas() {
    let listed = printed("hardware list --json", "hardware");
    assert!(listed.as_array().unwrap().len() > 5);
    for device in ["h200", "xeon_8480"] {
        printed(&format!("hardware show {device} --json"), "hardware_show");
    }
    printed("doctor --json", "doctor");
    printed("model list --json", "models");
    printed(
        "model model=llama3_1_8b hardware.spec=h200 --json",
        "static_compute",
    );
    let trace = root().join("fixtures/h200/torch_full.json.gz");
    let asked = [
        "query",
        trace.to_str().unwrap(),
        "SELECT * FROM kernel LIMIT 2",
        "--format",
        "json",
    ];
    let rows = serde_json::from_str(&common::works(&root(), &asked)).unwrap();
    assert_valid(&[("query", rows)]);
}

/// A validator that lets everything pass would make every test here pass.
#[test]
fn what_does_not_fit_is_found() {
    let mut run = json!({
        "schema_version": 1, "status": "complete", "created": "2026-01-01T00:00:00Z",
    });
    let Some(missing) = faults(&[("run", run.clone())]) else {
        return;
    };
    assert!(missing.contains("is a required property"), "{missing}");
    run["surprise"] = json!(1);
    let unknown = faults(&[("run", run.clone())]).unwrap();
    assert!(unknown.contains("surprise"), "{unknown}");
    run["created"] = json!(5);
    let wrong = faults(&[("run", run)]).unwrap();
    assert!(wrong.contains("$.created"), "{wrong}");
}

#[test]
fn a_load_fits_its_schemas() {
    // One request at a time, far slower than they arrive: requests queue, and a client that is late by
    // some milliseconds on a busy machine is late by little of that.
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(60),
        step: Duration::from_millis(1),
        slots: 1,
        ..Behaviour::default()
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = stub.url();
    let words = "--rate 200 --requests 30 --output-tokens 4 --slo ttft:p99<10s --shared-prefix 8 -o run --json";
    let words: Vec<&str> = ["bench", &url]
        .into_iter()
        .chain(words.split(' '))
        .collect();
    let printed = common::works(folder.path(), &words);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_valid(&[("bench_printed", printed.clone())]);
    let findings = printed["findings"].as_array().unwrap();
    assert!(!findings.is_empty(), "{printed}");
    let names = check(&folder.path().join("run"));
    assert!(names.contains(&"bench") && names.contains(&"requests"));
}
