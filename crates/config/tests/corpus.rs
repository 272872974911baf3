//! Every case of `tests/corpus` gives what hydra-core gave; see the README there.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Answer, Invocation, Rejection};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// The folders that hold a case, in order.
fn cases() -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = folders(&corpus())
        .iter()
        .flat_map(|area| folders(area))
        .collect();
    cases.sort();
    cases
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).expect("the corpus is in the repository");
    entries
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.is_dir())
        .collect()
}

/// All files below a folder: path from the folder, and text.
fn collect_texts(folder: &Path, below: &Path, texts: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(below).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            collect_texts(folder, &path, texts);
        } else {
            let name = path
                .strip_prefix(folder)
                .expect("below the folder")
                .display()
                .to_string();
            texts.insert(name, fs::read_to_string(&path).expect("text"));
        }
    }
}

/// Hydra's answer, as the recipe wrote it.
fn expected(files: &BTreeMap<String, String>) -> Answer {
    if let Some(text) = files.get("expected.txt") {
        return Answer::Stdout(text.clone());
    }
    if let Some(text) = files.get("expected.jobs") {
        let jobs = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("a list of overrides"));
        return Answer::Jobs(jobs.collect());
    }
    if let Some(text) = files.get("expected.files") {
        let written = text.split("=== ").skip(1).map(|file| {
            let (path, text) = file.split_once('\n').expect("a line with the path");
            (path.to_owned(), text.to_owned())
        });
        return Answer::Files(written.collect());
    }
    let text = files
        .get("expected.error")
        .expect("each case has an expectation");
    let (chain, message) = text.split_once('\n').expect("a line with the classes");
    Answer::Error(Rejection {
        chain: chain.split(" <- ").map(str::to_owned).collect(),
        message: message.to_owned(),
    })
}

#[test]
fn every_case_is_as_hydra_has_it() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let root = common::root_in(temporary.path());
    let only = std::env::var("CORPUS_CASE").ok();
    let mut differences = Vec::new();
    let mut count = 0;
    for folder in cases() {
        let name = folder
            .strip_prefix(corpus())
            .expect("in the corpus")
            .display()
            .to_string();
        if only.as_ref().is_some_and(|only| !name.starts_with(only)) {
            continue;
        }
        count += 1;
        let mut all = BTreeMap::new();
        collect_texts(&folder, &folder, &mut all);
        let invocation: Invocation =
            serde_json::from_str(&all["case.json"]).expect("a command line");
        let tree = all
            .iter()
            .filter(|(path, _)| path.contains('/'))
            .map(|(path, text)| (path.as_str(), text.as_str()));
        common::write_tree(&root, tree);
        let theirs = expected(&all);
        let ours = common::run(&root, &invocation);
        if !theirs.agrees_with(&ours, &invocation) {
            differences.push(format!(
                "--- {name} {:?}\nhydra: {theirs:?}\nours:  {ours:?}",
                invocation.args
            ));
        }
    }
    assert!(
        count >= 300 || only.is_some(),
        "only {count} cases were found"
    );
    assert!(
        differences.is_empty(),
        "{} of {count} cases differ from Hydra:\n{}",
        differences.len(),
        differences.join("\n")
    );
}
