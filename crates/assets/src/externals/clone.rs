//! Clones at one commit: whole for submodules, some folders of it for sparse checkouts.

use std::{fs, path::Path};

use super::{
    External, ExternalKind, ExternalState,
    git::{self, Git},
};
use crate::{AssetError, Change, Changes, Result, changes::make_folder};

/// Adds the clone of a sparse external, or moves it to another commit.
pub(super) fn plan_sparse_clone(
    project: &Path,
    external: &External,
    wanted: &str,
    state: &ExternalState,
    changes: &mut Changes,
) {
    if state.found.as_deref() == Some(wanted) && has_paths(&external.folder(project), external) {
        return;
    }
    change_clone(project, external, wanted, state, changes);
}

/// Whether a sparse checkout has the folders that are declared.
pub(super) fn has_paths(folder: &Path, external: &External) -> bool {
    if external.kind != ExternalKind::Sparse {
        return true;
    }
    let listed = Git::at(folder)
        .ask_git(&["sparse-checkout", "list"])
        .unwrap_or_default();
    let mut checked_out: Vec<&str> = listed.lines().collect();
    let mut declared: Vec<&str> = external
        .paths
        .iter()
        .map(|path| path.trim_matches('/'))
        .collect();
    checked_out.sort_unstable();
    declared.sort_unstable();
    checked_out == declared
}

/// Adds the clone, or moves it to another commit.
pub(super) fn change_clone(
    project: &Path,
    external: &External,
    wanted: &str,
    state: &ExternalState,
    changes: &mut Changes,
) {
    let folder = external.folder(project);
    let url = external.url.clone().unwrap_or_default();
    let (verb, is_there) = match &state.found {
        Some(revision) if revision == wanted => ("check out again".to_owned(), true),
        Some(revision) => (format!("move from {revision} to"), true),
        None => ("clone".to_owned(), false),
    };
    let what = format!("{verb} {url} at {wanted} into {}/", folder.display());
    let (external, wanted) = (external.clone(), wanted.to_owned());
    changes.push(Change::new(what, move || {
        if is_there {
            return check_out(&folder, &external, &url, &wanted);
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let partial = folder.with_file_name(format!(".{name}.llmprof-partial"));
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(AssetError::io("remove", &partial))?;
        }
        make_folder(&partial)?;
        let git = Git::at(&partial);
        git.run_git(&["init", "--quiet"])?;
        git.run_git(&["remote", "add", "origin", &url])?;
        check_out(&partial, &external, &url, &wanted)?;
        // An empty folder is what a clone of the project leaves for a submodule.
        fs::rename(&partial, &folder).map_err(AssetError::io("create", &folder))
    }));
}

fn check_out(folder: &Path, external: &External, url: &str, wanted: &str) -> Result<()> {
    let git = Git::at(folder).for_url(url);
    let commit = format!("{wanted}^{{commit}}");
    if git.ask_git(&["cat-file", "-e", &commit]).is_none() {
        let mut fetch = vec!["fetch".to_owned(), "--quiet".to_owned()];
        if let Some(depth) = external.depth {
            fetch.push(format!("--depth={depth}"));
        }
        if external.kind == ExternalKind::Sparse && !git::is_local(url) {
            fetch.push("--filter=blob:none".to_owned());
        }
        fetch.extend(["origin".to_owned(), wanted.to_owned()]);
        git.run_git(&fetch)?;
    }
    if external.kind == ExternalKind::Sparse {
        let mut set = vec!["sparse-checkout", "set", "--cone"];
        set.extend(external.paths.iter().map(String::as_str));
        git.run_git(&set)?;
    }
    git.run_git(&["checkout", "--quiet", "--detach", wanted])?;
    Ok(())
}
