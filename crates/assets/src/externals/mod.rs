//! Sources of others below `third_party/`, declared with their revisions in `third_party/externals.yaml`.

mod clone;
mod git;
mod guard;
mod hub;
mod manifest;
mod revision;
mod state;
mod status;
mod submodule;
mod subtree;

use std::path::{Path, PathBuf};

pub use guard::{guard, install_guard};
pub use hub::HubSnapshot;
pub use manifest::{External, ExternalKind, ExternalManifest};
pub use revision::{SourceRevision, source_revision};
pub use state::{Condition, ExternalState};
pub use status::status;

use crate::{AssetError, Change, Changes, Result, Surroundings, link};

/// Folder of all of them.
pub const FOLDER: &str = "third_party";
/// The file that declares them.
pub const FILE: &str = "externals.yaml";

/// What is done to the externals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalAction {
    /// Put each where it is declared, at its pinned revision; one without a pin gets it.
    Init,
    /// Move pins to the newest revision of their branches, and the sources with them.
    Update,
    /// Download the snapshots of the hub again, even complete ones.
    Snapshot,
}

/// Works out what an action has to do to the externals of these paths, or to all.
pub fn plan(
    project: &Path,
    action: ExternalAction,
    paths: &[String],
    surroundings: &Surroundings,
) -> Result<Changes> {
    let manifest = ExternalManifest::load(project)?;
    let mut chosen = manifest.chosen(paths)?;
    chosen.retain(|external| {
        action != ExternalAction::Snapshot || external.kind == ExternalKind::Hub
    });
    // Subtrees first and pins last: git merges a subtree only while no file of the project is changed.
    let (subtrees, others): (Vec<&External>, Vec<&External>) = chosen
        .into_iter()
        .partition(|external| external.kind == ExternalKind::Subtree);
    let (mut changes, mut pins) = (Changes::default(), Changes::default());
    let mut problems = Vec::new();
    let mut each = |external: &External, changes: &mut Changes| {
        let done = plan_one(project, action, external, surroundings, changes, &mut pins);
        problems.extend(done.err());
    };
    for external in subtrees {
        each(external, &mut changes);
    }
    let ignore = project.join(FOLDER).join(".gitignore");
    changes.own_file(&ignore, manifest.ignored(&ignore));
    for external in others {
        each(external, &mut changes);
    }
    changes.extend(pins);
    match problems.len() {
        0 => Ok(changes),
        1 => Err(problems.remove(0)),
        _ => Err(AssetError::Several(problems)),
    }
}

fn plan_one(
    project: &Path,
    action: ExternalAction,
    external: &External,
    surroundings: &Surroundings,
    changes: &mut Changes,
    pins: &mut Changes,
) -> Result<()> {
    let folder = external.folder(project);
    link::check_inside(project, &folder)?;
    if external.kind == ExternalKind::Symlink {
        let file = project.join(FOLDER).join(FILE);
        let target = external.target.as_deref().unwrap_or_default();
        let target = surroundings.path(target, &project.join(FOLDER), &file)?;
        return link::plan_link(
            project,
            &folder,
            &target,
            "`target` in third_party/externals.yaml",
            changes,
        );
    }
    let state = status::external_state(project, external)?;
    if !state.edits.is_empty()
        && (action != ExternalAction::Init || state.found != external.revision)
    {
        return Err(AssetError::refused(
            format!(
                "{} has local edits, which would be lost: {}",
                folder.display(),
                state.edits.join(", ")
            ),
            "externals are for reading; take the edits elsewhere, or undo them",
        ));
    }
    if external.kind == ExternalKind::Hub {
        hub::plan_snapshot(project, external, &state, action, changes);
        return Ok(());
    }
    let url = external.url.as_deref().unwrap_or_default();
    let pinned = external
        .revision
        .as_deref()
        .filter(|pin| git::is_commit(pin));
    let wanted = match (action, pinned) {
        (ExternalAction::Init | ExternalAction::Snapshot, Some(pin)) => pin.to_owned(),
        (ExternalAction::Update, _) => {
            let branch = external.branch.as_deref().unwrap_or("HEAD");
            git::newest_commit(project, url, branch)?
        }
        (_, None) => {
            let named = external.revision.as_deref().or(external.branch.as_deref());
            git::newest_commit(project, url, named.unwrap_or("HEAD"))?
        }
    };
    match external.kind {
        ExternalKind::Submodule => {
            submodule::plan_submodule(project, external, &wanted, &state, changes)?;
        }
        ExternalKind::Sparse => {
            clone::plan_sparse_clone(project, external, &wanted, &state, changes);
        }
        ExternalKind::Subtree => {
            subtree::plan_subtree(project, external, &wanted, &state, changes)?;
        }
        ExternalKind::Symlink | ExternalKind::Hub => {}
    }
    // A call that was ended before this does it again.
    if external.revision.as_deref() != Some(&wanted) {
        write_pin(project, external, &wanted, pins);
    }
    Ok(())
}

/// Writes a pin into the file, whose other text stays as it is.
fn write_pin(project: &Path, external: &External, wanted: &str, changes: &mut Changes) {
    let what = format!("pin {} at {wanted} in {FOLDER}/{FILE}", external.path);
    let (file, path): (PathBuf, _) = (project.join(FOLDER).join(FILE), external.path.clone());
    let wanted = wanted.to_owned();
    changes.push(Change::new(what, move || {
        manifest::pin_revision(&file, &path, &wanted)
    }));
}
