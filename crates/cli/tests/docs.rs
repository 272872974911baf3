//! Reference pages that are generated: they say what the code has.
//!
//! `LLMPROF_UPDATE_DOCS=1 cargo test -p llmprof docs::` writes them anew.

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

/// Group, option and text of every file of a group and of the groups below it.
fn options_of(conf: &Path, group: &str) -> Vec<(String, String, String)> {
    let mut options = Vec::new();
    let mut below = Vec::new();
    for name in names(&conf.join(group)) {
        let path = conf.join(group).join(&name);
        match name.strip_suffix(".yaml") {
            Some(option) => {
                let content = fs::read_to_string(&path).unwrap();
                options.push((group.to_owned(), option.to_owned(), content));
            }
            None => below.extend(options_of(conf, &format!("{group}/{name}"))),
        }
    }
    options.extend(below);
    options
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
        for (group, option, content) in options_of(&conf, &group) {
            let what: Vec<&str> = content
                .lines()
                .skip_while(|line| line.starts_with("# @package"))
                .map_while(|line| line.strip_prefix("# "))
                .collect();
            // The first sentence; what follows explains keys.
            let what = what.join(" ");
            let what = what.split_inclusive(". ").next().unwrap_or_default().trim();
            assert!(!what.is_empty(), "{group}/{option} says nothing of itself");
            let default = if is_default(&group, &option, &primary) {
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

const PLAN: &str = "<!-- plan: ";
const PLAN_END: &str = "<!-- end of plan -->\n";

/// Result and engines of a plan, as `llmprof plan` prints them.
fn planned(arguments: &str) -> String {
    let words: Vec<&str> = std::iter::once("plan")
        .chain(arguments.split_whitespace())
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let printed = crate::common::works(folder.path(), &words);
    let (_, printed) = printed.split_once("SUMMARY\n\n").unwrap();
    let (printed, _) = printed.split_once("\nBASIS\n").unwrap();
    format!("```text\n{}\n```\n", printed.trim_end())
}

/// Figures of plans in the page were those of an earlier predictor.
#[test]
fn plans_of_the_page_are_what_is_printed() {
    let page = root().join("docs/plan.md");
    let text = fs::read_to_string(&page).unwrap();
    let mut parts = text.split(PLAN);
    let mut expected = parts.next().unwrap().to_owned();
    for part in parts {
        let (arguments, rest) = part.split_once(" -->\n").unwrap();
        let (_, after) = rest.split_once(PLAN_END).unwrap();
        expected += &format!(
            "{PLAN}{arguments} -->\n{}{PLAN_END}{after}",
            planned(arguments)
        );
    }
    if std::env::var_os("LLMPROF_UPDATE_DOCS").is_some() {
        fs::write(&page, expected).unwrap();
        return;
    }
    assert_eq!(
        text, expected,
        "docs/plan.md is not what `llmprof plan` prints: run this test with LLMPROF_UPDATE_DOCS=1"
    );
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
