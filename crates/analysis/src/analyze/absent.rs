//! What cannot be worked out from a record, and why.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_theory::ModelError;
use llmprof_theory::device::Device;

use crate::matching::lanes::WorkLane;
use crate::trace::TraceAnalysis;

/// That theory cannot count a model which ran all the same.
pub(super) fn report_uncounted(error: &ModelError) -> Issue {
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
    lanes: &[WorkLane],
    is_measured: bool,
) -> Vec<Issue> {
    let of_host = lanes.iter().any(|lane| lane.device.is_none());
    let is_loss = |issue: &&Issue| !of_host || issue.code != IssueCode::AnalysisNoDeviceEvents;
    let mut issues: Vec<Issue> = timeline.issues.iter().filter(is_loss).cloned().collect();
    if of_host && !is_measured {
        issues.push(Issue::info(IssueCode::RunHostOnly));
    }
    let outside = lanes
        .iter()
        .filter(|lane| lane.is_exact)
        .flat_map(|lane| &lane.items)
        .filter(|item| item.window().is_none())
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

pub(super) fn report_absent(
    is_counted: bool,
    needs_model: bool,
    device: Option<&Device>,
    lanes: &[WorkLane],
    issues: &mut Vec<Issue>,
) {
    // Theory counts language models: of another program none can be named.
    if needs_model {
        issues.push(Issue::warning(IssueCode::RunNoModel));
    }
    if is_counted && device.is_none() {
        issues.push(no_device());
    } else if is_counted && lanes.len() > 1 {
        issues.push(Issue::warning(IssueCode::RunSeveralDevices).with("devices", lanes.len()));
    }
    if lanes.is_empty() {
        issues.push(Issue::warning(IssueCode::RunNoWork));
    }
}
