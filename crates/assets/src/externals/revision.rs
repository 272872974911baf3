use std::path::{Path, PathBuf};

use llmprof_units::path_text;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    ExternalManifest, FOLDER,
    git::{Git, is_commit},
    hub::HubSnapshot,
    status,
};

/// What is known of a folder of somebody's source code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceRevision {
    /// Path of the folder, absolute or below the project.
    #[serde(serialize_with = "path_text::serialize")]
    pub path: PathBuf,
    /// The commit it is at; absent where nothing tells.
    pub revision: Option<String>,
    /// Who told: `externals`, `git`, `hub_cache`, `hub_snapshot`.
    pub from: Option<&'static str>,
    /// Files that were changed since.
    pub edits: Vec<String>,
}

/// Looks up the revision of a folder: a declared external, a snapshot of the hub, or a repository of its own.
pub fn source_revision(project: &Path, path: &Path) -> SourceRevision {
    let path = project.join(path);
    let told = |revision: Option<String>, from, edits| SourceRevision {
        path: path.clone(),
        from: revision.is_some().then_some(from),
        revision,
        edits,
    };
    if let Ok(below) = path.strip_prefix(project.join(FOLDER))
        && let Ok(manifest) = ExternalManifest::load(project)
        && let Some(external) = manifest
            .externals
            .iter()
            .find(|external| below.starts_with(&external.path))
        && let Ok(state) = status::external_state(project, external)
        && state.found.is_some()
    {
        return told(state.found, "externals", state.edits);
    }
    if let Some(record) = HubSnapshot::read_record(&path) {
        let edits = record.list_edits(&path);
        return told(Some(record.revision), "hub_snapshot", edits);
    }
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    let mut parents = real.ancestors();
    let snapshot = parents.find(|folder| {
        folder
            .parent()
            .is_some_and(|parent| parent.ends_with("snapshots"))
    });
    let commit = snapshot
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy().into_owned());
    if let Some(commit) = commit.filter(|name| is_commit(name)) {
        return told(Some(commit), "hub_cache", Vec::new());
    }
    let git = Git::at(&real);
    let head = real
        .is_dir()
        .then(|| git.ask_git(&["rev-parse", "--verify", "--quiet", "HEAD"]))
        .flatten();
    let edits = match head {
        Some(_) => git
            .ask_git(&["status", "--porcelain", "--", "."])
            .unwrap_or_default(),
        None => String::new(),
    };
    let edits = edits
        .lines()
        .filter_map(|line| line.get(3..).map(str::to_owned))
        .collect();
    told(head, "git", edits)
}
