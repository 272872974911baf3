//! The state of an external on this host, compared with its declaration.

use schemars::JsonSchema;
use serde::Serialize;

use super::ExternalKind;

/// How the external on this host compares with the revision that is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// At its pinned revision, untouched.
    AsPinned,
    /// Nothing is there yet; `llmprof externals init` fetches it.
    Missing,
    /// There, but no commit is pinned.
    Unpinned,
    /// At another revision than the pinned one, or with other folders.
    Drifted,
    /// Somebody changed files in it.
    Edited,
    /// A symbolic link whose target does not exist.
    Dangling,
}

/// State of one external in the project folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExternalState {
    /// Path of the external below `third_party/`.
    pub path: String,
    /// How the external is put below `third_party/`.
    pub kind: ExternalKind,
    /// The revision that the file names.
    pub pinned: Option<String>,
    /// The revision that is there.
    pub found: Option<String>,
    /// How the pinned and the found revision agree.
    pub condition: Condition,
    /// Paths of files that differ from the found revision; empty where none does.
    pub edits: Vec<String>,
}

impl ExternalState {
    /// Path, kind, the revision that is pinned, the one that is there, and how they agree.
    pub fn cells(&self) -> [String; 5] {
        let short = |revision: &Option<String>| {
            let id = revision.as_deref().unwrap_or("-");
            id.chars().take(12).collect()
        };
        let condition = match self.condition {
            Condition::AsPinned => "as pinned".to_owned(),
            Condition::Missing => "missing".to_owned(),
            Condition::Unpinned => "not pinned".to_owned(),
            Condition::Drifted => "drifted".to_owned(),
            Condition::Dangling => "points at nothing".to_owned(),
            Condition::Edited => format!("edited: {}", self.edits.join(", ")),
        };
        let kind = serde_json::to_value(self.kind).unwrap_or_default();
        [
            self.path.clone(),
            kind.as_str().unwrap_or_default().to_owned(),
            short(&self.pinned),
            short(&self.found),
            condition,
        ]
    }
}
