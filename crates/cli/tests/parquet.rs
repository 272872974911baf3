//! Parquet: tables of a run read back by DuckDB and pandas and compared with the SQLite export, and datasets as they are published.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::common;

fn fixture(name: &str) -> String {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    fixtures.join(name).display().to_string()
}

/// A Python with DuckDB, pandas and pyarrow.
fn python_with_readers() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python");
    std::env::var_os("LLMPROF_PYTHON").map_or_else(own, PathBuf::from)
}

fn recipe(python: &Path, folder: &Path, name: &str) -> String {
    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recipes");
    let output = Command::new(python)
        .arg(recipes.join(name))
        .current_dir(folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_the_feature_says_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fixture("public/ranks_dlrm/rank0.json.gz");
    common::works(folder.path(), &["import", &trace, "-o", "run"]);
    let said = common::refused(folder.path(), &["export", "run", "--to", "parquet"]);
    assert!(said.contains("--features parquet"), "{said}");
    assert!(!folder.path().join("run/parquet").exists());
}

#[cfg(feature = "parquet")]
#[test]
#[ignore = "live: needs pyarrow"]
fn other_engines_read_the_same_events() {
    let python = python_with_readers();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (trace, run) in [
        ("public/ranks_dlrm", "eight ranks=8"),
        ("public/qwen_h100/trace.json.gz", "7"),
    ] {
        common::works(at, &["import", &fixture(trace), "-o", run]);
        common::works(at, &["export", run, "--to", "sqlite"]);
        let written = common::works(at, &["export", run, "--to", "parquet", "-o", "tables"]);
        assert!(at.join(written.trim()).is_dir(), "{written}");
        let sql = "SELECT count(*), sum(duration_ns) FROM idle_gap";
        let queried = common::works(at, &["query", run, sql, "--format", "csv"]);
        fs::write(at.join(run).join("idle.csv"), queried).unwrap();
    }
    let said = common::refused(at, &["export", "7", "--to", "parquet", "-o", "tables"]);
    assert!(said.contains("exists"), "{said}");
    // Nothing of the refused export stays.
    assert_eq!(fs::read_dir(at.join("tables")).unwrap().count(), 2);
    let said = recipe(&python, at, "read_parquet.py");
    assert!(said.contains("2104 kernels of 8 ranks"), "{said}");
}

#[cfg(feature = "parquet")]
#[test]
fn the_folder_in_a_run_is_listed_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let trace = fixture("public/ranks_dlrm/rank0.json.gz");
    common::works(at, &["import", &trace, "-o", "run"]);
    let written = common::works(at, &["export", "run", "--to", "parquet"]);
    assert_eq!(written.trim(), "run/parquet/run=run");
    let manifest = fs::read_to_string(at.join("run/run.json")).unwrap();
    let file = "parquet/run=run/rank=0/kernel.parquet";
    assert!(manifest.contains(file), "{manifest}");
}

/// A joined run keeps the timeline of one rank: those of the others come from their profiles, on the same clock.
#[cfg(feature = "parquet")]
#[test]
#[ignore = "live: needs pyarrow"]
fn ranks_of_a_joined_run_have_the_times_of_a_whole_one() {
    let python = python_with_readers();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let ranks = fixture("public/ranks_dlrm");
    common::works(at, &["import", "--summary-only", &ranks, "-o", "S"]);
    common::works(at, &["import", "--join", "S", "-o", "joined"]);
    common::works(at, &["import", &ranks, "-o", "whole"]);
    for run in ["joined", "whole"] {
        common::works(at, &["export", run, "--to", "parquet", "-o", "tables"]);
    }
    let said = recipe(&python, at, "same_times.py");
    assert!(said.contains("8 ranks"), "{said}");
}

/// OpenWebText is published as Parquet. A build with the feature needs Python only for compressions that it does not read.
#[test]
#[ignore = "live: needs pyarrow"]
fn datasets_in_parquet_become_samples_and_variants() {
    let python = python_with_readers();
    let folder = tempfile::tempdir().unwrap();
    let (at, project) = (folder.path(), folder.path().join("project"));
    fs::create_dir(&project).unwrap();
    recipe(&python, at, "write_parquet.py");
    let reads = |python: &Path, args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
            .current_dir(&project)
            .env("LLMPROF_PYTHON", python)
            .args(args)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), errors)
    };
    let without_python = Path::new("/no/python");
    let reader = if cfg!(feature = "parquet") {
        without_python
    } else {
        &python
    };
    let add = ["dataset", "add", "web", "--source", "../published", "--yes"];
    for args in [
        &add[..],
        &["dataset", "variant", "web", "lines", "--yes"],
        &["dataset", "variant", "web", "--samples", "4", "--yes"],
        &["dataset", "verify"],
    ] {
        let (code, errors) = reads(reader, args);
        assert_eq!(code, Some(0), "{args:?}: {errors}");
    }
    let lines = fs::read_to_string(project.join("datasets/web/lines/data/samples.jsonl")).unwrap();
    let expected = ["gzip", "none", "snappy", "zstd"]
        .map(|packing| [0, 1, 2].map(|row| format!("Ü {packing} {row}")));
    let texts: Vec<String> = (lines.lines())
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|row| row["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(texts, expected.concat());
    let page = project.join("datasets/web/analysis/samples.html");
    assert!(fs::read_to_string(page).unwrap().contains("Ü zstd 2"));

    let other = ["dataset", "add", "other", "--source", "../brotli", "--yes"];
    let (code, errors) = reads(without_python, &other);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("pyarrow"), "{errors}");
    let (code, errors) = reads(&python, &other);
    assert_eq!(code, Some(0), "{errors}");
}
