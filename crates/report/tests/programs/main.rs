//! Programs that nobody profiled: their traces are written here, and their reports are read word by word.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod kineto;

use llmprof_analysis::{Analysis, analyze};
use llmprof_record::import::{Limits, import};
use llmprof_record::run::RunRecord;
use llmprof_report::Report;
use llmprof_report::render::{markdown, terminal};

use cases::{PROGRAMS, Program};
use kineto::Kineto;

/// Words of text generation.
const GENERATION: [&str; 8] = [
    "prefill", "decode", "ttft", "tpot", "kv cache", "kv-cache", "serving", "token",
];

fn recorded(text: &str) -> RunRecord {
    let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    std::fs::write(file.path(), text).unwrap();
    let (_, profile) = import(file.path(), &Limits::default()).unwrap();
    let mut record = RunRecord::default();
    record.add_profile("invented", profile).unwrap();
    record
}

/// All that is said: the terminal, the report, the page for stakeholders.
fn told(record: &RunRecord, analysis: &Analysis) -> String {
    let report = Report {
        record,
        analysis,
        issues: &analysis.issues,
        device: None,
        notes: None,
    };
    let mut text = terminal::digest(&report.digest()).join("\n");
    text += "\n\n";
    text += &markdown::document(&report.document());
    text += &markdown::document(&llmprof_report::compose::stakeholder(analysis));
    text.replace('\u{a0}', " ").replace('\\', "")
}

/// The text without names of the trace, which may say anything.
fn own_words(text: &str, analysis: &Analysis) -> String {
    let mut words = text.to_owned();
    for phase in &analysis.phases {
        words = words.replace(phase.name(), "");
    }
    for kernel in analysis
        .timeline
        .iter()
        .flat_map(|timeline| &timeline.kernels)
    {
        words = words.replace(&kernel.name, "");
    }
    let mut parts = words.split('`');
    let mut outside = String::new();
    while let Some(part) = parts.next() {
        outside += part;
        parts.next();
    }
    outside.to_lowercase()
}

/// Shares of a time are at most the whole of it.
fn shares_above_whole(text: &str) -> Vec<&str> {
    let before = text.match_indices(" %").map(|(end, _)| &text[..end]);
    let number = |before: &str| {
        let digits = before.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        before[digits.len()..].parse::<f64>().ok()
    };
    before
        .filter(|before| number(before).is_some_and(|share| share > 100.0))
        .filter_map(|before| before.lines().last())
        .collect()
}

fn faults(program: &Program) -> Vec<String> {
    let mut trace = Kineto::new();
    (program.write)(&mut trace);
    let record = recorded(&trace.text());
    let analysis = analyze(&record, None).unwrap();
    let text = told(&record, &analysis);
    let mut faults = Vec::new();
    let mut wrong = |what: String| faults.push(format!("{}: {what}", program.name));
    for said in program.says.iter().filter(|said| !text.contains(**said)) {
        wrong(format!("does not say {said:?}"));
    }
    for never in program.never.iter().filter(|never| text.contains(**never)) {
        wrong(format!("says {never:?}"));
    }
    if analysis.program.generates_text() != program.generates_text {
        wrong(format!("is {:?}", analysis.program));
    }
    if !program.generates_text {
        let words = own_words(&text, &analysis);
        for word in GENERATION.iter().filter(|word| words.contains(**word)) {
            wrong(format!("has the word {word:?}"));
        }
        // Gains of causes are replayed; others need a model.
        let promises = text.split("; ").skip(1).any(|part| {
            let line = part.lines().next().unwrap_or_default();
            part.starts_with(char::is_lowercase) && line.contains(" saves ")
        });
        if promises {
            wrong("promises a gain".to_owned());
        }
    }
    for share in shares_above_whole(&text) {
        wrong(format!("has a share above the whole: {share} %"));
    }
    for broken in ["NaN", "inf ", "-0 ", "(none)", "{", "None"] {
        if text.contains(broken) {
            wrong(format!("has {broken:?}"));
        }
    }
    if !faults.is_empty() {
        faults.push(text);
    }
    faults
}

#[test]
fn forty_programs_are_told_as_what_they_are() {
    assert!(PROGRAMS.len() >= 40);
    let faults: Vec<String> = PROGRAMS.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_cut_recording_is_called_cut() {
    let mut trace = Kineto::new();
    for _ in 0..200 {
        trace.op("aten::add", |trace| trace.kernel("add", 20.0));
    }
    let text = trace.text();
    let record = recorded(&text[..text.len() / 2]);
    let told = told(&record, &analyze(&record, None).unwrap());
    assert!(told.contains("The recording is cut"), "{told}");
}

/// What is written is bounded by what was read, however many devices and ranges a file names.
#[test]
fn devices_beyond_a_limit_are_folded() {
    let mut trace = Kineto::new();
    for number in 0..1200 {
        trace.on_device(number % 600);
        trace.range("job", |trace| trace.kernel("work", 20.0));
        trace.synchronize();
    }
    let text = trace.text();
    let record = recorded(&text);
    let analysis = analyze(&record, None).unwrap();
    let written = serde_json::to_string(&analysis).unwrap();
    let times = written.len() as f64 / text.len() as f64;
    assert!(times < 8.0, "{times}");
    let told = told(&record, &analysis);
    assert!(told.contains("analysis.devices_folded"), "{told}");
    assert!(told.len() < 200_000, "{}", told.len());
    // The sums are of all devices all the same.
    assert_eq!(analysis.timeline.unwrap().devices.len(), 600);
}
