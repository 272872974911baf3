//! How an external stands.

use schemars::JsonSchema;
use serde::Serialize;

use super::Kind;

/// How an external stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// At its pinned revision, untouched.
    AsPinned,
    /// Not there.
    Missing,
    /// There, but no commit is pinned.
    Unpinned,
    /// At another revision than the pinned one, or with other folders.
    Drifted,
    /// Somebody changed files in it.
    Edited,
    /// A link to nothing.
    Dangling,
}

/// One external as it is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ExternalState")]
pub struct State {
    /// Where, below `third_party/`.
    pub path: String,
    /// How it came there.
    pub kind: Kind,
    /// The revision that the file names.
    pub pinned: Option<String>,
    /// The revision that is there.
    pub found: Option<String>,
    /// Both together.
    pub condition: Condition,
    /// Files that were changed.
    pub edits: Vec<String>,
}
