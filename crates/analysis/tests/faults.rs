//! Planted faults: causes named, gains against measured ones, false alarms; docs/diagnosis.md has the same table.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

#[path = "../examples/score_faults/score.rs"]
mod score;

/// What must not get worse: faults named, false alarms, gains that are right.
struct Kept {
    named: usize,
    alarms: usize,
    right: usize,
}

fn check_folder(folder: &str, kept: &Kept) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scores = score::score_folder(&root.join(folder), &[]).unwrap();
    let table = score::table(&scores);
    let summary = score::summary(&scores);
    let gains = scores.iter().flat_map(score::Score::gain_rows);
    let rows: Vec<String> = scores.iter().map(score::Score::row).chain(gains).collect();
    let rows = rows.join("\n");
    let named = scores.iter().filter(|score| score.named == Some(true));
    let alarms = scores.iter().map(|score| score.alarms.len());
    let right = scores
        .iter()
        .map(|score| score.gains_judged(score::Verdict::Right));
    assert!(named.count() >= kept.named, "{summary}\n{rows}");
    assert!(alarms.sum::<usize>() <= kept.alarms, "{summary}\n{rows}");
    assert!(right.sum::<usize>() >= kept.right, "{summary}\n{rows}");
    let page = std::fs::read_to_string(root.join("docs/diagnosis.md")).unwrap();
    let is_shown = page.contains(&format!("`{folder}`: {summary}\n\n{table}"));
    assert!(
        is_shown,
        "docs/diagnosis.md has other figures for {folder}:\n{summary}\n\n{table}"
    );
}

#[test]
fn planted_faults_are_named_with_their_gain_and_nothing_else_is() {
    let kept = Kept {
        named: 8,
        alarms: 0,
        right: 6,
    };
    check_folder("fixtures/faults", &kept);
}

#[test]
fn faults_of_other_kinds_are_named_with_their_gain() {
    let kept = Kept {
        named: 25,
        alarms: 0,
        right: 24,
    };
    check_folder("fixtures/faults/varied", &kept);
}

/// Programs of somebody who knew none of the rules.
#[test]
fn faults_by_another_hand_are_named() {
    let kept = Kept {
        named: 10,
        alarms: 0,
        right: 5,
    };
    check_folder("fixtures/faults/unseen", &kept);
}

/// Nobody looked at these before they were scored once; see their README.
#[test]
fn faults_that_were_kept_apart_are_scored() {
    let kept = Kept {
        named: 11,
        alarms: 0,
        right: 4,
    };
    check_folder("fixtures/faults/kept_apart", &kept);
}

/// Faults that colleagues commit; see their README for the score of the first time.
#[test]
fn faults_of_every_day_are_named() {
    let kept = Kept {
        named: 13,
        alarms: 0,
        right: 6,
    };
    check_folder("fixtures/faults/everyday", &kept);
}

/// Faults as code reviews find them; see their README for the score of the first time.
#[test]
fn faults_of_code_reviews_are_named() {
    let kept = Kept {
        named: 14,
        alarms: 0,
        right: 9,
    };
    check_folder("fixtures/faults/reviewed", &kept);
}

/// Faults of engines, samplers and speech; see their README for the score of the first time.
#[test]
fn faults_of_engines_and_speech_are_named() {
    let kept = Kept {
        named: 11,
        alarms: 0,
        right: 12,
    };
    check_folder("fixtures/faults/streamed", &kept);
}

/// Faults of loops, caches and queues; see their README for the score of the first time.
#[test]
fn faults_of_loops_and_queues_are_named() {
    let kept = Kept {
        named: 12,
        alarms: 0,
        right: 6,
    };
    check_folder("fixtures/faults/practiced", &kept);
}

/// Faults of deployed services; see their README for the score of the first time.
#[test]
fn faults_of_deployed_services_are_named() {
    let kept = Kept {
        named: 12,
        alarms: 0,
        right: 6,
    };
    check_folder("fixtures/faults/deployed", &kept);
}

/// Faults of application engineers; see their README for the score of the first time.
#[test]
fn faults_of_applications_are_named() {
    let kept = Kept {
        named: 6,
        alarms: 0,
        right: 0,
    };
    check_folder("fixtures/faults/harbor", &kept);
}

/// Faults of adapters, samplers, threads and own kernels; see their README for the score of the first time.
#[test]
fn faults_of_adapters_and_samplers_are_named() {
    let kept = Kept {
        named: 5,
        alarms: 1,
        right: 2,
    };
    check_folder("fixtures/faults/pier", &kept);
}
