//! Runs as tables and lines.

use std::path::Path;

use llmprof_record::store::{Liveness, Manifest};
use llmprof_units::{Bytes, Count};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    listing,
    run_results::{RunFiles, results},
};
use crate::document::Table;
use crate::text::issue_line;

/// A run as `--json` prints it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Listed")]
pub struct ListedRun<'a> {
    /// The run directory.
    pub path: &'a Path,
    /// `live`, `dead` (its process is gone and did not say how it ended) or `ended`.
    pub liveness: Liveness,
    #[serde(flatten)]
    pub manifest: &'a Manifest,
    /// The issues as sentences, in the order of `issues`, each with what would avoid it.
    issue_lines: Vec<String>,
}

impl<'a> ListedRun<'a> {
    pub fn new(path: &'a Path, liveness: Liveness, manifest: &'a Manifest) -> Self {
        Self {
            path,
            liveness,
            manifest,
            issue_lines: manifest.issues.iter().map(issue_line).collect(),
        }
    }

    /// The status, with the process that died or lives.
    fn state(&self) -> String {
        let Manifest { status, pid, .. } = self.manifest;
        match self.liveness {
            Liveness::Ended => status.to_string(),
            Liveness::Live => format!("{status} (pid {pid})"),
            Liveness::Dead => format!("{status} (pid {pid} is gone)"),
        }
    }
}

pub fn runs(runs: &[ListedRun<'_>]) -> Table {
    let headers = [
        "PATH",
        "STATE",
        "EXPERIMENT",
        "MODEL OR SOURCE",
        "ISSUES",
        "CREATED",
    ];
    let rows = runs.iter().map(|run| {
        [
            run.path.display().to_string(),
            run.state(),
            run.manifest.experiment.clone(),
            run.manifest.model.clone(),
            run.manifest.issues.len().to_string(),
            run.manifest.created.clone(),
        ]
    });
    listing(&headers, rows)
}

/// A run in full, with what its user noted. `unread` is what a killed recorder left: files and their size.
pub fn run_lines(
    run: &ListedRun<'_>,
    files: &RunFiles,
    notes: Option<&str>,
    unread: Option<(usize, Bytes)>,
) -> Vec<String> {
    let manifest = run.manifest;
    let mut lines = vec![run.path.display().to_string()];
    let mut line = |name: &str, value: &str| lines.push(format!("{name:<11} {value}"));
    line("state", &run.state());
    line("created", &manifest.created);
    if let Some(finished) = &manifest.finished {
        line("finished", finished);
    }
    line("experiment", &manifest.experiment);
    let is_import = manifest.experiment == "import";
    line(if is_import { "source" } else { "model" }, &manifest.model);
    if !manifest.overrides.is_empty() {
        line("overrides", &manifest.overrides.join(" "));
    }
    for (number, noted) in notes.into_iter().flat_map(str::lines).enumerate() {
        line(if number == 0 { "notes" } else { "" }, noted);
    }
    if let Some(error) = &manifest.error {
        line("error", error);
    }
    if let Some((files, bytes)) = unread {
        let left = Count(files as u64, "file");
        line(
            "recording",
            &format!(
                "llmprof was killed and the command was ended with it; {left} of {bytes} left"
            ),
        );
        if files > 0 {
            let path = run.path.display();
            line(
                "",
                &format!("`llmprof analyze {path}` reads what was recorded"),
            );
        }
    }
    for (name, result) in results(files) {
        line(name, &result);
    }
    for pass in &manifest.passes {
        let time = pass.duration_ns.map(|time| format!(", {time}"));
        let code = pass.exit_code.map(|code| format!(", exit code {code}"));
        let (time, code) = (time.unwrap_or_default(), code.unwrap_or_default());
        line(
            "pass",
            &format!("{}: {}{time}{code}", pass.name, pass.status),
        );
    }
    for issue in &run.issue_lines {
        line("issue", issue);
    }
    for artifact in &manifest.artifacts {
        line("file", &format!("{} ({})", artifact.path, artifact.bytes));
    }
    lines
}
