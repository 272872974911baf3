//! A model that reads images, from files to predictions and to the roofline of its vision phase, on torch and transformers' own classes.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{issues, python, stderr};

/// DeepSeek-OCR-2 in small, as `theory` counts it against torch.
const TRUTH: &str = include_str!("../../../theory/tests/data/deepseek_ocr2.json");

/// A PNG page, a JPEG page with crops, and a file that is no image.
fn scene(root: &Path) {
    let truth: Value = serde_json::from_str(TRUTH).unwrap();
    fs::write(root.join("ocr.json"), truth["tiny"]["config"].to_string()).unwrap();
    fs::create_dir(root.join("pages")).unwrap();
    for (name, width, height) in [
        ("a.png", 300, 400),
        ("b.jpg", 1000, 1500),
        ("c.png", 200, 200),
    ] {
        image::RgbImage::from_pixel(width, height, image::Rgb([250, 250, 240]))
            .save(root.join("pages").join(name))
            .unwrap();
    }
    fs::write(root.join("pages/broken.png"), "no image").unwrap();
}

fn command(root: &Path, python: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_llmprof"));
    command
        .current_dir(root)
        .env("NO_COLOR", "1")
        .args([
            "run",
            "runtime=pytorch",
            &format!("runtime.python={python}"),
        ])
        .args(["model=local", "model.config=ocr.json", "model.dtype=f32"])
        .args([
            "dataset=images",
            "dataset.root=pages",
            "workload.prompt_tokens=4",
        ])
        .args([
            "hardware.spec=xeon_8480",
            "infer.max_new_tokens=3",
            "hydra.run.dir=out",
        ])
        .args(["runtime.threads=2", "runtime.batch_size=1"])
        .args(more);
    command
}

fn ids(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join("out/predictions/predictions.jsonl"));
    let text = text.unwrap_or_default();
    // A last line without its end is being written.
    let whole = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    let ids = whole.map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone());
    ids.map(|id| id.as_str().unwrap().to_owned()).collect()
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn pages_are_answered_once_also_after_a_kill() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    scene(root);
    let direct = [
        "+preset=direct_inference",
        "infer.max_new_tokens=3",
        "workload.prompt_tokens=4",
    ];
    let mut child = command(root, &python, &direct)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_mins(4);
    while ids(root).is_empty() {
        assert!(Instant::now() < deadline, "no sample came");
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = ids(root);
    let output = command(root, &python, &direct).output().unwrap();
    // Complete but for the file that is no image.
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let after = ids(root);
    assert_eq!(after[..before.len()], before, "what was done stays");
    let mut sorted = after;
    sorted.sort();
    assert_eq!(sorted, ["a.png", "b.jpg", "c.png"]);
    let run = fs::read_to_string(root.join("out/run.json")).unwrap();
    assert!(
        issues(&run).contains(&"dataset.samples_skipped".to_owned()),
        "{run}"
    );
}

#[test]
#[ignore = "live: needs torch and transformers"]
fn the_vision_phase_has_its_roofline_and_waterfall() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    scene(root);
    fs::remove_file(root.join("pages/broken.png")).unwrap();
    let more = [
        "runtime.warmup=1",
        "runtime.repeats=1",
        "dataset.sampling.num_samples_per_epoch=1",
    ];
    let output = command(root, &python, &more).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(root.join("out").join(name)).unwrap()).unwrap()
    };
    let analysis = read("analysis.json");
    let phases = analysis["phases"].as_array().unwrap();
    let names: Vec<&str> = phases
        .iter()
        .map(|phase| phase["phase"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["vision", "prefill", "decode"]);
    for phase in phases {
        let roofline = phase["waterfall"]["roofline_ns"].as_i64();
        assert!(roofline.is_some_and(|time| time > 0), "{phase}");
    }
    assert!(
        read("metrics.json")["mfu_per_stage"]["vision"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    let operators = fs::read_to_string(root.join("out/operators.csv")).unwrap();
    assert!(operators.contains("\nvision,"), "{operators}");
    assert_eq!(ids(root), ["a.png"], "a profiled run keeps its text too");
}
