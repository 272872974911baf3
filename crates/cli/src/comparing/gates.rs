//! What gates say to a shell, to CI and to GitHub.

use std::{io::Write as _, path::Path, process::ExitCode};

use llmprof_analysis::compare::{GateOutcome, GateState, Unevaluated};
use llmprof_record::store::write_output;
use llmprof_report::compose::compare::sentences as words;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::args_compare::Inconclusive;
use crate::{failure::Failure, output::Output};

/// Exit code where a threshold was crossed, or could not be judged.
const CROSSED: u8 = 1;

/// One comparison with its gates.
pub(super) struct JudgedGates {
    pub(super) title: String,
    pub(super) outcomes: Vec<GateOutcome>,
    /// What is not alike and what the metrics say, for the output of a test case.
    pub(super) lines: Vec<String>,
}

fn counts_as_failure(outcome: &GateOutcome, inconclusive: Inconclusive) -> bool {
    match outcome.state {
        GateState::Passed => false,
        GateState::Failed | GateState::NotEvaluated => true,
        GateState::Inconclusive => inconclusive == Inconclusive::Fail,
    }
}

pub(super) fn exit_code(judged: &[JudgedGates], inconclusive: Inconclusive) -> ExitCode {
    let mut outcomes = judged.iter().flat_map(|one| &one.outcomes);
    if outcomes.any(|outcome| counts_as_failure(outcome, inconclusive)) {
        ExitCode::from(CROSSED)
    } else {
        ExitCode::SUCCESS
    }
}

/// A warning per gate that could not be evaluated, and per gate that could not be decided and passes nevertheless.
pub(super) fn warn(judged: &[JudgedGates], inconclusive: Inconclusive) {
    for outcome in judged.iter().flat_map(|one| &one.outcomes) {
        if let Some(reason) = &outcome.reason {
            Failure::new(words::gate(outcome))
                .hint(remedy(reason))
                .warn();
        } else if outcome.state == GateState::Inconclusive && inconclusive == Inconclusive::Pass {
            let hint = "the interval holds the threshold; more rounds narrow it, --inconclusive fail makes this exit code 1";
            Failure::new(words::gate(outcome))
                .hint(hint.to_owned())
                .warn();
        }
    }
}

/// What lets a gate be evaluated.
fn remedy(reason: &Unevaluated) -> String {
    let text = match reason {
        Unevaluated::NotMeasured => {
            "gate a metric of the table; --json lists those that both sides have"
        }
        Unevaluated::OtherWork(_) => {
            "compare runs of the same lengths and batch, or gate tokens_per_s, which holds for any batch"
        }
        Unevaluated::TooFewValues => {
            "raise runtime.repeats or --requests, compare folders of several runs, or use --run with more --rounds"
        }
        Unevaluated::ClientLate => {
            "measure again with --workers, on a machine or cores apart from the server, or at a lower rate"
        }
    };
    text.to_owned()
}

/// A test suite per comparison, a test case per gate.
pub(super) fn junit(
    file: &Path,
    judged: &[JudgedGates],
    inconclusive: Inconclusive,
) -> Result<(), Failure> {
    let mut report = Report::new("llmprof compare");
    for one in judged {
        let mut suite = TestSuite::new(one.title.as_str());
        let mut cases: Vec<TestCase> = one
            .outcomes
            .iter()
            .map(|outcome| {
                let status = if counts_as_failure(outcome, inconclusive) {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    status.set_message(words::gate(outcome));
                    status
                } else if outcome.state == GateState::Inconclusive {
                    let mut status = TestCaseStatus::skipped();
                    status.set_message(words::gate(outcome));
                    status
                } else {
                    TestCaseStatus::success()
                };
                TestCase::new(outcome.gate.as_str(), status)
            })
            .collect();
        let mut compared = TestCase::new("compare", TestCaseStatus::success());
        compared.set_system_out(one.lines.join("\n"));
        cases.push(compared);
        suite.add_test_cases(cases);
        report.add_test_suite(suite);
    }
    let text = report
        .to_string()
        .map_err(|error| Failure::new(format!("cannot write JUnit XML: {error}")))?;
    write_output(file, text.as_bytes())?;
    Ok(())
}

/// Workflow commands on standard output, which GitHub turns into annotations.
pub(super) fn annotate(
    judged: &[&JudgedGates],
    inconclusive: Inconclusive,
    output: &mut Output,
) -> Result<(), Failure> {
    for one in judged {
        for outcome in &one.outcomes {
            let level = match outcome.state {
                GateState::Passed => "notice",
                _ if counts_as_failure(outcome, inconclusive) => "error",
                _ => "warning",
            };
            let text = escaped(&format!("{} ({})", words::gate(outcome), one.title));
            output.line(&format!("::{level} title=llmprof compare::{text}"))?;
        }
    }
    Ok(())
}

/// Data of a workflow command.
fn escaped(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Adds Markdown to the page that GitHub shows for a job; nothing where there is none.
pub(super) fn step_summary(markdown: &str) -> Result<(), Failure> {
    let Some(file) = std::env::var_os("GITHUB_STEP_SUMMARY") else {
        return Ok(());
    };
    let opened = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&file);
    opened
        .and_then(|mut page| page.write_all(markdown.as_bytes()))
        .map_err(|error| Failure::new(format!("cannot write $GITHUB_STEP_SUMMARY: {error}")))
}
