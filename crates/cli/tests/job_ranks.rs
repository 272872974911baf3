//! Ranks of a job by the command line: reduced one by one, joined, gone on with, named where they cannot be read.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/public/ranks_dlrm")
}

fn llmprof(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap()
}

fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = llmprof(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn counts(text: &str) -> (u64, u64, u64) {
    let value: Value = serde_json::from_str(text).unwrap();
    let count = |key: &str| value[key].as_u64().unwrap();
    (count("ranks"), count("read"), count("kept"))
}

#[test]
fn ranks_are_read_once_and_joined() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let first = format!("{}/rank[0-3].json.gz", fixtures().display()).replace("[0-3]", "?");
    let four: Vec<String> = (0..4)
        .map(|rank| format!("{}/rank{rank}.json.gz", fixtures().display()))
        .collect();
    fs::write(at.join("list"), four.join("\n")).unwrap();
    let summarize = |word: &str| {
        let text = done(at, &["import", "--summary-only", word, "-o", "S", "--json"]);
        counts(&text)
    };
    assert_eq!(summarize("@list"), (4, 4, 0));
    assert_eq!(summarize(&first), (8, 4, 4));
    assert_eq!(summarize(&first), (8, 0, 8));
    let text = done(at, &["import", "--join", "S", "-o", "run"]);
    assert!(text.contains("8 ranks over 12.61 ms"), "{text}");
    let ranks = fs::read_to_string(at.join("run/ranks.csv")).unwrap();
    assert_eq!(ranks.lines().count(), 9);
    // One step, in which ranks differ: a cell for each.
    let map = fs::read_to_string(at.join("run/plots/ranks_by_step.svg")).unwrap();
    assert_eq!(map.matches("class=\"heat\"").count(), 8);
    // The run has all that `analyze` needs.
    let before: Value =
        serde_json::from_slice(&fs::read(at.join("run/analysis.json")).unwrap()).unwrap();
    fs::remove_dir_all(at.join("S")).unwrap();
    let again = done(at, &["analyze", "run", "--json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["ranks"], before["ranks"]);
    assert_eq!(again["ranks"]["ranks"].as_array().unwrap().len(), 8);
}

#[test]
fn ranks_that_cannot_be_read_are_named_and_others_joined() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("traces")).unwrap();
    for rank in 0..8 {
        let name = format!("rank{rank}.json.gz");
        fs::copy(fixtures().join(&name), at.join("traces").join(&name)).unwrap();
    }
    // More ranks than are kept whole: copies that say another rank by their names cannot, since they record theirs.
    let mut words: Vec<String> = (0..8)
        .map(|rank| format!("traces/rank{rank}.json.gz"))
        .collect();
    for number in 0..9 {
        let name = format!("traces/broken{number}.json");
        fs::write(at.join(&name), "{\"traceEvents\": [").unwrap();
        words.push(name);
    }
    let mut arguments = vec!["import", "-o", "run"];
    arguments.extend(words.iter().map(String::as_str));
    let output = llmprof(at, &arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("broken3.json"), "{errors}");
    let record: Value =
        serde_json::from_slice(&fs::read(at.join("run/run.json")).unwrap()).unwrap();
    let issues = record["issues"].as_array().unwrap();
    let unread = issues.iter().find(|issue| issue["code"] == "ranks.unread");
    assert_eq!(unread.unwrap()["count"], 9);
    // A summary that was damaged later is named, too.
    let damaged = at.join("run/ranks/rank-00003.rank");
    let bytes = fs::read(&damaged).unwrap();
    fs::write(&damaged, &bytes[..bytes.len() / 2]).unwrap();
    let output = llmprof(at, &["import", "--join", "run/ranks", "-o", "second"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("7 ranks"), "{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("rank-00003.rank"), "{errors}");
}

/// The model, the workload and the device reach the job that joins: those options were once lost on the way to Slurm.
#[test]
fn a_launched_import_knows_the_model_of_the_one_that_submits() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("bin")).unwrap();
    let sbatch = at.join("bin/sbatch");
    // Runs each task of an array, or the one job, at once.
    let script = r#"#!/bin/bash
script="${@: -1}"
last=$(sed -n 's/^#SBATCH --array=0-//p' "$script")
for task in $(seq 0 "${last:-0}"); do
  SLURM_ARRAY_TASK_ID=$task bash "$script" > "$script.$task.log" 2>&1
done
echo 77"#;
    fs::write(&sbatch, script).unwrap();
    fs::set_permissions(&sbatch, fs::Permissions::from_mode(0o755)).unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/model_config");
    let configs = fs::read_dir(&corpus)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    fs::copy(configs.min().unwrap(), at.join("my config.json")).unwrap();
    let ranks = fixtures().display().to_string();
    let about = [
        "--config",
        "my config.json",
        "--device",
        "h200",
        "workload.prompt_tokens=77",
    ];
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", at.join("bin").display());
    let launched = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(at)
        .env("PATH", path)
        .args(["import", &ranks, "-o", "launched", "--launcher", "slurm"])
        .args(about)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&launched.stderr);
    assert!(launched.status.success(), "{errors}");
    let mut arguments = vec!["import", "--join", "launched.ranks", "-o", "joined"];
    arguments.extend(about);
    done(at, &arguments);
    let record = |run: &str| {
        let file = at.join(run).join("record.json");
        serde_json::from_slice::<Value>(&fs::read(file).unwrap()).unwrap()
    };
    let launched = record("launched");
    assert_eq!(launched["workload"]["prompt"], 77);
    assert_eq!(launched, record("joined"));
}

/// A folder of files that are no ranks gave a warning for each and left a failed run.
#[test]
fn a_folder_without_ranks_is_one_line_and_leaves_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("traces")).unwrap();
    for number in 0..20 {
        fs::write(
            at.join(format!("traces/t{number}.json")),
            r#"{"traceEvents": []}"#,
        )
        .unwrap();
    }
    let said = crate::common::refused(at, &["import", "traces", "-o", "run"]);
    let line = "20 files are not the ranks of one job; the first: traces/t0.json ";
    assert!(said.contains(line), "{said}");
    // Reading all of a folder of large traces took half a minute.
    assert!(
        said.contains("8 files were read and none is the timeline of a rank"),
        "{said}"
    );
    assert_eq!(said.matches(".json").count(), 1, "{said}");
    assert!(!said.contains("warning"), "{said}");
    assert!(!at.join("run").exists());
    // One rank among them is no job, and nothing to go on with.
    fs::copy(
        fixtures().join("rank0.json.gz"),
        at.join("traces/z_rank0.json.gz"),
    )
    .unwrap();
    let said = crate::common::refused(at, &["import", "traces", "-o", "run"]);
    assert!(
        said.contains("20 files could not be read, the first: traces/t0.json "),
        "{said}"
    );
    assert!(said.contains("reading ranks 1 summary ("), "{said}");
    assert!(!at.join("run").exists());
}

#[test]
fn mistakes_are_said_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rank = format!("{}/rank0.json.gz", fixtures().display());
    for (arguments, why) in [
        (vec!["import", "--summary-only", &rank], "needs a folder"),
        (vec!["import", "no*.json"], "no file matches"),
        (vec!["import", "@absent"], "cannot read absent"),
        (
            vec!["import", "--join", "absent", "-o", "run"],
            "cannot read absent",
        ),
        (
            vec![
                "import",
                "--summary-only",
                &rank,
                "-o",
                "S",
                "--memory",
                "1MB",
            ],
            "more than --memory",
        ),
        (
            vec![
                "import",
                "--summary-only",
                &rank,
                "-o",
                "S",
                "model=qwen3_8b",
            ],
            "model=qwen3_8b has no effect on rank summaries",
        ),
    ] {
        let output = llmprof(at, &arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        // A long path may wrap the line anywhere.
        let words = errors.split_whitespace().filter(|word| *word != "│");
        let errors = words.collect::<Vec<_>>().join(" ");
        assert!(errors.contains(why), "{arguments:?}: {errors}");
    }
}

#[test]
fn every_rank_is_exported() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let ranks = fixtures().display().to_string();
    done(at, &["import", &ranks, "-o", "run"]);
    let text = done(at, &["export", "run", "--to", "chrome"]);
    assert_eq!(text.lines().count(), 8, "{text}");
    let kernels = |rank: u32| {
        let file = at.join(format!("run/trace.rank{rank}.json"));
        let trace: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        events
            .iter()
            .filter(|event| event["cat"] == "kernel")
            .count()
    };
    assert_eq!((0..8).map(kernels).sum::<usize>(), 2_104);
}

/// Above 16 ranks a run keeps one timeline, as a joined one does: the others are read from their profiles, one after the other.
#[test]
fn ranks_of_a_joined_run_are_exported_from_their_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("traces")).unwrap();
    for rank in 0..8 {
        let name = format!("rank{rank}.json.gz");
        fs::copy(fixtures().join(&name), at.join("traces").join(&name)).unwrap();
    }
    done(at, &["import", "--summary-only", "traces", "-o", "S"]);
    done(at, &["import", "--join", "S", "-o", "joined"]);
    done(at, &["import", "traces", "-o", "whole"]);
    for format in ["chrome", "sqlite", "pftrace"] {
        let text = done(at, &["export", "joined", "--to", format]);
        assert_eq!(text.lines().count(), 8, "{text}");
    }
    for run in ["whole", "joined"] {
        done(at, &["export", run, "--to", "chrome"]);
    }
    for rank in 0..8 {
        let file = |run: &str| fs::read(at.join(format!("{run}/trace.rank{rank}.json"))).unwrap();
        assert!(file("joined") == file("whole"), "rank {rank}");
    }
    fs::remove_file(at.join("traces/rank3.json.gz")).unwrap();
    fs::write(at.join("traces/rank5.json.gz"), "").unwrap();
    let arguments = ["export", "joined", "--to", "chrome", "-o", "again.json"];
    let output = llmprof(at, &arguments);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 6, "{text}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("2 of 8 ranks"), "{errors}");
    assert!(errors.contains("rank5.json.gz changed"), "{errors}");
}
