use std::path::Path;

use super::{
    Condition, External, Kind, Manifest, clone,
    git::{Git, is_commit},
    hub::Record,
    state::State,
    subtree,
};
use crate::Result;

/// The state of every external of a project.
pub fn status(project: &Path) -> Result<Vec<State>> {
    let manifest = Manifest::load(project)?;
    manifest
        .externals
        .iter()
        .map(|external| external_state(project, external))
        .collect()
}

pub(super) fn external_state(project: &Path, external: &External) -> Result<State> {
    let folder = external.folder(project);
    let (found, edits) = match external.kind {
        Kind::Submodule | Kind::Sparse => repository_state(&folder),
        Kind::Symlink if folder.exists() => {
            let (found, edits) = repository_state(&folder);
            (Some(found.unwrap_or_default()), edits)
        }
        Kind::Symlink => (None, Vec::new()),
        Kind::Hub => match Record::read_record(&folder) {
            Some(record) => (Some(record.revision.clone()), record.list_edits(&folder)),
            None => (None, Vec::new()),
        },
        Kind::Subtree => of_subtree(project, external)?,
    };
    let pinned = external.revision.clone();
    let commit = pinned.as_deref().filter(|pin| is_commit(pin));
    let condition = match (&found, commit) {
        (None, _) if folder.is_symlink() => Condition::Dangling,
        (None, _) => Condition::Missing,
        _ if !edits.is_empty() => Condition::Edited,
        // A link is pinned by whoever keeps what it points at.
        (Some(_), None) if external.kind == Kind::Symlink => Condition::AsPinned,
        (Some(_), None) => Condition::Unpinned,
        (Some(found), Some(pin)) if found != pin => Condition::Drifted,
        _ if !clone::has_paths(&folder, external) => Condition::Drifted,
        _ => Condition::AsPinned,
    };
    let found = found.filter(|found| !found.is_empty());
    Ok(State {
        path: external.path.clone(),
        kind: external.kind,
        pinned,
        found,
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
