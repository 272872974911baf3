//! A timeline that breaks off before what it is about.

use std::path::Path;

use llmprof_record::trace::{HostKind, Trace};

use llmprof_report::text;

use crate::failure::Failure;

/// Refuses a timeline that was cut and has nothing of the GPU it was recorded on: profilers write what ran on the device after
/// what ran on the host, so that all of it may be gone. What is left would be taken for a program that hardly used a GPU.
pub(super) fn refuse(file: &Path, trace: &Trace) -> Result<(), Failure> {
    let events = trace.kernels.len() + trace.copies.len() + trace.memsets.len();
    let is_call = |kind: &HostKind| matches!(*kind, HostKind::RUNTIME | HostKind::DRIVER);
    let had_device = !trace.devices.is_empty() || trace.hosts.kind.iter().any(is_call);
    let Some(issue) = trace.issues.iter().find(|issue| issue.code.is_cut_file()) else {
        return Ok(());
    };
    if events > 0 || !had_device {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} is cut off before its first kernel: {}",
        file.display(),
        text::issue(issue)
    ))
    .hint("copy the file again, or wait until the profiler has finished writing it".to_owned()))
}
