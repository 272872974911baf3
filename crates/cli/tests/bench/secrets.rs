//! The key of an endpoint is sent, and stands nowhere.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use llmprof_stub::{Behaviour, RequestFault, Stub};

/// Nothing in it looks like a key, nor does the name of its variable: only that it was given as one says so. Tables of Markdown
/// escape its underscores.
const KEY: &str = "Zq81xWv0_TtYd7m_LpQ2";

/// Files of a folder and its folders.
fn files(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, paths);
        } else {
            paths.push(path);
        }
    }
}

/// Whether there is the key or a part of it that would help to guess it, escaped or not.
fn has_key(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).replace('\\', "");
    (0..=KEY.len() - 8).any(|at| text.contains(&KEY[at..at + 8]))
}

/// Runs `bench` with the key; what it printed and what its files hold, none of which has the key.
fn bench(dir: &Path, stub: &Stub, words: &str) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args(["bench", &stub.url(), "--api-key-env", "SERVER"])
        .args(words.split(' '))
        .current_dir(dir)
        .env("SERVER", KEY)
        .output()
        .unwrap();
    let sent = stub.authorizations();
    let bearer = Some(format!("Bearer {KEY}"));
    assert!(!sent.is_empty() && sent.iter().all(|one| *one == bearer));
    assert!(!has_key(&output.stdout), "{output:?}");
    assert!(!has_key(&output.stderr), "{output:?}");
    let mut all = Vec::new();
    files(&dir.join("run"), &mut all);
    for file in &all {
        let bytes = std::fs::read(file).unwrap();
        assert!(!has_key(&bytes), "{}", file.display());
    }
    output
}

#[test]
fn a_server_that_repeats_its_key_everywhere_puts_it_into_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let traces = dir.path().join("traces");
    std::fs::create_dir(&traces).unwrap();
    let faults = [
        RequestFault::Status(401),
        RequestFault::BadEvent,
        RequestFault::ErrorEvent,
        RequestFault::Html,
        RequestFault::DieAfter(1),
    ];
    // The first request is the probe.
    let numbered = faults.into_iter().enumerate();
    let stub = Stub::start(Behaviour {
        faults: numbered.map(|(at, fault)| (at as u64 + 2, fault)).collect(),
        trace_folder: Some(traces),
        slots: 1,
        repeats_key: true,
        ..Behaviour::default()
    })
    .unwrap();
    for (words, least) in [
        ("--output-tokens 2", 12),
        ("--output-tokens 2 --chat --turns 2 --no-stream", 10),
    ] {
        let _ = std::fs::remove_dir_all(dir.path().join("run"));
        let words = format!(
            "{words} --requests 24 --concurrency 1 --profile --profile-after 1ms --profile-for 10ms --profile-dir traces -o run"
        );
        let output = bench(dir.path(), &stub, &words);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let mut all = Vec::new();
        files(&dir.path().join("run"), &mut all);
        assert!(all.len() > least, "{all:?}");
    }
    // What it said is there, but for the key.
    let run = dir.path().join("run");
    assert!(super::read(&run.join("server/metrics.txt")).contains("seen_(redacted)"));
    assert_eq!(
        super::json(&run.join("bench.json"))["model"],
        "stub (redacted)"
    );
}

/// The key in other encodings stands in no file either.
#[test]
fn a_server_that_repeats_its_key_in_other_encodings_puts_it_into_no_file() {
    let hex = |key: &str| llmprof_units::hex_text(key.as_bytes());
    let reversed = |key: &str| key.chars().rev().collect::<String>();
    // Of `Zq81xWv0_TtYd7m_LpQ2`, by Python's base64.b64encode.
    let base64 = |_: &str| "WnE4MXhXdjBfVHRZZDdtX0xwUTI=".to_owned();
    let escaped = |key: &str| {
        let characters = key.bytes().map(|byte| format!("\\u{byte:04x}"));
        characters.collect::<String>()
    };
    let forms: [fn(&str) -> String; 4] = [hex, reversed, base64, escaped];
    for form in forms {
        let dir = tempfile::tempdir().unwrap();
        let stub = Stub::start(Behaviour {
            faults: vec![(2, RequestFault::Status(401)), (3, RequestFault::BadEvent)],
            repeats_key: true,
            key_form: form,
            ..Behaviour::default()
        })
        .unwrap();
        let output = bench(dir.path(), &stub, "--requests 8 --concurrency 1 -o run");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let encoded = form(KEY);
        let is_clean = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            // Also where a backslash is doubled.
            !text.contains(&encoded) && !text.replace("\\\\", "\\").contains(&encoded)
        };
        assert!(
            is_clean(&output.stdout) && is_clean(&output.stderr),
            "{output:?}"
        );
        let mut all = Vec::new();
        files(&dir.path().join("run"), &mut all);
        for file in &all {
            let bytes = std::fs::read(file).unwrap();
            assert!(is_clean(&bytes), "{encoded} in {}", file.display());
        }
    }
}

#[test]
fn messages_of_failed_requests_stay() {
    let dir = tempfile::tempdir().unwrap();
    let stub = Stub::start(Behaviour {
        faults: vec![(2, RequestFault::Status(401)), (3, RequestFault::BadEvent)],
        repeats_key: true,
        ..Behaviour::default()
    })
    .unwrap();
    let output = bench(dir.path(), &stub, "--requests 8 --concurrency 1 -o run");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let requests = super::read(&dir.path().join("run/requests.csv"));
    assert!(requests.contains("refused by the stub"), "{requests}");
    assert!(requests.contains("an event is not JSON"), "{requests}");
}

#[test]
fn a_refused_probe_does_not_show_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let stub = Stub::start(Behaviour {
        fault_every: Some((1, RequestFault::Status(401))),
        repeats_key: true,
        ..Behaviour::default()
    })
    .unwrap();
    let output = bench(dir.path(), &stub, "--requests 2 -o run");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("refused by the stub"));
}
