//! A reader that only follows hints reaches cause, place and gain of every planted fault that the analysis names, and is told of the others that
//! nothing more was found.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use super::{client::Client, common, root};

#[path = "../../../analysis/examples/score_faults/score.rs"]
#[allow(dead_code, reason = "the test of the analysis uses the rest")]
mod score;

const CALLS_MAX: usize = 3;
const BYTES_MAX: usize = 24 * 1024;

/// Codes that name the fault of a program.
fn codes_of(name: &str, entry: &Value) -> Vec<String> {
    let cause = entry["cause"].as_str().unwrap_or(name);
    let also = entry["accept"].as_array().into_iter().flatten();
    let also = also.filter_map(Value::as_str);
    let codes = score::accepted(cause).iter().copied().chain(also);
    codes.map(str::to_owned).collect()
}

/// Whether the analysis names the fault, for each program of a folder that has one: the table that the tests of the analysis keep.
fn faults_named(folder: &str) -> BTreeMap<String, bool> {
    let page = fs::read_to_string(root().join("docs/diagnosis.md")).unwrap();
    let (_, table) = page.split_once(&format!("`{folder}`: ")).unwrap();
    let rows = table.lines().skip(4).take_while(|row| row.starts_with('|'));
    rows.filter_map(|row| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let program = cells.next()?.to_owned();
        match cells.next()? {
            "named" => Some((program, true)),
            "MISSED" => Some((program, false)),
            _ => None,
        }
    })
    .collect()
}

/// The finding of an answer with one of the codes.
fn finding_with(answer: &Value, codes: &[String]) -> Option<Value> {
    let mut findings = answer["findings"].as_array().into_iter().flatten();
    let finding =
        findings.find(|finding| codes.iter().any(|code| finding["code"] == code.as_str()));
    finding.cloned()
}

/// The hint that calls `tool`, with the argument `id` where one is wanted.
fn hint_to(answer: &Value, tool: &str, id: Option<&Value>) -> Option<Value> {
    let mut hints = answer["next"].as_array().into_iter().flatten();
    let hint = hints
        .find(|hint| hint["tool"] == tool && id.is_none_or(|id| hint["arguments"]["id"] == *id));
    hint.cloned()
}

/// What a cause lacks: its place and its gain, or why there is none, and what to change.
fn lacking_in(cause: &Value) -> Vec<&'static str> {
    let is_reason = |key: &str| cause[key].as_str().is_some_and(|reason| reason.len() > 20);
    let place = cause["place"].as_object();
    let has_place = place.is_some_and(|place| !place.is_empty());
    let gains = cause["gain"].as_array().into_iter().flatten();
    let is_gain = |gain: &Value| {
        let number = |key: &str| gain[key].as_f64().unwrap();
        let (low, saved, high) = (number("low_ms"), number("saved_ms"), number("high_ms"));
        low <= saved && saved <= high && high <= number("of_ms") && high > 0.0
    };
    let gains: Vec<bool> = gains.map(is_gain).collect();
    let has_gain = !gains.is_empty() && gains.iter().all(|is_gain| *is_gain);
    let parts = [
        ("place", has_place || is_reason("no_place")),
        ("gain", has_gain || is_reason("no_gain")),
        ("change", cause["change"].is_string()),
    ];
    parts
        .iter()
        .filter(|(_, has)| !has)
        .map(|(part, _)| *part)
        .collect()
}

/// Follows hints to a cause with one of the codes; `None` where no answer has one, which must be said.
fn read(folder: &Path, name: &str, entry: &Value, codes: &[String]) -> Option<Value> {
    let place = tempfile::tempdir().unwrap();
    let trace = folder.join(format!("{name}.json.gz"));
    let config = folder.join(entry["config"].as_str().unwrap_or("config.json"));
    let mut words = vec!["import", trace.to_str().unwrap(), "-o", "runs/one"];
    if config.exists() {
        words.extend(["--config", config.to_str().unwrap()]);
    }
    common::works(place.path(), &words);
    let mut client = Client::start(place.path());
    let runs = client.call("runs", &json!({}));
    let summary = client.follow(&hint_to(&runs.answer, "summary", None).unwrap());
    let mut last = summary.answer.clone();
    let mut bytes = runs.bytes + summary.bytes;
    let mut calls = 2;
    let cause = if let Some(finding) = finding_with(&summary.answer, codes) {
        let hint = hint_to(&summary.answer, "explain", Some(&finding["id"]));
        let hint = hint.unwrap_or_else(|| panic!("{name}: no hint leads to {finding}"));
        let explained = client.follow(&hint);
        bytes += explained.bytes;
        calls += 1;
        assert_eq!(explained.answer["id"], finding["id"], "{name}");
        assert_eq!(explained.answer["code"], finding["code"], "{name}");
        Some(explained.answer)
    } else if let Some(hint) = hint_to(&summary.answer, "findings", None) {
        let more = client.follow(&hint);
        bytes += more.bytes;
        calls += 1;
        last = more.answer;
        finding_with(&last, codes)
    } else {
        None
    };
    assert!(calls <= CALLS_MAX && bytes <= BYTES_MAX, "{name}: {bytes}");
    if cause.is_none() {
        let abstained = last["abstained"].as_array().into_iter().flatten();
        let is_said = abstained
            .filter_map(Value::as_str)
            .any(|line| line.ends_with("cause or limit is supported by the data"));
        assert!(is_said, "{name}: {last}");
    }
    cause
}

fn check_folder(folder_name: &str) {
    let folder = root().join(folder_name);
    let truth = common::json(&folder.join("truth.json"));
    let programs = faults_named(folder_name);
    assert!(programs.len() >= 8, "{folder_name}: {programs:?}");
    let mut wrong = Vec::new();
    for (name, is_named) in &programs {
        let entry = &truth[name];
        let cause = read(&folder, name, entry, &codes_of(name, entry));
        match cause {
            Some(cause) => {
                let lacking = lacking_in(&cause);
                if !lacking.is_empty() {
                    wrong.push(format!("{name} lacks {lacking:?}: {cause}"));
                }
            }
            None if *is_named => wrong.push(format!("{name}: the cause is not reached")),
            None => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn planted_faults_are_reached_in_three_calls() {
    check_folder("fixtures/faults");
}

#[test]
fn faults_of_other_kinds_are_reached_in_three_calls() {
    check_folder("fixtures/faults/varied");
}

#[test]
fn faults_by_another_hand_are_reached_in_three_calls() {
    check_folder("fixtures/faults/unseen");
}

#[test]
fn faults_that_were_kept_apart_are_reached_in_three_calls() {
    check_folder("fixtures/faults/kept_apart");
}

#[test]
fn faults_of_every_day_are_reached_in_three_calls() {
    check_folder("fixtures/faults/everyday");
}

#[test]
fn faults_of_code_reviews_are_reached_in_three_calls() {
    check_folder("fixtures/faults/reviewed");
}

#[test]
fn faults_of_engines_and_speech_are_reached_in_three_calls() {
    check_folder("fixtures/faults/streamed");
}

#[test]
fn faults_of_loops_and_queues_are_reached_in_three_calls() {
    check_folder("fixtures/faults/practiced");
}

#[test]
fn faults_of_deployed_services_are_reached_in_three_calls() {
    check_folder("fixtures/faults/deployed");
}

#[test]
fn faults_of_applications_are_reached_in_three_calls() {
    check_folder("fixtures/faults/harbor");
}
