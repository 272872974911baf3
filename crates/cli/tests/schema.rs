//! What is written and printed fits its JSON Schema, and has no key that the schema does not name. Every schema has such an output, and every command that prints
//! JSON such a schema.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::{agents::client::Client, common, direct, record};

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use llmprof_record::rank_summary::RankSummary;
use llmprof_stub::{Behaviour, Stub};
use serde_json::{Value, json};
use tempfile::TempDir;

const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false, "eos_token_id": 2}"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Python with `jsonschema`.
fn python() -> PathBuf {
    std::env::var_os("LLMPROF_PYTHON").map_or_else(|| root().join(".venv/bin/python"), Into::into)
}

/// What a validator says of documents, each with the name of its schema. A key that the schema does not name is an error.
fn faults(documents: &[(String, Value)]) -> String {
    let mut validator = Command::new(python())
        .args(["-c", include_str!("common/validate.py")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = validator.stdin.take().unwrap();
    let mut schemas: BTreeMap<&str, Value> = BTreeMap::new();
    for (name, document) in documents {
        let schema = schemas.entry(name).or_insert_with(|| {
            serde_json::from_str(&common::works(&root(), &["schema", name])).unwrap()
        });
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
    text.trim().to_owned()
}

/// Files that have a schema, by the name of it. Other tools define the rest.
const SCHEMAS_OF_FILES: [(&str, &str); 32] = [
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
    ("statistics.json", "statistics"),
    ("result.jsonl", "offline_result"),
    ("samples.jsonl", "samples_row"),
    (".llmprof-snapshot.json", "hub_snapshot"),
    ("llmprof-baselines.json", "pytest_baselines"),
];
/// Ends of names of files in the layouts of vLLM and PyTorch.
const WITHOUT_SCHEMA: [&str; 2] = ["vllm_bench.json", ".pt.trace.json"];

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
fn documents_in(folder: &Path) -> Vec<(String, Value)> {
    let mut documents = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let ending = path.extension().and_then(|ending| ending.to_str());
        let mut add = |schema: &str, document| documents.push((schema.to_owned(), document));
        match ending {
            _ if path.is_dir() => documents.extend(documents_in(&path)),
            _ if WITHOUT_SCHEMA.iter().any(|end| name.ends_with(end)) => {}
            Some("json") => add(schema_of(&path), common::json(&path)),
            Some("jsonl") => {
                for line in fs::read_to_string(&path).unwrap().lines() {
                    add(schema_of(&path), serde_json::from_str(line).unwrap());
                }
            }
            Some("rank") => {
                let summary = RankSummary::from_bytes(&fs::read(&path).unwrap()).unwrap();
                add("rank", serde_json::to_value(summary).unwrap());
            }
            _ => {}
        }
    }
    documents
}

/// Commands in a folder of their own, and what they write and print.
struct Scene {
    folder: TempDir,
    /// With the name of the schema of each.
    documents: Vec<(String, Value)>,
    /// Commands that printed one of them.
    printed: Vec<String>,
}

/// `@NAME` is a fixture.
fn split_words(words: &str) -> Vec<String> {
    let fixture = |name: &str| root().join("fixtures").join(name).display().to_string();
    let words = words.split_whitespace();
    words
        .map(|word| {
            word.strip_prefix('@')
                .map_or_else(|| word.to_owned(), fixture)
        })
        .collect()
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tiny.json"), TINY).unwrap();
        Self {
            folder,
            documents: Vec::new(),
            printed: Vec::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a command prints that must end with one of these codes.
    fn run_command(&self, words: &str, codes: &[i32]) -> String {
        let arguments = split_words(words);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = common::llmprof(self.folder.path(), &arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code().unwrap();
        assert!(codes.contains(&code), "{words}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn run(&self, words: &str) {
        self.run_command(words, &[0]);
    }

    /// Keeps what a command prints, as a document of the schema or, of an answer for agents, of the one that it names.
    fn print(&mut self, schema: &str, words: &str) -> Value {
        // Gates, objectives and checks that fail print as well.
        let text = self.run_command(words, &[0, 1, 2]);
        let document: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words}: {error}"));
        self.keep(schema, document.clone());
        self.printed.push(words.to_owned());
        document
    }

    fn print_answer(&mut self, words: &str) -> Value {
        self.print("", words)
    }

    fn keep(&mut self, schema: &str, document: Value) {
        let named = document["schema"].as_str().filter(|_| schema.is_empty());
        self.documents
            .push((named.unwrap_or(schema).to_owned(), document));
    }

    /// Keeps all JSON files of a folder.
    fn keep_files(&mut self, name: &str) {
        self.documents.extend(documents_in(&self.path(name)));
    }
}

/// Each shows other parts of the schemas.
const SCENES: [fn(&mut Scene); 19] = [
    import_with_a_model,
    import_of_other_formats,
    import_of_an_engine,
    ranks_of_a_job,
    counters_of_kernels,
    run_on_an_h200,
    recorded_program,
    native_run_and_its_rows,
    run_of_pytorch,
    sweep_of_direct_inference,
    pages_with_boxes,
    comparisons,
    predictions,
    devices_and_machine,
    project_and_its_assets,
    source_from_the_hub,
    baselines_of_pytest,
    loads_of_servers,
    offline_engine,
];

fn import_with_a_model(scene: &mut Scene) {
    let words = "import @h200/torch_full.json.gz model=qwen2_5_0_5b workload.prompt_tokens=128 infer.max_new_tokens=3 \
        --device=h200 -o run --json";
    scene.print("analysis", words);
    scene.print("analysis", "analyze run --json");
    scene.print("flat", "export run --to flat-json -o -");
    let words = [
        "query",
        "run",
        "SELECT * FROM kernel LIMIT 2",
        "--format",
        "json",
    ];
    let rows = common::works(scene.folder.path(), &words);
    scene.keep("query", serde_json::from_str(&rows).unwrap());
    scene.printed.push("query --format json".to_owned());
    scene.print_answer("import @faults/sync_each_layer.json.gz --config @faults/config.json -o fault --format agent");
    for id in [
        "summary",
        "findings",
        "kernels",
        "finding=1",
        "kernel=1",
        "phase=decode",
        "window=0..1000000",
        "finding=99",
    ] {
        scene.print_answer(&format!("explain fault {id}"));
    }
    scene.keep_files("run");
    scene.keep_files("fault");
}

fn import_of_other_formats(scene: &mut Scene) {
    for (place, file) in [
        "cupti/slices.wire.gz",
        "memory_snapshot.pickle.gz",
        "ncu/decode_raw.csv.gz",
        "nsys/stats_cuda_gpu_kern_sum.csv",
        "nccl_debug.log",
        "nvml.csv",
    ]
    .into_iter()
    .enumerate()
    {
        scene.run(&format!("import @h200/{file} -o run{place}"));
        scene.keep_files(&format!("run{place}"));
    }
}

fn import_of_an_engine(scene: &mut Scene) {
    let profile = r#"[{"count":10},{"name":"fc","timeMs":10,"averageMs":1.0,"medianMs":1.0,"percentage":80}]"#;
    let layers = r#"{"Layers":[{"Name":"fc","LayerType":"gemm","ParameterType":"MatrixMultiply","Inputs":[{"Dimensions":[1,4096],"Format/Datatype":"FP16"}],
        "Outputs":[{"Dimensions":[1,4096],"Format/Datatype":"FP16"}],"Weights":{"Type":"Half","Count":16777216}}]}"#;
    fs::write(scene.path("profile.json"), profile).unwrap();
    fs::write(scene.path("engine.json"), layers).unwrap();
    scene.print(
        "layers",
        "import profile.json engine.json --device h200 --json -o run",
    );
    scene.keep_files("run");
}

fn ranks_of_a_job(scene: &mut Scene) {
    scene.run("import @public/ranks_dlrm/rank0.json.gz @public/ranks_dlrm/rank1.json.gz -o run");
    scene.print(
        "import_summary_only",
        "import --summary-only @public/ranks_dlrm/rank0.json.gz -o S --json",
    );
    scene.print("runs", "runs list --root . --json");
    scene.keep_files("run");
    scene.keep_files("S");
}

/// Counters with classes and findings, GEMMs with shapes, and what is derived where counters are not there.
fn counters_of_kernels(scene: &mut Scene) {
    scene.run("import @h200/stage2/run.sqlite.gz @h200/stage2/cublaslt.log.gz -o run");
    let stage2 = root().join("fixtures/h200/stage2");
    fs::copy(stage2.join("record.json"), scene.path("run/record.json")).unwrap();
    let derived = scene.print("analysis", "analyze run --json");
    let has = |analysis: &Value, name: &str| analysis.get(name).is_some();
    assert!(has(&derived, "gemms") && has(&derived, "derived_kernels"));
    let mut counters = Vec::new();
    let packed = fs::File::open(stage2.join("counters.json.gz")).unwrap();
    let mut unpacked = flate2::read::GzDecoder::new(packed);
    unpacked.read_to_end(&mut counters).unwrap();
    fs::write(scene.path("run/counters.json"), counters).unwrap();
    let counted = scene.print("analysis", "analyze run --json");
    assert!(has(&counted, "counters") && !has(&counted, "derived_kernels"));
    scene.print(
        "kernels",
        "kernels analyze @h200/ncu/decode_12.ncu-rep.gz --json",
    );
    // The record is that of an earlier version.
    let mut files = documents_in(&scene.path("run"));
    files.retain(|(schema, _)| schema != "record");
    scene.documents.extend(files);
}

/// A run with a plain pass beside the recorded one, and a pass whose worker told the memory of its allocator.
fn run_on_an_h200(scene: &mut Scene) {
    scene.run("import @h200/runs/eager05/cupti.wire.gz -o run");
    let mut record = common::json(&root().join("fixtures/h200/runs/eager05/record.json"));
    let bytes = json!(1 << 30);
    record["passes"][3]["allocator"] = json!([{
        "start_allocated_bytes": bytes, "peak_allocated_bytes": bytes, "peak_reserved_bytes": bytes, "end_allocated_bytes": bytes,
        "end_reserved_bytes": bytes, "peak_inactive_split_bytes": bytes, "allocations": 5, "retries": 0,
    }]);
    fs::write(scene.path("run/record.json"), record.to_string()).unwrap();
    scene.run("analyze run");
    scene.keep_files("run");
}

fn recorded_program(scene: &mut Scene) {
    let place = record::Place::new();
    let output = place.record("--json", "HOST cuda kernels:4 print:hello");
    let document = serde_json::from_slice(&output.stdout).unwrap();
    scene.keep("analysis", document);
    scene.printed.push("record --json".to_owned());
    scene.documents.extend(documents_in(&place.run()));
}

/// The words of a run on this CPU.
const NATIVE: &str = "model=local model.config=tiny.json model.dtype=f32 workload.prompt_tokens=8 infer.max_new_tokens=4 hardware.spec=xeon_8480";

fn native_run_and_its_rows(scene: &mut Scene) {
    fs::create_dir(scene.path("code")).unwrap();
    scene.print_answer(&format!(
        "run {NATIVE} model.impl_src={{upstream_dir:code}} hydra.run.dir=run --format agent"
    ));
    scene.print("runs_show", "runs show run --json");
    // The cost of the model is at the root and where the stages have their folders.
    for name in ["static_compute.json", "static_compute.md"] {
        let read = |path: PathBuf| fs::read(path).unwrap();
        let staged = scene.path("run/static_analysis").join(name);
        assert_eq!(read(staged), read(scene.path("run").join(name)));
    }
    scene.keep_files("run");
}

/// A pass with PyTorch's profiler beside one without.
fn run_of_pytorch(scene: &mut Scene) {
    let python = std::path::absolute(python()).unwrap();
    let worker = format!(
        "runtime=pytorch device=cpu runtime.python={}",
        python.display()
    );
    let passes =
        "runtime.warmup=1 runtime.repeats=1 runtime.threads=1 pipeline.torch_profiler.enable=true";
    scene.run(&format!(
        "run {NATIVE} model.load_format=dummy {worker} {passes} hydra.run.dir=run"
    ));
    scene.keep_files("run");
}

/// Two processes, one for each point.
fn sweep_of_direct_inference(scene: &mut Scene) {
    scene.run(
        "run -m +preset=direct_inference hydra/launcher=submitit_local hydra.sweep.dir=sweep model=local \
         model.config=tiny.json model.dtype=f32 dataset=synthetic infer.prompt=null infer.max_new_tokens=1,2 hardware.spec=xeon_8480",
    );
    scene.keep_files("sweep");
}

/// Grounded text that is drawn, and a page that is skipped.
fn pages_with_boxes(scene: &mut Scene) {
    let folder = direct::scene(2);
    fs::write(folder.path().join("pages/broken.png"), "no image").unwrap();
    let output = common::llmprof(folder.path(), &direct::words(&direct::PAGES));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    scene
        .documents
        .extend(documents_in(&folder.path().join("out")));
}

/// Traces, whose kernels replace each other, with a gate; and runs in turns, which have rounds.
fn comparisons(scene: &mut Scene) {
    scene.run("compare @h200/torch_shapes.json.gz @h200/torch_full.json.gz --gate decode_step<+900% -o traces");
    let request = format!("{NATIVE} runtime.repeats=1");
    let words = [
        "compare", "--run", &request, "--run", &request, "--rounds", "2", "--time", "1s", "-o",
        "turns",
    ];
    common::works(scene.folder.path(), &words);
    let pair = "@faults/control.json.gz @faults/sync_each_layer.json.gz";
    scene.print(
        "compare",
        &format!("compare {pair} --save-baseline main -o pair --json"),
    );
    scene.print_answer(&format!("compare {pair} --format agent"));
    scene.keep("baseline", common::json(&scene.path("baselines/main.json")));
    for folder in ["traces", "turns", "pair"] {
        scene.keep_files(folder);
    }
}

fn predictions(scene: &mut Scene) {
    let model = "model=llama3_1_8b hardware.spec=h200";
    let point = scene.print(
        "predict",
        &format!("predict {model} runtime=pytorch --tpot 20ms --ttft 1s --json"),
    );
    assert!(point["held_out"].is_object());
    // A swept key is named by itself.
    let swept = scene.print(
        "predict",
        &format!("predict {model} runtime.batch_size=1,2 --format json"),
    );
    assert_eq!(swept["points"][1]["runtime.batch_size"], "2");
    let advised = scene.print(
        "advise",
        &format!("predict --advise {model} runtime=pytorch --json"),
    );
    assert!(advised["advice"][0].is_object());
    let load = "--prompt-tokens 128 --output-tokens 16";
    scene.print(
        "simulate",
        &format!("simulate {model} --rate 8 --requests 50 {load} --json"),
    );
    let planned = scene.print(
        "plan",
        &format!("plan llama3_1_8b --rate 2 {load} --slo ttft:p99<1s --devices h100_sxm --simulate-max 2 --requests-max 50 --json"),
    );
    assert!(planned["candidates"][0].is_object());
    scene.print("static_compute", &format!("model {model} --json"));
    scene.print("models", "model list --json");
}

fn devices_and_machine(scene: &mut Scene) {
    let listed = scene.print("hardware", "hardware list --json");
    assert!(listed.as_array().unwrap().len() > 5);
    for device in ["h200", "xeon_8480"] {
        scene.print("hardware_show", &format!("hardware show {device} --json"));
    }
    scene.print("doctor", "doctor --json");
    let python = format!(
        "--python={}",
        std::path::absolute(python()).unwrap().display()
    );
    scene.run(&format!(
        "hardware measure --gpu --quick --device=cpu -o gpu.yaml {python}"
    ));
    // Device files are YAML; those that are measured are written as JSON.
    scene.keep("device", common::json(&scene.path("gpu.yaml")));
    scene.keep("curves", common::json(&scene.path("gpu.curves.json")));
    scene.run("hardware measure -o cpu.yaml");
    scene.keep("device", common::json(&scene.path("cpu.yaml")));
}

/// A project with a model that is missing, a dataset with a variant, and an external.
fn project_and_its_assets(scene: &mut Scene) {
    let texts = tempfile::tempdir().unwrap();
    let rows = texts.path().join("rows.jsonl");
    fs::write(&rows, "{\"text\": \"a b\"}\n{\"text\": \"c\"}\n").unwrap();
    let files = [
        (
            "models/bootstrap.yaml",
            "models:\n  - {repo_id: org/none, repo_link_name: none}\n",
        ),
        (
            "third_party/externals.yaml",
            "externals:\n  - {path: up, kind: submodule, url: ../up}\n",
        ),
    ];
    scene.run("init . --yes --force");
    for (name, text) in files {
        fs::write(scene.path(name), text).unwrap();
    }
    let git = Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(scene.folder.path())
        .status();
    assert!(git.unwrap().success());
    let source = texts.path().display();
    scene.run(&format!("dataset add texts --source {source} --yes"));
    scene.run("dataset variant texts --samples 1 --yes");
    for (schema, words) in [
        ("datasets", "dataset list"),
        ("dataset", "dataset show texts"),
        ("externals", "externals status"),
        ("bootstrap", "bootstrap --check"),
    ] {
        let printed = scene.print(schema, &format!("{words} --json"));
        assert!(printed.is_object() || printed.get(0).is_some(), "{words}");
    }
    scene.keep_files("datasets/texts/analysis");
    scene.keep_files("datasets/texts/subset-1");
    let sound = scene.print("dataset_verify", "dataset verify --json");
    fs::remove_file(rows).unwrap();
    let damaged = scene.print("dataset_verify", "dataset verify --json");
    assert!(sound.get(0).is_none() && damaged.get(0).is_some());
}

/// What `hf download` leaves in a local folder.
const HF: &str = r#"#!/bin/sh
mkdir -p "$8/.cache/huggingface/download"
echo text > "$8/LICENSE"
echo 0123456789012345678901234567890123456789 > "$8/.cache/huggingface/download/LICENSE.metadata"
"#;

fn source_from_the_hub(scene: &mut Scene) {
    scene.run("init . --yes --force");
    fs::create_dir(scene.path("bin")).unwrap();
    write_program(&scene.path("bin/hf"), HF);
    let manifest = "externals:\n  - {path: model, kind: hub, repo_id: org/model}\n";
    fs::write(scene.path("third_party/externals.yaml"), manifest).unwrap();
    let path = format!(
        "{}:{}",
        scene.path("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args(["externals", "snapshot", "--yes"])
        .current_dir(scene.folder.path())
        .env("PATH", path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    scene.keep_files("third_party/model");
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What the plugin of pytest keeps.
fn baselines_of_pytest(scene: &mut Scene) {
    let test = "def test_one(llmprof_regression):\n    llmprof_regression.check('kernels', 7, limit=0)\n    \
        llmprof_regression.check('time', [0.5, 0.75], limit=0.5, unit='s')\n";
    fs::write(scene.path("test_one.py"), test).unwrap();
    let output = Command::new(python())
        .args([
            "-m",
            "pytest",
            "-p",
            "llmprof_harness.pytest_plugin",
            "--llmprof-update",
        ])
        .current_dir(scene.folder.path())
        .env("PYTHONPATH", root().join("python"))
        // The plugin may be installed too, and is not registered twice.
        .env("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    scene.keep(
        "pytest_baselines",
        common::json(&scene.path("llmprof-baselines.json")),
    );
}

fn loads_of_servers(scene: &mut Scene) {
    // One request at a time, far slower than they arrive: requests queue, and a client that is late by some milliseconds on a busy
    // machine is late by little of that.
    let stub = Stub::start(Behaviour {
        prefill: Duration::from_millis(60),
        step: Duration::from_millis(1),
        slots: 1,
        ..Behaviour::default()
    })
    .unwrap();
    let url = stub.url();
    let words = "--rate 200 --requests 30 --output-tokens 4 --slo ttft:p99<10s --shared-prefix 8";
    let printed = scene.print(
        "bench_printed",
        &format!("bench {url} {words} -o run --json"),
    );
    assert!(printed["findings"].get(0).is_some(), "{printed}");
    scene.print_answer("explain run request=0");
    scene.print(
        "bench_import",
        "bench --import @vllm/bench_serve.json --json",
    );
    scene.print_answer(&format!(
        "bench {url} --requests 4 --output-tokens 2 -o small --format agent"
    ));
    let sweep = "--sweep 8:16 --requests 4 --output-tokens 1 --slo ttft:p50<10s";
    scene.print(
        "bench_printed",
        &format!("bench {url} {sweep} -o swept --json"),
    );
    for folder in ["run", "small", "swept"] {
        scene.keep_files(folder);
    }
    let mut client = Client::start(scene.folder.path());
    let predict = json!({"overrides": ["model=llama3_1_8b", "hardware.spec=h200"]});
    for (tool, arguments) in [("runs", json!({})), ("predict", predict)] {
        scene.keep("", client.call(tool, &arguments).answer);
    }
}

/// A package in the place of vLLM: every token of a request comes at once.
const VLLM: &str = r#"
class SamplingParams:
    def __init__(self, max_tokens, **options):
        self.max_tokens = max_tokens

class Answer:
    metrics = None
    finished = True
    def __init__(self, request_id, tokens):
        self.request_id = request_id
        self.outputs = [self]
        self.token_ids = [1] * tokens

class LLM:
    @classmethod
    def from_engine_args(cls, arguments):
        return cls()
    def __init__(self):
        self.llm_engine = self
        self.waiting = []
    def add_request(self, request_id, prompt, sampling):
        if request_id == "3":
            raise ValueError("refused")
        self.waiting.append(Answer(request_id, sampling.max_tokens))
    def has_unfinished_requests(self):
        return bool(self.waiting)
    def step(self):
        return [self.waiting.pop()]

__version__ = "0.0"
"#;
const VLLM_ARGUMENTS: &str = r"
class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        return parser
    @classmethod
    def from_cli_args(cls, arguments):
        return cls()
";
const VLLM_PARSER: &str = r"
class FlexibleArgumentParser:
    def parse_args(self, words):
        return words
";

fn offline_engine(scene: &mut Scene) {
    for (file, text) in [
        ("__init__", VLLM),
        ("engine/arg_utils", VLLM_ARGUMENTS),
        ("utils/argparse_utils", VLLM_PARSER),
    ] {
        let path = scene.path(&format!("package/vllm/{file}.py"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let package = scene.path("package");
    let (package, python) = (package.display(), std::path::absolute(python()).unwrap());
    let program = format!(
        "#!/bin/sh\nPYTHONPATH={package} exec {} \"$@\"\n",
        python.display()
    );
    write_program(&scene.path("python"), &program);
    fs::create_dir(scene.path("model")).unwrap();
    fs::copy(scene.path("tiny.json"), scene.path("model/config.json")).unwrap();
    let offline = format!(
        "run runtime=vllm runtime.serving.offline=true runtime.python={} runtime.serving.requests=4 hydra.run.dir=offline \
        model=local model.path=model model.load_format=dummy model.dtype=f32 workload.prompt_tokens=8 infer.max_new_tokens=4 hardware.spec=xeon_8480",
        scene.path("python").display()
    );
    scene.run_command(&offline, &[0, 3]);
    scene.keep_files("offline");
}

/// Names of commands, as paths of words, with `json` or `agent` for each way to print JSON that their help has.
fn commands_with_json(folder: &Path, path: &[&str]) -> BTreeSet<String> {
    let help = common::works(folder, &[path, &["--help"]].concat());
    let mut commands = BTreeSet::new();
    let options = help.find("Options:").unwrap();
    let subcommands = help[..options].lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        (is_name && name != "help" && !line.contains("llmprof ")).then_some(name)
    });
    if help.contains("<COMMAND>") || help.contains("[COMMAND]") {
        for name in subcommands {
            commands.extend(commands_with_json(folder, &[path, &[name]].concat()));
        }
    }
    for line in help[options..].lines().map(str::trim_start) {
        let kind = match line.split([' ', ':']).collect::<Vec<_>>()[..] {
            ["--json", ..] | ["-", "json" | "flat-json", ..] => "json",
            ["-", "agent", ..] => "agent",
            _ => continue,
        };
        commands.insert([path, &[kind]].concat().join(" "));
    }
    commands
}

/// The command and the way that words ask for.
fn command_and_kind(words: &str, commands: &BTreeSet<String>) -> Option<String> {
    let kind = if words.contains("--format agent") {
        "agent"
    } else {
        "json"
    };
    let words: Vec<&str> = words.split_whitespace().collect();
    let longest = (1..=2)
        .rev()
        .map(|count| format!("{} {kind}", words[..count].join(" ")));
    longest
        .into_iter()
        .find(|command| commands.contains(command))
}

#[test]
#[ignore = "live: needs jsonschema, torch and transformers"]
fn every_schema_has_an_output_that_fits_it_and_every_command_with_json_a_schema() {
    let mut documents = Vec::new();
    let mut printed = Vec::new();
    for play in SCENES {
        let mut scene = Scene::new();
        play(&mut scene);
        documents.append(&mut scene.documents);
        printed.append(&mut scene.printed);
    }
    let faults = faults(&documents);
    assert!(faults.is_empty(), "{faults}");
    let folder = tempfile::tempdir().unwrap();
    let short = |id: &str| {
        let name = id.strip_prefix("llmprof.").unwrap_or(id);
        name.split('/').next().unwrap_or(name).to_owned()
    };
    let listed = common::works(folder.path(), &["schema"]);
    let listed: BTreeSet<String> = listed.lines().map(short).collect();
    let checked: BTreeSet<String> = documents.iter().map(|(name, _)| short(name)).collect();
    assert_eq!(checked, listed);
    let commands = commands_with_json(folder.path(), &[]);
    let asked = printed
        .iter()
        .filter_map(|words| command_and_kind(words, &commands));
    assert_eq!(asked.collect::<BTreeSet<_>>(), commands);
}

/// A validator that lets everything pass would make the test above pass.
#[test]
#[ignore = "live: needs jsonschema"]
fn what_does_not_fit_is_found() {
    let faults = |run: &Value| faults(&[("run".to_owned(), run.clone())]);
    let mut run = json!({
        "schema_version": 1, "status": "complete", "created": "2026-01-01T00:00:00Z",
    });
    let missing = faults(&run);
    assert!(missing.contains("is a required property"), "{missing}");
    run["surprise"] = json!(1);
    let unknown = faults(&run);
    assert!(unknown.contains("surprise"), "{unknown}");
    run["created"] = json!(5);
    let wrong = faults(&run);
    assert!(wrong.contains("$.created"), "{wrong}");
}
