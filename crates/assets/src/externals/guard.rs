//! What must not be committed: edits of externals, submodules nobody declared, links to storage outside of the project.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::{ExternalKind, ExternalManifest, FILE, git::Git};
use crate::{AssetError, Change, Changes, Result};

/// The hook that git calls before a commit, at the top of the repository; the project may be a folder of it.
fn hook_script(prefix: &str) -> String {
    let enter = if prefix.is_empty() {
        String::new()
    } else {
        format!("cd '{}' || exit 1\n", prefix.replace('\'', r"'\''"))
    };
    format!(
        "#!/bin/sh\n# Written by `llmprof externals guard --install`.\n{enter}exec llmprof externals guard\n"
    )
}

/// Mode of a file that is staged to be removed.
const REMOVED: &str = "000000";

/// Permission of everybody to run a file.
const EXECUTABLE: u32 = 0o111;

/// Files of `third_party/` that are the project's own.
const OWN: [&str; 3] = [FILE, ".gitignore", "README.md"];

/// Everything staged that must not be committed, each in a line. `index` is the one that git makes a commit of: `commit -a` and
/// `commit FILE` have another than the repository's own. A hook finds it named from the top of the repository.
pub fn guard(project: &Path, index: Option<&Path>) -> Result<Vec<String>> {
    let top = Git::at(project).run_git(&["rev-parse", "--show-toplevel"])?;
    let index = index.map(|index| Path::new(&top).join(index));
    let git = match &index {
        Some(index) => Git::at(project).with_index(index),
        None => Git::at(project),
    };
    let prefix = git.run_git(&["rev-parse", "--show-prefix"])?;
    let manifest = ExternalManifest::load(project)?;
    let mut refused = Vec::new();
    let staged = git.run_git(&[
        "diff",
        "--cached",
        "--raw",
        "--no-renames",
        "--abbrev=40",
        "-z",
    ])?;
    let mut fields = staged.split('\0').filter(|field| !field.is_empty());
    while let (Some(about), Some(path)) = (fields.next(), fields.next()) {
        let mut about = about.trim_start_matches(':').split(' ');
        let (mode, id) = (
            about.nth(1).unwrap_or_default(),
            about.nth(1).unwrap_or_default(),
        );
        // It is at the top of the repository, wherever the project is.
        if path == ".gitmodules" {
            refused.extend(undeclared_submodules(&git, &manifest, &prefix));
        }
        let Some(path) = path.strip_prefix(&prefix) else {
            continue;
        };
        if mode == "120000" && is_external_link(project, path) {
            refused.push(format!("{path}: a link to storage outside of the project; `llmprof bootstrap` makes it on every host"));
        }
        let Some(below) = path.strip_prefix("third_party/") else {
            continue;
        };
        let is_declared = || {
            let mut externals = manifest.externals.iter();
            externals.any(|external| Path::new(below).starts_with(&external.path))
        };
        // What is declared no longer may go.
        if OWN.contains(&below) || (mode == REMOVED && !is_declared()) {
            continue;
        }
        let declared = manifest
            .externals
            .iter()
            .find(|external| external.path == below);
        match declared {
            Some(external) if external.kind == ExternalKind::Submodule && mode == "160000" => {
                if external.revision.as_deref() != Some(id) {
                    refused.push(format!(
                        "{path}: staged at {id}, but third_party/{FILE} pins {}",
                        external.revision.as_deref().unwrap_or("nothing")
                    ));
                }
            }
            _ => refused.push(format!(
                "{path}: externals are for reading; `llmprof externals update` changes them"
            )),
        }
    }
    Ok(refused)
}

/// Submodules of the staged `.gitmodules` that the file does not declare.
fn undeclared_submodules(git: &Git<'_>, manifest: &ExternalManifest, prefix: &str) -> Vec<String> {
    let listed = git.ask_git(&[
        "config",
        "--blob",
        ":.gitmodules",
        "--get-regexp",
        r"^submodule\..*\.path$",
    ]);
    let listed = listed.unwrap_or_default();
    let paths = listed.lines().filter_map(|line| line.split_once(' '));
    let paths = paths.filter_map(|(_, path)| path.strip_prefix(prefix));
    paths
        .filter(|path| {
            !manifest.externals.iter().any(|external| {
                external.kind == ExternalKind::Submodule
                    && path.strip_prefix("third_party/") == Some(&external.path)
            })
        })
        .map(|path| format!("{path}: a submodule that third_party/{FILE} does not declare"))
        .collect()
}

fn is_external_link(project: &Path, path: &str) -> bool {
    let link = project.join(path);
    let Ok(target) = fs::read_link(&link) else {
        return false;
    };
    let target = link.parent().unwrap_or(project).join(target);
    match (target.canonicalize(), project.canonicalize()) {
        (Ok(target), Ok(project)) => !target.starts_with(project),
        _ => true,
    }
}

/// Adds the hook, unless the repository has another one.
pub fn install_guard(project: &Path) -> Result<Changes> {
    // Our calls of git run no hooks, so that `--git-path hooks` would not name the folder of the project's own.
    let git = Git::at(project);
    let own = git.run_git(&["config", "--local", "--get", "core.hooksPath"]);
    let folder = if let Ok(folder) = own {
        // Relative to where hooks run.
        Path::new(&git.run_git(&["rev-parse", "--show-toplevel"])?).join(folder)
    } else {
        let common = git.run_git(&["rev-parse", "--git-common-dir"])?;
        project.join(common).join("hooks")
    };
    let path = folder.join("pre-commit");
    let hook = hook_script(&git.run_git(&["rev-parse", "--show-prefix"])?);
    let mut changes = Changes::default();
    // A call that was killed may have written the hook and not its permission; git would pass it over.
    let runs = |path: &Path| {
        fs::metadata(path).is_ok_and(|file| file.permissions().mode() & EXECUTABLE == EXECUTABLE)
    };
    match fs::read_to_string(&path) {
        Ok(existing) if existing == hook && runs(&path) => return Ok(changes),
        Ok(existing) if existing == hook => {}
        Ok(_) => {
            return Err(AssetError::refused(
                format!("{} is there already", path.display()),
                "add the line `llmprof externals guard || exit 1` to it",
            ));
        }
        Err(_) => {}
    }
    changes.push(Change::new(
        format!("create {}", path.display()),
        move || {
            let mut changes = Changes::default();
            changes.own_file(&path, hook);
            changes.apply(|_| {})?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                .map_err(AssetError::io("write", &path))
        },
    ));
    Ok(changes)
}
