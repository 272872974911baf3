//! What cannot be worked out from a record, and why.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_theory::ModelError;
use llmprof_theory::device::Device;

use crate::matching::lanes::Lane;
use crate::program::ProgramKind;
use crate::trace::TraceAnalysis;

/// That theory cannot count a model which ran all the same.
pub(super) fn uncounted(error: &ModelError) -> Issue {
    let issue = Issue::warning(IssueCode::ModelUncounted);
    match error {
        ModelError::UnknownFamily { found, .. } => issue.with("model_type", found.as_str()),
        ModelError::NoModelType { .. } => issue,
        other => issue.with("error", other.to_string()),
    }
}

/// What was dropped comes first. That a trace of the host has no device is no loss.
pub(super) fn trace_issues(
    timeline: &TraceAnalysis,
    lanes: &[Lane],
    is_measured: bool,
) -> Vec<Issue> {
    let of_host = lanes.iter().any(|lane| lane.device.is_none());
    let mut issues = timeline.issues.clone();
    issues.retain(|issue| !(of_host && issue.code == IssueCode::AnalysisNoDeviceEvents));
    if of_host && !is_measured {
        issues.push(Issue::info(IssueCode::RunHostOnly));
    }
    let outside = lanes
        .iter()
        .filter(|lane| lane.is_exact)
        .flat_map(|lane| &lane.items)
        .filter(|item| item.window.is_none())
        .count();
    if outside > 0 {
        let issue = Issue::warning(IssueCode::RunOutsidePhases);
        issues.push(issue.counting(outside as u64));
    }
    issues
}

pub(super) fn no_device() -> Issue {
    Issue::warning(IssueCode::RunNoDevice)
}

pub(super) fn absent(
    is_counted: bool,
    program: ProgramKind,
    device: Option<&Device>,
    lanes: &[Lane],
    issues: &mut Vec<Issue>,
) {
    if !is_counted {
        // Theory counts language models: of another program none can be named.
        if program.generates_text() {
            issues.push(Issue::warning(IssueCode::RunNoModel));
        }
    } else if device.is_none() {
        issues.push(no_device());
    } else if lanes.len() > 1 {
        issues.push(Issue::warning(IssueCode::RunSeveralDevices).with("devices", lanes.len()));
    }
    if lanes.is_empty() {
        issues.push(Issue::warning(IssueCode::RunNoWork));
    }
}
