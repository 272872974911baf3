//! What recordings of `record`, of served commands and of killed recorders have in common.

use std::path::Path;

use llmprof_capture::{profiler::Watched, session::scrub_wire_files};
use llmprof_record::{
    import::wire,
    issue::{Issue, IssueCode},
};

/// Where wire files are in a run.
pub(crate) const WIRE_FOLDER: &str = "cupti";

/// Takes credentials out of the names in the wire files of a directory.
pub(crate) fn scrub(directory: &Path) -> Vec<Issue> {
    scrub_wire_files(&wire::wire_files(directory).unwrap_or_default())
}

/// What the processes said over the control channel and their files may not: a full disk leaves no room for it.
pub(crate) fn dropped_issues(processes: &[Watched]) -> Vec<Issue> {
    let dropped = processes.iter().filter_map(|process| {
        let (count, why) = process.dropped.as_ref()?;
        let issue = Issue::error(IssueCode::RecordDropped)
            .with("process", process.process)
            .with("why", why.as_str());
        Some(issue.counting(*count))
    });
    dropped.collect()
}

/// Why there is nothing of any process.
pub(crate) fn nothing_recorded(processes: &[Watched]) -> Issue {
    let refused = processes.iter().find_map(|process| {
        let why = process.refused.as_ref()?;
        let issue = Issue::error(IssueCode::RecordRefused).with("why", why.as_str());
        Some(match process.process {
            0 => issue,
            process => issue.with("process", process),
        })
    });
    if let Some(refused) = refused {
        return refused;
    }
    Issue::error(IssueCode::RecordNoCuda)
}
