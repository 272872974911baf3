use std::path::Path;

use super::{External, ExternalState, FOLDER, git::Git};
use crate::{AssetError, Change, Changes, Result};

/// What the last merge of a subtree says.
pub(super) struct Merged {
    /// The commit of its repository.
    pub(super) revision: String,
    /// The squashed commit, whose tree is that of its repository.
    pub(super) squashed: String,
}

/// The subtree's place from the top of the repository.
pub(super) fn subtree_prefix(project: &Path, external: &External) -> Result<String> {
    let prefix = Git::at(project).run_git(&["rev-parse", "--show-prefix"])?;
    Ok(format!("{prefix}{FOLDER}/{}", external.path))
}

/// The last merge of a subtree into the project's history.
pub(super) fn last_merge(project: &Path, prefix: &str) -> Option<Merged> {
    let sign = format!("^git-subtree-dir: {}$", escape_regex(prefix));
    let told =
        Git::at(project).ask_git(&["log", "-1", "--format=%H%n%B", "--grep", &sign, "HEAD"])?;
    let mut lines = told.lines();
    let squashed = lines.next()?.to_owned();
    let revision = lines.find_map(|line| line.strip_prefix("git-subtree-split: "))?;
    Some(Merged {
        revision: revision.trim().to_owned(),
        squashed,
    })
}

/// A text as a basic regular expression that matches it.
fn escape_regex(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if "\\.[]*^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Adds the merge of a subtree at this commit.
pub(super) fn plan_subtree(
    project: &Path,
    external: &External,
    wanted: &str,
    state: &ExternalState,
    changes: &mut Changes,
) -> Result<()> {
    let prefix = subtree_prefix(project, external)?;
    if state.found.as_deref() == Some(wanted) {
        return Ok(());
    }
    let folder = external.folder(project);
    if state.found.is_none() && folder.symlink_metadata().is_ok() {
        return Err(AssetError::InTheWay {
            path: folder,
            what: "a folder that is not a subtree",
        });
    }
    let top = Git::at(project).run_git(&["rev-parse", "--show-toplevel"])?;
    let git = Git::at(project);
    let has_commit = git
        .ask_git(&["rev-parse", "--verify", "--quiet", "HEAD"])
        .is_some();
    let changed = git.run_git(&["status", "--porcelain", "--untracked-files=no"])?;
    if !has_commit || !changed.is_empty() {
        return Err(AssetError::refused(
            format!(
                "{prefix} cannot be merged: the project has no commit yet, or files that are changed and not committed"
            ),
            "commit or stash your changes first: a subtree is a commit of its own",
        ));
    }
    let verb = if state.found.is_some() {
        "merge"
    } else {
        "add"
    };
    let url = external.url.clone().unwrap_or_default();
    let what = format!("{verb} {url} at {wanted} as subtree {prefix}/, in a commit of its own");
    let wanted = wanted.to_owned();
    changes.push(Change::new(what, move || {
        merge_subtree(Path::new(&top), &prefix, &url, &wanted)
    }));
    Ok(())
}

/// Makes the two commits that `git subtree --squash` makes, which not every installation has: one with the tree of the other
/// repository, and its merge into the project. Only the last step touches the user's index and files.
fn merge_subtree(top: &Path, prefix: &str, url: &str, wanted: &str) -> Result<()> {
    let git = Git::at(top);
    Git::at(top)
        .for_url(url)
        .run_git(&["fetch", "--quiet", "--no-tags", "--", url, wanted])?;
    let before = last_merge(top, prefix).map(|merged| merged.squashed);
    let tree = format!("{wanted}^{{tree}}");
    let message = format!(
        "Squashed '{prefix}/' at {wanted}\n\ngit-subtree-dir: {prefix}\ngit-subtree-split: {wanted}"
    );
    let mut squash = vec!["commit-tree", &tree, "-m", &message];
    if let Some(before) = &before {
        squash.extend(["-p", before]);
    }
    let squashed = git.run_git(&squash)?;

    let index = git.run_git(&["rev-parse", "--git-path", "llmprof-subtree-index"])?;
    let index = top.join(index);
    let aside = Git::at(top).with_index(&index);
    aside.run_git(&["read-tree", "HEAD"])?;
    aside.run_git(&[
        "rm",
        "-r",
        "--quiet",
        "--cached",
        "--ignore-unmatch",
        "--",
        prefix,
    ])?;
    let place = format!("--prefix={prefix}/");
    aside.run_git(&["read-tree", &place, &squashed])?;
    let tree = aside.run_git(&["write-tree"])?;
    let _ = std::fs::remove_file(&index);
    let message = format!("Merge commit '{squashed}' as '{prefix}'");
    let commit = git.run_git(&[
        "commit-tree",
        &tree,
        "-p",
        "HEAD",
        "-p",
        &squashed,
        "-m",
        &message,
    ])?;
    git.run_git(&["merge", "--quiet", "--ff-only", &commit])?;
    Ok(())
}
