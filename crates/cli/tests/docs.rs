//! Reference pages that are generated: they say what the code has.
//!
//! `LLMPROF_UPDATE_DOCS=1 cargo test -p llmprof --test docs` writes them anew.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

const BEGIN: &str = "<!-- options: generated from conf/ -->\n";
const END: &str = "<!-- end of options -->\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The option of each group that the primary config chooses.
fn is_default(group: &str, option: &str, primary: &str) -> bool {
    primary
        .lines()
        .any(|line| line.trim() == format!("- {group}: {option}"))
}

/// One row for every option of every group: its name, and the first comment of its file.
fn options() -> String {
    let conf = root().join("conf");
    let primary = fs::read_to_string(conf.join("config.yaml")).unwrap();
    let mut text = "| option | what |\n|---|---|\n".to_owned();
    for group in names(&conf) {
        if !conf.join(&group).is_dir() {
            continue;
        }
        for file in names(&conf.join(&group)) {
            let option = file.strip_suffix(".yaml").unwrap();
            let content = fs::read_to_string(conf.join(&group).join(&file)).unwrap();
            let what: Vec<&str> = content
                .lines()
                .skip_while(|line| line.starts_with("# @package"))
                .map_while(|line| line.strip_prefix("# "))
                .collect();
            // The first sentence; what follows explains keys.
            let what = what.join(" ");
            let what = what.split_inclusive(". ").next().unwrap_or_default().trim();
            assert!(!what.is_empty(), "{group}/{file} says nothing of itself");
            let default = if is_default(&group, option, &primary) {
                " (default)"
            } else {
                ""
            };
            text += &format!(
                "| `{group}={option}`{default} | {} |\n",
                what.replace('|', "\\|")
            );
        }
    }
    text
}

#[test]
fn every_option_is_listed() {
    let page = root().join("docs/config.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (listed, after) = rest.split_once(END).unwrap();
    let expected = options();
    if std::env::var_os("LLMPROF_UPDATE_DOCS").is_some() {
        fs::write(&page, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        listed, expected,
        "docs/config.md is not what conf/ has: run this test with LLMPROF_UPDATE_DOCS=1"
    );
}
