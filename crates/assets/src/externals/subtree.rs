use std::path::Path;

use super::{External, FOLDER, State, git::Git};
use crate::{AssetError, Change, Changes, Result};

/// What the last merge of a subtree says.
pub(super) struct Merged {
    /// The commit of its repository.
    pub(super) revision: String,
    /// The squashed commit, whose tree is that of its repository.
    pub(super) squashed: String,
}

/// The subtree's place from the top of the repository.
pub(super) fn prefix(project: &Path, external: &External) -> Result<String> {
    let prefix = Git::at(project).run(&["rev-parse", "--show-prefix"])?;
    Ok(format!("{prefix}{FOLDER}/{}", external.path))
}

/// The last merge of a subtree into the project's history.
pub(super) fn merged(project: &Path, prefix: &str) -> Option<Merged> {
    let sign = format!("^git-subtree-dir: {}$", escaped(prefix));
    let told = Git::at(project).ask(&["log", "-1", "--format=%H%n%B", "--grep", &sign, "HEAD"])?;
    let mut lines = told.lines();
    let squashed = lines.next()?.to_owned();
    let revision = lines.find_map(|line| line.strip_prefix("git-subtree-split: "))?;
    Some(Merged { revision: revision.trim().to_owned(), squashed })
}

/// A text as a basic regular expression that matches it.
fn escaped(text: &str) -> String {
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
pub(super) fn plan(
    project: &Path,
    external: &External,
    wanted: &str,
    state: &State,
    changes: &mut Changes,
) -> Result<()> {
    let prefix = prefix(project, external)?;
    if state.found.as_deref() == Some(wanted) {
        return Ok(());
    }
    let folder = external.folder(project);
    if state.found.is_none() && folder.symlink_metadata().is_ok() {
        return Err(AssetError::InTheWay { path: folder, what: "a folder that is no subtree" });
    }
    let top = Git::at(project).run(&["rev-parse", "--show-toplevel"])?;
    let verb = if state.found.is_some() { "merge" } else { "add" };
    let url = external.url.clone().unwrap_or_default();
    let what = format!("{verb} {url} at {wanted} as subtree {prefix}/, in a commit of its own");
    let wanted = wanted.to_owned();
    changes.push(Change::new(what, move || {
        let git = Git::at(Path::new(&top)).for_url(&url);
        git.run(&["fetch", "--quiet", "--no-tags", "--", &url, &wanted])?;
        let prefix = format!("--prefix={prefix}");
        git.run(&["subtree", "--quiet", verb, &prefix, &wanted, "--squash"])?;
        Ok(())
    }));
    Ok(())
}
