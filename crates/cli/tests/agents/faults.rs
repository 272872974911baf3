//! A reader that only follows the first hint of each answer reaches cause, place and gain of planted faults.

use std::path::Path;

use serde_json::{Value, json};

use super::{client::Client, common, root};

#[path = "../../../analysis/examples/score_faults/score.rs"]
#[allow(dead_code, reason = "the test of the analysis uses the rest")]
mod score;

const CALLS_MAX: usize = 3;
const BYTES_MAX: usize = 24 * 1024;

/// Codes that name the fault of a program; none where it has no fault that costs time.
fn codes_of(name: &str, entry: &Value) -> Vec<String> {
    let cause = entry["cause"].as_str().unwrap_or(name);
    if cause == "none" || entry["costs_nothing"] == true {
        return Vec::new();
    }
    let also = entry["accept"].as_array().into_iter().flatten();
    let also = also.filter_map(Value::as_str);
    let known = score::accepted(cause).iter().copied();
    known.chain(also).map(str::to_owned).collect()
}

/// What a finding lacks to lead to the change, where it does not say why it lacks it.
fn lacks(finding: &Value) -> Option<&'static str> {
    let has = |key: &str| match &finding[key] {
        Value::Array(items) => !items.is_empty(),
        value => !value.is_null(),
    };
    if !has("place") && !has("no_place") {
        Some("place")
    } else if !has("gain") && !has("no_gain") {
        Some("gain")
    } else if !has("change") {
        Some("change")
    } else {
        None
    }
}

/// Reads one program; whether its fault is named in what the reader saw.
fn read(folder: &Path, name: &str, entry: &Value, codes: &[String]) -> bool {
    let place = tempfile::tempdir().unwrap();
    let trace = folder.join(format!("{name}.json.gz"));
    let config = folder.join(entry["config"].as_str().unwrap_or("config.json"));
    let words = [
        "import",
        trace.to_str().unwrap(),
        "--config",
        config.to_str().unwrap(),
        "-o",
        "runs/one",
    ];
    common::works(place.path(), &words);
    let mut client = Client::start(place.path());
    let mut seen = vec![client.call("runs", &json!({}))];
    while seen.len() < CALLS_MAX {
        let next = seen[seen.len() - 1].answer["next"][0].clone();
        seen.push(client.follow(&next));
    }
    let bytes: usize = seen.iter().map(|called| called.bytes).sum();
    assert!(bytes <= BYTES_MAX, "{name}: {bytes} bytes");
    let (summary, explained) = (&seen[1].answer, &seen[2].answer);
    let findings = summary["findings"].as_array().unwrap();
    let is_fault = |finding: &&Value| codes.iter().any(|code| finding["code"] == code.as_str());
    let Some(found) = findings.iter().find(is_fault) else {
        return false;
    };
    assert_eq!(lacks(found), None, "{name}: {found}");
    assert_eq!(explained["schema"], "llmprof.agent.explain_finding/1");
    assert_eq!(explained["id"], "finding=1");
    true
}

fn check_folder(folder: &str, named_min: usize) {
    let folder = root().join(folder);
    let truth = common::json(&folder.join("truth.json"));
    let programs = truth.as_object().unwrap().iter();
    let programs = programs.map(|(name, entry)| (name, entry, codes_of(name, entry)));
    let programs: Vec<_> = programs
        .filter(|(name, _, codes)| {
            !codes.is_empty() && folder.join(format!("{name}.json.gz")).exists()
        })
        .collect();
    let missed: Vec<&str> = programs
        .iter()
        .filter(|(name, entry, codes)| !read(&folder, name, entry, codes))
        .map(|(name, ..)| name.as_str())
        .collect();
    let named = programs.len() - missed.len();
    assert!(named >= named_min, "{named} named; missed: {missed:?}");
}

#[test]
fn planted_faults_are_reached_in_three_calls() {
    check_folder("fixtures/faults", 8);
}

#[test]
fn faults_of_other_kinds_are_reached_in_three_calls() {
    check_folder("fixtures/faults/varied", 25);
}
