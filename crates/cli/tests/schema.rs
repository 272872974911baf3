//! `docs/schema.md` lists every key that the JSON files of a run have.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use llmprof_load::stub::{Behaviour, Stub};
use serde_json::Value;

const TINY: &str = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": false, "eos_token_id": 2}"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The objects that a heading names, and the keys that the table below it lists.
struct Section {
    objects: Vec<String>,
    keys: BTreeSet<String>,
}

/// Every text between backticks.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

fn sections(page: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            sections.push(Section {
                objects: quoted(heading).collect(),
                keys: BTreeSet::new(),
            });
        } else if let (Some(row), Some(section)) = (line.strip_prefix("| `"), sections.last_mut()) {
            let first = format!("`{}", row.split('|').next().unwrap());
            section.keys.extend(quoted(&first));
        }
    }
    sections
}

/// Whether a heading names the object at `path`; `*` is any place in front, or any one key behind.
fn names(object: &str, path: &str) -> bool {
    let parent = |path: &str| path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
    if let Some(shorter) = object.strip_suffix("/*") {
        return parent(path).is_some_and(|path| names(shorter, &path));
    }
    match object.strip_prefix('*') {
        Some(end) => path.ends_with(end),
        None => path == object,
    }
}

/// Adds each key of `value` that no section lists.
fn unlisted(value: &Value, path: &str, sections: &[Section], found: &mut BTreeSet<String>) {
    match value {
        Value::Object(keys) => {
            let here: Vec<&Section> = sections
                .iter()
                .filter(|section| section.objects.iter().any(|object| names(object, path)))
                .collect();
            for (key, value) in keys {
                let is_listed = |section: &&&Section| {
                    section.keys.contains(key.as_str()) || section.keys.contains("*")
                };
                if here.iter().find(is_listed).is_none() {
                    found.insert(format!("{path}: {key}"));
                }
                unlisted(value, &format!("{path}/{key}"), sections, found);
            }
        }
        Value::Array(items) => {
            for item in items {
                unlisted(item, &format!("{path}[]"), sections, found);
            }
        }
        _ => {}
    }
}

fn check(run: &Path, files: &[&str]) {
    let page = fs::read_to_string(root().join("docs/schema.md")).unwrap();
    let sections = sections(&page);
    let mut found = BTreeSet::new();
    for file in files {
        unlisted(&common::json(&run.join(file)), file, &sections, &mut found);
    }
    assert!(found.is_empty(), "not in docs/schema.md: {found:#?}");
}

const ALL: [&str; 4] = ["analysis.json", "metrics.json", "record.json", "run.json"];

#[test]
fn every_key_of_an_import_with_a_model_is_listed() {
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
    check(&folder.path().join("run"), &ALL);
}

#[test]
fn every_key_of_other_imports_is_listed() {
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
        check(
            &folder.path().join("run"),
            &["analysis.json", "record.json", "run.json"],
        );
    }
}

/// Counters with classes and findings, GEMMs with shapes, and what is derived where counters are not there.
#[test]
fn every_key_of_a_stage_2_run_is_listed() {
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
    assert!(keys("gemms") && keys("derived_kernels") && !keys("counters"));
    check(&run, &ALL);
    let mut counters = Vec::new();
    let packed = fs::File::open(stage2.join("counters.json.gz")).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut counters).unwrap();
    fs::write(run.join("counters.json"), counters).unwrap();
    common::works(folder.path(), &["analyze", "run"]);
    assert!(keys("counters") && !keys("derived_kernels"));
    check(&run, &ALL);
}

#[test]
fn every_key_of_a_native_run_is_listed() {
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
    check(&run, &ALL);
    // The cost of the model is at the root and where the stages have their folders.
    for name in ["static_compute.json", "static_compute.md"] {
        let read = |path: PathBuf| fs::read(path).unwrap();
        assert_eq!(
            read(run.join("static_analysis").join(name)),
            read(run.join(name))
        );
    }
}

/// Traces, whose kernels replace each other, with a gate; and runs in turns, which have rounds.
#[test]
fn every_key_of_a_comparison_is_listed() {
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
    check(&folder.path().join("traces"), &["compare.json"]);
    let request = "model=local model.config=tiny.json model.dtype=f32 workload.prompt_tokens=8 \
                   infer.max_new_tokens=4 hardware.spec=xeon_8480";
    let words = [
        "compare", "--run", request, "--run", request, "--rounds", "2", "--time", "1s", "-o",
        "turns",
    ];
    common::works(folder.path(), &words);
    check(&folder.path().join("turns"), &["compare.json"]);
    // What a gate may name is what the page lists.
    let page = fs::read_to_string(root().join("docs/schema.md")).unwrap();
    for metric in llmprof_analysis::compare::Metric::ALL {
        let quoted = format!("`{}`", metric.key);
        assert!(page.contains(&quoted), "{quoted} is not in docs/schema.md");
    }
}

/// Keys of what a command prints that the page does not list under `name`.
fn unlisted_of(words: &[&str], name: &str) -> (Value, BTreeSet<String>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.json"), TINY).unwrap();
    let printed: Value = serde_json::from_str(&common::works(folder.path(), words)).unwrap();
    let page = fs::read_to_string(root().join("docs/schema.md")).unwrap();
    let mut found = BTreeSet::new();
    unlisted(&printed, name, &sections(&page), &mut found);
    (printed, found)
}

#[test]
fn every_key_of_a_prediction_is_listed() {
    let words = "predict model=llama3_1_8b hardware.spec=h200 runtime=pytorch --tpot 20ms --ttft 1s --format json";
    let (printed, found) = unlisted_of(&words.split(' ').collect::<Vec<_>>(), "predict");
    assert!(found.is_empty(), "not in docs/schema.md: {found:#?}");
    assert!(printed["held_out"].is_object());
    // The page lists no key that points do not have.
    let page = fs::read_to_string(root().join("docs/schema.md")).unwrap();
    let page = sections(&page);
    for (object, value) in [
        ("predict/points[]", &printed["points"][0]),
        ("predict/held_out", &printed["held_out"]),
    ] {
        let section = page
            .iter()
            .find(|section| section.objects.iter().any(|known| known == object))
            .unwrap();
        for key in &section.keys {
            assert!(value.get(key).is_some(), "{object} has no `{key}`");
        }
    }
    // A swept key is named by itself, and nothing else is new.
    let words = "predict model=llama3_1_8b hardware.spec=h200 runtime.batch_size=1,2 --format json";
    let (_, found) = unlisted_of(&words.split(' ').collect::<Vec<_>>(), "predict");
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(found, ["predict/points[]: runtime.batch_size"]);
}

#[test]
fn every_key_of_advice_and_of_a_simulation_is_listed() {
    let words =
        "predict --advise model=llama3_1_8b hardware.spec=h200 runtime=pytorch --format json";
    let (printed, found) = unlisted_of(&words.split(' ').collect::<Vec<_>>(), "advise");
    assert!(found.is_empty(), "not in docs/schema.md: {found:#?}");
    assert!(printed["advice"][0].is_object());
    let words = "simulate model=llama3_1_8b hardware.spec=h200 --rate 8 --requests 50 --prompt-tokens 128 --output-tokens 16 --json";
    let (printed, found) = unlisted_of(&words.split(' ').collect::<Vec<_>>(), "simulate");
    assert!(printed["summary"].is_object());
    assert!(found.is_empty(), "not in docs/schema.md: {found:#?}");
}

#[test]
fn every_key_of_a_plan_is_listed() {
    let words = "plan llama3_1_8b --rate 2 --prompt-tokens 128 --output-tokens 16 --slo ttft:p99<1s --devices h100_sxm --simulate-max 2 --requests-max 50 --json";
    let (printed, found) = unlisted_of(&words.split(' ').collect::<Vec<_>>(), "plan");
    assert!(printed["candidates"][0].is_object());
    assert!(found.is_empty(), "not in docs/schema.md: {found:#?}");
}

#[test]
fn a_key_without_a_row_is_found() {
    let page = "### `a.json`, `*/list[]`\n| key | unit |\n| `one`, `two` | ns |\n### `*/open/*`\n| `*` | |\n";
    let value = serde_json::json!({
        "one": 1, "two": {"x": 0}, "list": [{"two": 2, "three": 3}], "open": {"any": {"thing": 1}},
    });
    let mut found = BTreeSet::new();
    unlisted(&value, "a.json", &sections(page), &mut found);
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(
        found,
        [
            "a.json/list[]: three",
            "a.json/open: any",
            "a.json/two: x",
            "a.json: list",
            "a.json: open"
        ]
    );
}

#[test]
fn every_key_of_a_load_is_listed() {
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
    let page = fs::read_to_string(root().join("docs/schema.md")).unwrap();
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let mut found = BTreeSet::new();
    unlisted(&printed, "bench.json", &sections(&page), &mut found);
    assert!(found.is_empty(), "not in docs/schema.md: {found:#?}");
    let findings = printed["findings"].as_array().unwrap();
    assert!(!findings.is_empty(), "{printed}");
    check(&folder.path().join("run"), &["bench.json"]);
}
