//! `llmprof compare --run … --run …` with sides whose speed is known: verdicts, rounds, gates, and what CI gets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use common::works;
use serde_json::Value;

const WORKER: &str = include_str!("worker.py");

fn scene() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("worker.py"), WORKER).unwrap();
    folder
}

/// Overrides of a side whose decode steps take so many µs, give or take a share.
fn side(name: &str, step_us: u32, noise: f64) -> String {
    format!(
        "runtime=worker runtime.worker=[python3,worker.py,{name},us{step_us},noise{noise}] model=qwen2_5_0_5b hardware.spec=xeon_8480 \
         workload.prompt_tokens=8 infer.max_new_tokens=5 runtime.repeats=3 runtime.warmup=0"
    )
}

fn compare(folder: &Path, sides: [&str; 2], more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env_remove("GITHUB_ACTIONS")
        .env("GITHUB_STEP_SUMMARY", folder.join("summary.md"))
        .args(["compare", "--run", sides[0], "--run", sides[1]])
        .args(more)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    texts.concat()
}

fn tpot(output: &Output) -> (Value, Value) {
    let comparison: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(output)));
    let tpot = comparison["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["metric"] == "tpot")
        .unwrap()
        .clone();
    (comparison, tpot)
}

#[test]
fn a_slower_side_is_slower_by_what_it_is_and_fails_the_gate() {
    let folder = scene();
    let root = folder.path();
    let (a, b) = (side("A", 2000, 0.01), side("B", 2160, 0.01));
    let gates = ["--gate", "tpot<+3%", "--gate", "tpot<+20%"];
    let more = [
        &[
            "--rounds", "4", "-o", "out", "--junit", "gate.xml", "--github",
        ][..],
        &gates,
    ]
    .concat();
    let output = compare(root, [&a, &b], &more);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    // The runs took turns: A B, B A, A B, B A.
    let order = fs::read_to_string(root.join("order.txt")).unwrap();
    assert!(order.replace('\n', "").starts_with("ABBAABBA"), "{order}");
    let comparison: Value =
        serde_json::from_slice(&fs::read(root.join("out/compare.json")).unwrap()).unwrap();
    let tpot = &comparison["metrics"][0];
    assert_eq!(
        (&tpot["metric"], &tpot["verdict"]),
        (&"tpot".into(), &"slower".into())
    );
    let number = |key: &str| tpot[key].as_f64().unwrap();
    assert!((number("ratio") - 1.08).abs() < 0.01, "{tpot}");
    assert!(number("ci_low") > 1.03 && number("ci_high") < 1.2, "{tpot}");
    // The result first, on the terminal and where CI shows it.
    let line = format!("TPOT +{:.1} %", 100.0 * (number("ratio") - 1.0));
    assert!(said(&output).contains(&line), "{}", said(&output));
    let summary = fs::read_to_string(root.join("summary.md")).unwrap();
    assert!(
        summary.contains(&line) && summary.contains("| TPOT |"),
        "{summary}"
    );
    assert!(
        fs::read_to_string(root.join("out/compare.md"))
            .unwrap()
            .contains(&line)
    );
    let text = said(&output);
    assert!(
        text.contains("::error title=llmprof compare::Gate tpot<+3%25 failed"),
        "{text}"
    );
    assert!(
        text.contains("::notice title=llmprof compare::Gate tpot<+20%25 passed"),
        "{text}"
    );
    let xml = fs::read_to_string(root.join("gate.xml")).unwrap();
    assert!(
        xml.contains("tests=\"3\"") && xml.contains("failures=\"1\""),
        "{xml}"
    );

    // A baseline of the fast side, used from a folder inside of the project.
    works(root, &["init", "project", "--yes"]);
    let project = root.join("project");
    works(
        &project,
        &["compare", "../out/a", "--save-baseline", "fast"],
    );
    assert!(project.join("baselines/fast.json").is_file());
    let inside = project.join("conf");
    let judge = |gate: &str| {
        let args = [
            "compare",
            "../../out/b",
            "--baseline",
            "fast",
            "--gate",
            gate,
        ];
        common::llmprof(&inside, &args).status.code()
    };
    assert_eq!(judge("tpot<+3%"), Some(1));
    assert_eq!(judge("tpot<+20%"), Some(0));
    assert_eq!(judge("tpot<1ms"), Some(1));
    assert_eq!(judge("tpot<1s"), Some(0));
}

#[test]
fn a_side_against_itself_is_the_same() {
    let folder = scene();
    let (a, b) = (side("A", 2000, 0.01), side("B", 2000, 0.01));
    let more = ["--json", "--rounds", "6", "--gate", "tpot<+3%"];
    let output = compare(folder.path(), [&a, &b], &more);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let (comparison, tpot) = tpot(&output);
    assert_eq!(tpot["verdict"], "same", "{tpot}");
    assert_eq!(comparison["gates"][0]["state"], "passed");
    // Nobody asked for GitHub.
    assert!(!folder.path().join("summary.md").exists());
}

#[test]
fn rounds_grow_until_the_interval_is_narrow() {
    let folder = scene();
    let (a, b) = (side("A", 2000, 0.03), side("B", 2000, 0.03));
    let more = [
        "--json",
        "--rounds",
        "2",
        "--resolution",
        "3%",
        "--time",
        "5min",
    ];
    let output = compare(folder.path(), [&a, &b], &more);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let (comparison, tpot) = tpot(&output);
    let rounds = comparison["rounds"]["count"].as_u64().unwrap();
    assert!(rounds > 2, "{comparison}");
    let number = |key: &str| tpot[key].as_f64().unwrap();
    let width = (number("ci_high") / number("ci_low")).ln();
    assert!(width <= 2.0 * 1.03_f64.ln(), "{tpot}");
}

#[test]
fn what_cannot_be_told_is_said_with_what_would_be_needed() {
    let folder = scene();
    let (a, b) = (side("A", 2000, 0.3), side("B", 2100, 0.3));
    let more = ["--rounds", "3", "--time", "1ms", "--gate", "tpot<+3%"];
    let output = compare(folder.path(), [&a, &b], &[&more[..], &["--json"]].concat());
    let (comparison, tpot) = tpot(&output);
    assert_eq!(tpot["verdict"], "cannot_tell", "{tpot}");
    // Where one of the two rounds was disturbed and left out, there is no interval to judge by.
    let (state, code) = if tpot["ci_low"].is_null() {
        ("not_evaluated", 1)
    } else {
        ("inconclusive", 0)
    };
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    // Absent where one of the two rounds was disturbed and left out.
    let needed = tpot["rounds_needed"].as_u64();
    assert!(needed.is_none_or(|needed| needed > 2), "{tpot}");
    assert_eq!(comparison["gates"][0]["state"], state);
    let warned = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(warned.contains(&state.replace('_', " ")), "{warned}");
    let strict = compare(
        folder.path(),
        [&a, &b],
        &[&more[..], &["--inconclusive", "fail", "--github"]].concat(),
    );
    assert_eq!(strict.status.code(), Some(1), "{}", said(&strict));
    let text = said(&strict);
    let reasons = [
        "cannot tell from noise: the interval includes no change",
        "one value a side",
    ];
    assert!(reasons.iter().any(|reason| text.contains(reason)), "{text}");
}

/// Sides of other lengths stay so: one round shows it.
#[test]
fn rounds_end_with_the_first_pair_that_a_gate_cannot_judge() {
    let folder = scene();
    let (a, b) = (side("A", 2000, 0.3), side("B", 2000, 0.3));
    let b = b.replace("max_new_tokens=5", "max_new_tokens=3");
    let more = ["--rounds", "4", "--gate", "tpot<+3%", "--json"];
    let output = compare(folder.path(), [&a, &b], &more);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let (comparison, _) = tpot(&output);
    assert_eq!(comparison["rounds"]["count"], 1, "{comparison}");
    assert_eq!(comparison["gates"][0]["reason"]["other_work"], "new_tokens");
}

/// A metric that the first round does not measure, later ones do not either.
#[test]
fn rounds_end_with_the_first_pair_that_lacks_the_metric_of_a_gate() {
    let folder = scene();
    let sides = [side("A", 2000, 0.3), side("B", 2000, 0.3)];
    let [a, b] = sides.map(|side| side.replace("max_new_tokens=5", "max_new_tokens=1"));
    let output = compare(folder.path(), [&a, &b], &["--gate", "tpot<+3%"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let order = fs::read_to_string(folder.path().join("order.txt")).unwrap();
    assert_eq!(order.lines().count(), 2, "{order}");
}

#[test]
fn rounds_are_not_listed_as_runs() {
    let folder = scene();
    let root = folder.path();
    let (a, b) = (side("A", 2000, 0.01), side("B", 2160, 0.01));
    let more = [
        "--rounds",
        "2",
        "--resolution",
        "50%",
        "-o",
        "runs/compare/x",
    ];
    let output = compare(root, [&a, &b], &more);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let listed = |place: &str| -> Vec<Value> {
        let listed = works(root, &["runs", "list", "--json", "--root", place]);
        serde_json::from_str(&listed).unwrap()
    };
    assert_eq!(listed("runs"), Vec::<Value>::new());
    assert!(listed("runs/compare/x").len() >= 4);
}
