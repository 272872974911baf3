use std::path::Path;

use super::{
    Condition, External, ExternalKind, ExternalManifest, clone,
    git::{Git, is_commit},
    hub::HubSnapshot,
    state::ExternalState,
    subtree,
};
use crate::Result;

/// The state of every external of a project.
pub fn status(project: &Path) -> Result<Vec<ExternalState>> {
    let manifest = ExternalManifest::load(project)?;
    manifest
        .externals
        .iter()
        .map(|external| external_state(project, external))
        .collect()
}

pub(super) fn external_state(project: &Path, external: &External) -> Result<ExternalState> {
    let folder = external.folder(project);
    let (revision, edits) = match external.kind {
        ExternalKind::Submodule | ExternalKind::Sparse => repository_state(&folder),
        ExternalKind::Symlink if folder.exists() => {
            let (revision, edits) = repository_state(&folder);
            (Some(revision.unwrap_or_default()), edits)
        }
        ExternalKind::Symlink => (None, Vec::new()),
        ExternalKind::Hub => match HubSnapshot::read_record(&folder) {
            Some(record) => (Some(record.revision.clone()), record.list_edits(&folder)),
            None => (None, Vec::new()),
        },
        ExternalKind::Subtree => of_subtree(project, external)?,
    };
    let pinned = external.revision.clone();
    let commit = pinned.as_deref().filter(|pin| is_commit(pin));
    let condition = match (&revision, commit) {
        (None, _) if folder.is_symlink() => Condition::Dangling,
        (None, _) => Condition::Missing,
        _ if !edits.is_empty() => Condition::Edited,
        // A link is pinned by whoever keeps what it points at.
        (Some(_), None) if external.kind == ExternalKind::Symlink => Condition::AsPinned,
        (Some(_), None) => Condition::Unpinned,
        (Some(revision), Some(pin)) if revision != pin => Condition::Drifted,
        _ if !clone::has_paths(&folder, external) => Condition::Drifted,
        _ => Condition::AsPinned,
    };
    Ok(ExternalState {
        path: external.path.clone(),
        kind: external.kind,
        pinned,
        found: revision.filter(|revision| !revision.is_empty()),
        condition,
        edits,
    })
}

/// The commit of a folder that is a repository of its own, and its edits.
fn repository_state(folder: &Path) -> (Option<String>, Vec<String>) {
    // Without this, git would answer for the repository around the folder.
    if !folder.join(".git").exists() {
        return (None, Vec::new());
    }
    let git = Git::at(folder);
    (
        git.ask_git(&["rev-parse", "--verify", "--quiet", "HEAD"]),
        list_edits(&git, "."),
    )
}

/// Changed and new files below a path.
fn list_edits(git: &Git<'_>, path: &str) -> Vec<String> {
    let listed = git.ask_git(&["status", "--porcelain", "--untracked-files=all", "--", path]);
    let lines = listed.unwrap_or_default();
    lines
        .lines()
        .filter_map(|line| line.get(3..).map(str::to_owned))
        .collect()
}

fn of_subtree(project: &Path, external: &External) -> Result<(Option<String>, Vec<String>)> {
    let prefix = subtree::subtree_prefix(project, external)?;
    let git = Git::at(project);
    let tree = git.ask_git(&[
        "rev-parse",
        "--verify",
        "--quiet",
        &format!("HEAD:{prefix}"),
    ]);
    let (Some(tree), Some(merged)) = (tree, subtree::last_merge(project, &prefix)) else {
        return Ok((None, Vec::new()));
    };
    let mut edited = list_edits(&git, &external.folder(project).to_string_lossy());
    let squashed = merged.squashed;
    if git.ask_git(&["rev-parse", &format!("{squashed}^{{tree}}")]) != Some(tree.clone()) {
        let changed = git.ask_git(&[
            "diff",
            "--name-only",
            &format!("{squashed}^{{tree}}"),
            &tree,
        ]);
        edited.extend(
            changed
                .unwrap_or_default()
                .lines()
                .map(|name| format!("{prefix}/{name} (committed)")),
        );
    }
    Ok((Some(merged.revision), edited))
}
