//! What people and their programs see of a run: pages, notes, tables.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{json, llmprof, refused, works};

/// Standard output is for a program or for the address of the pages.
#[test]
fn data_for_programs_and_pages_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    for words in [
        &["import", "x.json", "--view", "--json"][..],
        &["run", "--view", "--format", "agent"],
        &["bench", "localhost:1", "--view", "--json"],
        &["compare", "a", "b", "--view", "--json"],
    ] {
        let said = refused(folder.path(), words);
        assert!(said.contains("cannot be used with"), "{words:?}: {said}");
    }
}

fn fixture(name: &str) -> String {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    fixtures.join(name).display().to_string()
}

/// Rows of a file as `query --format json` prints them.
fn rows_of_file(file: &Path, sql: &str) -> Vec<Value> {
    let database = rusqlite::Connection::open(file).unwrap();
    let mut statement = database.prepare(sql).unwrap();
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map([], |row| {
        let cells = columns.iter().enumerate().map(|(place, name)| {
            let value = match row.get(place)? {
                rusqlite::types::Value::Null => Value::Null,
                rusqlite::types::Value::Integer(value) => value.into(),
                rusqlite::types::Value::Real(value) => value.into(),
                rusqlite::types::Value::Text(text) => text.into(),
                rusqlite::types::Value::Blob(_) => unreachable!("no table has blobs"),
            };
            Ok((name.clone(), value))
        });
        cells.collect::<Result<Value, _>>()
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

/// One statement, asked of a run and of its SQLite export.
#[test]
fn queries_have_the_same_answer_in_the_sqlite_export() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let trace = fixture("faults/pageable_copy_each_step.json.gz");
    works(at, &["import", &trace, "-o", "run"]);
    let ranks = fixture("public/ranks_dlrm");
    works(at, &["import", &ranks, "-o", "ranks"]);
    let asked = |run: &str, sql: &str| -> Vec<Value> {
        let words = ["query", run, sql, "--format", "json", "--limit", "1000000"];
        serde_json::from_str(&works(at, &words)).unwrap()
    };
    let said = works(at, &["export", "run", "--to", "sqlite", "-o", "t.sqlite"]);
    assert_eq!(said, "t.sqlite\n");
    for table in [
        "kernel", "launch", "host_op", "step", "idle_gap", "copy", "sample", "finding",
    ] {
        let sql = format!("SELECT * FROM {table}");
        let expected = asked("run", &sql);
        assert_eq!(
            rows_of_file(&at.join("t.sqlite"), &sql),
            expected,
            "{table}"
        );
        // This trace has no sampled stacks.
        assert_eq!(expected.is_empty(), table == "sample", "{table}");
    }
    let files = works(at, &["export", "ranks", "--to", "sqlite"]);
    let names = (0..files.lines().count()).map(|rank| format!("ranks/trace.rank{rank}.sqlite"));
    assert_eq!(files.lines().collect::<Vec<_>>(), names.collect::<Vec<_>>());
    let sql = "SELECT trace, count(*) AS n, min(start_ns) AS first, sum(duration_ns) AS ns FROM kernel GROUP BY trace";
    let of_files = files
        .lines()
        .flat_map(|file| rows_of_file(&at.join(file), sql));
    assert_eq!(of_files.collect::<Vec<_>>(), asked("ranks", sql));
}

/// What a person wrote beside the files of a run is on its pages and in its description; no command changes it.
#[test]
fn notes_beside_a_run_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let trace = fixture("faults/gc_each_step.json.gz");
    works(at, &["import", &trace, "-o", "run"]);
    let without = works(at, &["runs", "show", "run"]);
    assert!(!without.contains("notes"), "{without}");
    let notes = "GC in each step\nsecond line\n";
    fs::write(at.join("run/notes.md"), notes).unwrap();
    let shown = works(at, &["runs", "show", "run"]);
    assert!(
        shown.contains("\nnotes       GC in each step\n            second line\n"),
        "{shown}"
    );
    works(at, &["view", "run", "-o", "pages"]);
    let runs = json(&at.join("pages/runs.json"));
    assert_eq!(runs["runs"][0]["notes"], notes.trim());
    works(at, &["analyze", "run"]);
    assert_eq!(fs::read_to_string(at.join("run/notes.md")).unwrap(), notes);
    // Of somebody else's run it may be a link to any file.
    fs::remove_file(at.join("run/notes.md")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", at.join("run/notes.md")).unwrap();
    let refused = llmprof(at, &["runs", "show", "run"]);
    assert_ne!(refused.status.code(), Some(0));
    works(at, &["view", "run", "-o", "others"]);
    let runs = json(&at.join("others/runs.json"));
    assert_eq!(runs["runs"][0]["notes"], Value::Null);
}
