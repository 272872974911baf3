//! Direct inference as a user runs it: predictions, resuming, skipped samples, boxes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use common::{json, llmprof, refused, works};
use serde_json::Value;

const SCRIPTED: &str = include_str!("scripted.py");

const TINY: &str = r#"{"model_type": "llama", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 8192}"#;

/// A folder with a tiny model, the scripted worker and `pages` PNG pages of 200 × 300 pixels.
pub(crate) fn scene(pages: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::write(root.join("tiny.json"), TINY).unwrap();
    fs::write(root.join("worker.py"), SCRIPTED).unwrap();
    fs::create_dir(root.join("pages")).unwrap();
    for page in 0..pages {
        let image = image::RgbImage::from_pixel(200, 300, image::Rgb([255, 255, 255]));
        image
            .save(root.join(format!("pages/page {page}.png")))
            .unwrap();
    }
    folder
}

pub(crate) fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec![
        "run",
        "+preset=direct_inference",
        "model=local",
        "model.config=tiny.json",
        "hydra.run.dir=out",
        "hardware.spec=xeon_8480",
    ];
    words.extend(more);
    words
}

pub(crate) const PAGES: [&str; 5] = [
    "dataset=images",
    "dataset.root=pages",
    "runtime=worker",
    "runtime.worker=[python3,worker.py]",
    "infer.prompt=Read the page.",
];

fn lines(path: PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn ids(root: &Path) -> Vec<String> {
    let lines = lines(root.join("out/predictions/predictions.jsonl"));
    lines
        .iter()
        .map(|line| line["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_native_runtime_answers_every_sample_once_whatever_its_length() {
    let folder = scene(0);
    let root = folder.path();
    let samples = [[5, 6, 7].as_slice(), &[5, 6], &[9, 8, 7], &[1]]
        .map(|tokens| format!("{{\"tokens\": {tokens:?}}}\n"));
    fs::write(root.join("samples.jsonl"), samples.concat()).unwrap();
    let asked = [
        "dataset=text",
        "dataset.root=samples.jsonl",
        "runtime.batch_size=2",
        "infer.max_new_tokens=4",
        "workload.prompt_tokens=64",
    ];
    works(root, &words(&asked));
    let answers = lines(root.join("out/predictions/predictions.jsonl"));
    let mut lengths: Vec<_> = answers
        .iter()
        .map(|one| {
            (
                one["index"].as_u64().unwrap(),
                one["prompt_tokens"].as_u64().unwrap(),
            )
        })
        .collect();
    lengths.sort_unstable();
    // Nothing was cut to the shortest of a batch; the two of three tokens ran together.
    assert_eq!(lengths, [(0, 3), (1, 2), (2, 3), (3, 1)]);
    let together = answers.iter().filter(|one| one["batch_size"] == 2).count();
    assert_eq!(together, 2, "{answers:?}");
    for one in &answers {
        assert_eq!(one["tokens"].as_array().unwrap().len(), 4);
        let name = one["name"].as_str().unwrap();
        let file = json(&root.join(format!("out/predictions/{name}.json")));
        assert_eq!(&file, one);
    }
    assert!(
        !root.join("out/pytorch").exists(),
        "no worker of PyTorch is in a native run"
    );
    let metrics = json(&root.join("out/metrics.json"));
    assert_eq!(metrics["predictions"]["samples"], 4);
    assert_eq!(metrics["predictions"]["output_tokens"], 16);
    // Its own ids again, one by one: a batch changes nothing.
    fs::remove_dir_all(root.join("out")).unwrap();
    works(
        root,
        &words(&[&asked[..], &["runtime.batch_size=1"]].concat()),
    );
    let key = |one: &Value| (one["index"].as_u64().unwrap(), one["tokens"].to_string());
    let alone = lines(root.join("out/predictions/predictions.jsonl"));
    let (mut alone, mut batched): (Vec<_>, Vec<_>) = (
        alone.iter().map(key).collect(),
        answers.iter().map(key).collect(),
    );
    alone.sort();
    batched.sort();
    assert_eq!(alone, batched);
}

#[test]
fn a_killed_run_goes_on_without_losing_or_repeating_a_sample() {
    let folder = scene(7);
    let root = folder.path();
    let all = words(&[&PAGES[..], &["runtime.batch_size=2"]].concat());
    let killed = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(root)
        .env("LLMPROF_TEST_KILL_AT", "2")
        .args(&all)
        .output()
        .unwrap();
    assert_eq!(killed.status.code(), None, "{killed:?}");
    assert_eq!(ids(root).len(), 4);
    // A line that was being written.
    let path = root.join("out/predictions/predictions.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}{{\"index\": 4, \"id\"")).unwrap();
    // Another question is another run.
    let other = words(&[&PAGES[..4], &["infer.prompt=Another."]].concat());
    let error = refused(root, &other);
    assert!(error.contains("infer.prompt"), "{error}");
    works(root, &all);
    let mut answered = ids(root);
    answered.sort();
    let expected: Vec<_> = (0..7).map(|page| format!("page {page}.png")).collect();
    assert_eq!(answered, expected);
    let asked = fs::read_to_string(root.join("asked.txt")).unwrap();
    let mut asked: Vec<_> = asked.lines().collect();
    asked.sort_unstable();
    assert_eq!(asked, expected, "none ran twice");
    let run = json(&root.join("out/run.json"));
    assert_eq!(run["status"], "complete");
    // Complete: nothing is left to go on with.
    let error = refused(root, &all);
    assert!(error.contains("already holds a run"), "{error}");
}

/// The model was still loading, or not even that: the same command goes on.
#[test]
fn a_run_that_ends_before_its_first_sample_goes_on() {
    for has_log in [true, false] {
        let folder = scene(2);
        let root = folder.path();
        let all = words(&PAGES);
        let killed = Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .current_dir(root)
            .env("LLMPROF_TEST_KILL_AT", "load")
            .args(&all)
            .output()
            .unwrap();
        assert_eq!(killed.status.code(), None, "{killed:?}");
        if !has_log {
            fs::remove_dir_all(root.join("out/predictions")).unwrap();
        }
        works(root, &all);
        assert_eq!(ids(root).len(), 2);
    }
}

/// kill -9 at any moment, the engine of this program: what is on the disk stays, the rest follows.
#[test]
fn a_killed_native_run_goes_on() {
    let folder = scene(0);
    let root = folder.path();
    let samples: Vec<String> = (0..40)
        .map(|number| format!("{{\"tokens\": [{}, 7, {}]}}\n", number + 1, number + 2))
        .collect();
    fs::write(root.join("samples.jsonl"), samples.concat()).unwrap();
    let all = words(&[
        "dataset=text",
        "dataset.root=samples.jsonl",
        "runtime.batch_size=1",
        // Long enough that a busy machine sees samples come one by one.
        "infer.max_new_tokens=400",
        "infer.ignore_eos=true",
        "workload.prompt_tokens=8",
    ]);
    let log = root.join("out/predictions/predictions.jsonl");
    let done = || fs::read_to_string(&log).map_or(0, |text| text.matches('\n').count());
    let mut kept = Vec::new();
    for wanted in [1, 15] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .current_dir(root)
            .args(&all)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_mins(2);
        while done() < wanted {
            assert!(Instant::now() < deadline, "only {} came", done());
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let text = fs::read_to_string(&log).unwrap();
        let whole = text.rsplit_once('\n').unwrap().0.to_owned();
        kept.push(whole);
    }
    works(root, &all);
    let text = fs::read_to_string(&log).unwrap();
    for whole in kept {
        assert!(text.starts_with(&whole), "what was done stays as it was");
    }
    let mut indices: Vec<u64> = lines(log)
        .iter()
        .map(|line| line["index"].as_u64().unwrap())
        .collect();
    indices.sort_unstable();
    assert_eq!(indices, (0..40).collect::<Vec<_>>());
}

/// A sweep that is resumed takes up direct inference where it ended, as a single run does.
#[test]
fn a_resumed_sweep_repeats_no_sample() {
    let folder = scene(4);
    let root = folder.path();
    let sweep = words(
        &[
            &PAGES[..],
            &["-m", "hydra.sweep.dir=sweep", "runtime.batch_size=1,2"],
        ]
        .concat(),
    );
    let sweep: Vec<&str> = sweep
        .into_iter()
        .filter(|word| *word != "hydra.run.dir=out")
        .collect();
    let killed = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(root)
        .env("LLMPROF_TEST_KILL_AT", "2")
        .args(&sweep)
        .output()
        .unwrap();
    assert_eq!(killed.status.code(), None, "{killed:?}");
    works(root, &[&sweep[..], &["--resume"]].concat());
    let asked = fs::read_to_string(root.join("asked.txt")).unwrap();
    assert_eq!(
        asked.lines().count(),
        2 * 4,
        "every page once per job: {asked}"
    );
    assert!(!root.join("sweep/0.attempt1").exists());
}

#[test]
fn grounded_text_is_drawn_and_what_is_wrong_with_it_counted() {
    let folder = scene(2);
    let root = folder.path();
    let said = works(root, &words(&PAGES));
    assert!(said.contains("visualizations/index.html"), "{said}");
    let page = root.join("out/visualizations/page_1.png");
    for file in [
        "result_with_boxes.jpg",
        "result.mmd",
        "info.json",
        "images/0.jpg",
    ] {
        assert!(page.join(file).is_file(), "{file}");
    }
    let text = fs::read_to_string(page.join("result.mmd")).unwrap();
    assert!(
        text.starts_with("# Title of page 1.png\n![](images/0.jpg)"),
        "{text}"
    );
    let info = json(&page.join("info.json"));
    assert_eq!(info["boxes"].as_array().unwrap().len(), 3);
    assert_eq!(info["boxes"][2]["text"], "表格");
    assert_eq!(info["counts"]["malformed"], 2);
    assert_eq!(info["counts"]["out_of_range"], 1);
    let metrics = json(&root.join("out/metrics.json"));
    assert_eq!(metrics["predictions"]["grounding"]["boxes"], 6);
    let run = json(&root.join("out/run.json"));
    let codes: Vec<_> = run["issues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|issue| {
            (
                issue["code"].as_str().unwrap(),
                issue["count"].as_u64().unwrap(),
            )
        })
        .collect();
    for expected in [
        ("grounding.malformed", 4),
        ("grounding.out_of_range", 2),
        ("grounding.labels_not_drawn", 2),
    ] {
        assert!(codes.contains(&expected), "{codes:?}");
    }
    let gallery = fs::read_to_string(root.join("out/visualizations/index.html")).unwrap();
    assert!(gallery.contains("表格") && gallery.contains("page_1.png/result_with_boxes.jpg"));
}

#[test]
fn unreadable_and_refused_samples_are_left_out_and_the_exit_code_tells() {
    let folder = scene(3);
    let root = folder.path();
    let png = fs::read(root.join("pages/page 0.png")).unwrap();
    fs::write(root.join("pages/broken.png"), "no image").unwrap();
    fs::write(root.join("pages/refuse me.png"), &png).unwrap();
    let all = words(&[&PAGES[..], &["runtime.batch_size=2"]].concat());
    let output = llmprof(root, &all);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let mut answered = ids(root);
    answered.sort();
    assert_eq!(answered, ["page 0.png", "page 1.png", "page 2.png"]);
    let skipped = lines(root.join("out/predictions/skipped.jsonl"));
    let skipped: Vec<_> = skipped
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert_eq!(skipped, ["broken.png", "refuse me.png"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("samples skipped"), "{said}");
    let metrics = json(&root.join("out/metrics.json"));
    assert_eq!(metrics["predictions"]["skipped"], 2);
}

#[test]
fn a_profiled_run_keeps_its_text_unless_told_not_to() {
    let folder = scene(2);
    let root = folder.path();
    let mut all = vec![
        "run",
        "model=local",
        "model.config=tiny.json",
        "hardware.spec=xeon_8480",
    ];
    all.extend(PAGES);
    all.extend([
        "runtime.repeats=2",
        "infer.max_new_tokens=3",
        "hydra.run.dir=out",
    ]);
    works(root, &all);
    assert_eq!(ids(root).len(), 2);
    assert!(root.join("out/visualizations/index.html").is_file());
    let off = [
        &all[..all.len() - 1],
        &["hydra.run.dir=off", "output.predictions=false"],
    ]
    .concat();
    works(root, &off);
    assert!(!root.join("off/predictions").exists() && !root.join("off/visualizations").exists());
}

#[test]
fn mistakes_are_found_before_anything_runs() {
    let folder = scene(1);
    let root = folder.path();
    let pages = ["dataset=images", "dataset.root=pages"];
    for (more, said) in [
        ("pipeline.torch_profiler.enable=true", "without profilers"),
        ("pipeline.nsys.enable=true", "without profilers"),
        (
            "pipeline.direct_inference.output.prediction.enable=false",
            "drawn from predictions",
        ),
        ("runtime=none", "runs the model itself"),
        ("runtime=native", "native runtime runs text models only"),
    ] {
        let error = refused(root, &words(&[&pages[..], &[more]].concat()));
        assert!(error.contains(said), "{more}: {error}");
        assert!(!root.join("out").exists(), "{more}");
    }
}
