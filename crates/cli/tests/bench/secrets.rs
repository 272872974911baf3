//! The key of an endpoint is sent, and stands nowhere.

use std::{path::Path, process::Command};

use llmprof_load::stub::{Behaviour, Fault, Stub};

const KEY: &str = "sk-proj-Zq81xWv0TtYd7mLpQ2";

/// Files of a folder and its folders.
fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn an_api_key_is_sent_and_never_stored() {
    // Every fourth request is refused with a message that repeats the key, as servers do.
    let stub = Stub::start(Behaviour {
        fault_every: Some((4, Fault::Status(401))),
        repeats_key: true,
        ..Behaviour::default()
    })
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args(["bench", &stub.url(), "--api-key-env", "SERVER_KEY"])
        .args("--requests 11 --output-tokens 2 --profile --profile-for 10ms -o run".split(' '))
        .current_dir(dir.path())
        .env("SERVER_KEY", KEY)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let sent = stub.authorizations();
    assert!(sent.len() >= 12, "{sent:?}");
    let bearer = Some(format!("Bearer {KEY}"));
    assert!(sent.iter().all(|one| *one == bearer), "{sent:?}");
    let has_key = |bytes: &[u8]| bytes.windows(KEY.len()).any(|part| part == KEY.as_bytes());
    assert!(
        !has_key(&output.stdout) && !has_key(&output.stderr),
        "{output:?}"
    );
    let mut all = Vec::new();
    files(dir.path(), &mut all);
    assert!(all.len() > 5, "{all:?}");
    for file in all {
        assert!(
            !has_key(&std::fs::read(&file).unwrap()),
            "{}",
            file.display()
        );
    }
    // The refusal itself is still reported.
    let requests = super::read(&dir.path().join("run/requests.csv"));
    assert!(requests.contains("refused by the stub"), "{requests}");
}
