//! What cannot be worked out from a record, and why.

use llmprof_record::issue::{Issue, Severity};
use llmprof_theory::ModelError;
use llmprof_theory::device::Device;

use crate::matching::lanes::Lane;
use crate::trace::TraceAnalysis;

/// That theory cannot count a model which ran all the same.
pub(super) fn uncounted(error: &ModelError) -> Issue {
    let kind = match error {
        ModelError::UnknownFamily { found, .. } => format!("models of type `{found}`"),
        ModelError::NoModelType { .. } => "a model whose config has no `model_type`".to_owned(),
        other => format!("this model ({other})"),
    };
    Issue::new(
        Severity::Warning,
        "model.uncounted",
        format!(
            "llmprof cannot count {kind}: there are no roofline times, no MFU and no MBU, and operators are classified by kernel name"
        ),
    )
}

/// What was dropped comes first. That a trace of the host has no device is no loss.
pub(super) fn trace_issues(
    timeline: &TraceAnalysis,
    lanes: &[Lane],
    is_measured: bool,
) -> Vec<Issue> {
    let of_host = lanes.iter().any(|lane| lane.device.is_none());
    let mut issues = timeline.issues.clone();
    issues.retain(|issue| !(of_host && issue.code == "analysis.no_device_events"));
    if of_host && !is_measured {
        issues.push(
            Issue::new(
                Severity::Info,
                "run.host_only",
                "the trace has no device events: its work is the operators of the host",
            )
            .with_hint("record with device activities switched on where there is a device"),
        );
    }
    let outside = lanes
        .iter()
        .filter(|lane| lane.is_exact)
        .flat_map(|lane| &lane.items)
        .filter(|item| item.window.is_none())
        .count();
    if outside > 0 {
        let issue = Issue::new(
            Severity::Warning,
            "run.outside_phases",
            "operator calls lie in no phase",
        );
        issues.push(issue.counting(outside as u64));
    }
    issues
}

pub(super) fn no_device() -> Issue {
    Issue::new(
        Severity::Warning,
        "run.no_device",
        "no device was named: there are no roofline times, no MFU and no MBU",
    )
    .with_hint("name one with `--device` or `hardware.spec`, or measure this machine with `llmprof hardware measure`")
}

/// Says what cannot be worked out, and why.
pub(super) fn absent(
    is_counted: bool,
    device: Option<&Device>,
    lanes: &[Lane],
    issues: &mut Vec<Issue>,
) {
    if !is_counted {
        issues.push(
            Issue::new(
                Severity::Warning,
                "run.no_model",
                "no model was named: there are no roofline times, no MFU and no MBU, and work is classified by kernel name",
            )
            .with_hint(
                "name the model and its workload: `llmprof import FILE model=NAME workload.prompt_tokens=N`",
            ),
        );
    } else if device.is_none() {
        issues.push(no_device());
    } else if lanes.len() > 1 {
        issues.push(
            Issue::new(
                Severity::Warning,
                "run.several_devices",
                "the trace has several devices and does not say how the model is divided among them: there are no roofline times",
            )
            .with_hint("import the trace of one device"),
        );
    }
    if lanes.is_empty() {
        issues.push(
            Issue::new(
                Severity::Warning,
                "run.no_work",
                "the trace has neither device events nor operators of the host: there is no waterfall",
            )
            .with_hint("record with operators or device activities switched on"),
        );
    }
}
