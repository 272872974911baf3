use std::fmt;

use llmprof_units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::issue::Issue;

/// Version of `run.json`. It rises when a reader of the older version would misread the newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// How far a run has come, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// In progress. In `run.json` also of a run whose process was killed; whatever reads the run shows that one as interrupted.
    Running,
    /// Everything that was planned was done.
    Complete,
    /// Something planned could not be done; `error` says what.
    Failed,
    /// Ended by Ctrl-C or a signal.
    Interrupted,
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        })
    }
}

/// One execution of the workload, or one step of analysis, inside a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Pass {
    /// `plain`, the name of a profiler, or the name of an analysis stage.
    pub name: String,
    /// How far the pass has come, or how it ended.
    pub status: RunStatus,
    /// Wall time of the pass; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<Nanos>,
    /// Exit code of the process it started, where it started one that exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// A file of the run, by which a copy can be checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Artifact {
    /// Path relative to the run directory, with `/` between its parts.
    pub path: String,
    /// Size of the file in bytes.
    pub bytes: Bytes,
    /// SHA-256 of the contents, in hexadecimal.
    pub sha256: String,
}

/// The state of a run: the contents of `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Manifest {
    /// The [`SCHEMA_VERSION`] of the program that wrote the file.
    pub schema_version: u32,
    /// Version of llmprof that wrote it.
    pub llmprof_version: String,
    /// How far the run has come, or how it ended.
    pub status: RunStatus,
    /// The process that writes it.
    pub pid: u32,
    /// When it was created, RFC 3339.
    pub created: String,
    /// When it ended, RFC 3339; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    /// Name of the experiment; empty if it has none.
    #[serde(default)]
    pub experiment: String,
    /// Name of the model; empty if the run has none.
    #[serde(default)]
    pub model: String,
    /// The overrides it was started with.
    #[serde(default)]
    pub overrides: Vec<String>,
    /// Why the run failed; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The passes of the run, in order.
    #[serde(default)]
    pub passes: Vec<Pass>,
    /// What was dropped or should not be trusted.
    #[serde(default)]
    pub issues: Vec<Issue>,
    /// The files of the run, listed when it ends.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
}
