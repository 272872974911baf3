//! An export without what says who ran what where.

use crate::support;

use std::path::Path;

use llmprof_record::import::nsys_sqlite;
use llmprof_record::trace::Trace;
use rusqlite::Connection;

const PLANTED: [&str; 8] = [
    "hunter2-argument",
    "/home/someone/private-model",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYz12345678",
    "someones-host",
    "neighbours-daemon",
    "neighbours-thread",
    "printed-by-the-program",
    "MY_SETTING=of-the-environment",
];

/// The fixture with private texts where nsys puts them.
fn planted(path: &Path) {
    std::fs::write(path, support::unpacked("h200/nsys/qwen05.sqlite.gz")).expect("a file");
    let export = Connection::open(path).expect("a database");
    let [
        argument,
        directory,
        token,
        host,
        process,
        thread,
        printed,
        variable,
    ] = PLANTED;
    let next: i64 = export
        .query_row("SELECT max(id) + 1 FROM StringIds", [], |row| row.get(0))
        .expect("an id");
    let text = |id: i64, value: &str| {
        export
            .execute("INSERT INTO StringIds VALUES (?1, ?2)", (id, value))
            .expect("a text");
    };
    text(next, thread);
    text(next + 1, &format!("LANG=C\0{variable}\0PATH=/usr/bin\0"));
    text(next + 2, &format!("downloading with {token}"));
    let content: i64 = export
        .query_row("SELECT contentId FROM ANALYSIS_FILE", [], |row| row.get(0))
        .expect("a file that nsys took along");
    export
        .execute(
            "UPDATE StringIds SET value = ?2 WHERE id = ?1",
            (content, printed),
        )
        .expect("its contents");
    let name = "INSERT INTO META_DATA_CAPTURE VALUES (?1, ?2)";
    for (key, value) in [
        ("PROCESS_0:ARGUMENT_9", argument),
        ("PROCESS_0:WORKING_DIR", directory),
        ("PROCESS_0:ENVIRONMENT_0", variable),
    ] {
        export.execute(name, (key, value)).expect("metadata");
    }
    export
        .execute(
            "UPDATE META_DATA_EXPORT SET value = ?1 WHERE name = 'EXPORT_HOST'",
            [host],
        )
        .expect("a host");
    // A process that nsys saw and did not profile.
    let other = 77_i64 << 24;
    export
        .execute(
            "INSERT INTO PROCESSES VALUES (?1, 77, ?2)",
            (other, format!("/opt/{process}")),
        )
        .expect("a process");
    export
        .execute("INSERT INTO ThreadNames VALUES (?1, 0, ?2)", (next, other))
        .expect("a thread");
}

fn bytes_have(path: &Path, text: &str) -> bool {
    let bytes = std::fs::read(path).expect("the file");
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

fn read(path: &Path) -> Trace {
    support::import_bytes(&std::fs::read(path).expect("the file")).expect("an export")
}

#[test]
fn private_texts_go_and_the_timeline_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.sqlite");
    planted(&path);
    for text in PLANTED {
        assert!(bytes_have(&path, text), "{text} was planted");
    }
    let before = read(&path);
    nsys_sqlite::scrub(&path).expect("it can be scrubbed");
    for text in PLANTED {
        assert!(!bytes_have(&path, text), "{text}");
    }
    let after = read(&path);
    support::assert_same(&after, &before);
    assert_eq!(
        after.metadata.get("driver_version").map(String::as_str),
        Some("580.159.04")
    );
    // Again changes nothing.
    nsys_sqlite::scrub(&path).expect("it can be scrubbed");
    support::assert_same(&read(&path), &before);
}

#[test]
fn what_is_no_export_is_an_error_and_not_a_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.sqlite");
    std::fs::write(&path, b"SQLite format 3\0 and then nothing").expect("a file");
    assert!(nsys_sqlite::scrub(&path).is_err());
    let empty = folder.path().join("empty.sqlite");
    Connection::open(&empty)
        .and_then(|other| other.execute_batch("CREATE TABLE a (b)"))
        .expect("a database");
    assert!(nsys_sqlite::scrub(&empty).is_ok());
}
