//! Where storage begins on this host.

use std::path::{Path, PathBuf};

use crate::{
    AssetError, RepoKind, Result, Snapshot, Surroundings,
    hub_cache::{by_commit, in_repository, is_commit, is_repository, snapshot},
};

/// A root, and how it came about.
pub(super) struct LinkRoot {
    pub(super) path: PathBuf,
    /// The variable that was set, or those that could be.
    pub(super) from: String,
}

/// What a root is worked out from, in this order.
pub(super) struct Lookup<'a> {
    /// Variables, the first that is set counts.
    variables: Vec<&'a str>,
    /// The path that the file gives where none is set.
    default: Option<&'a str>,
    /// Where such data usually lie, if nothing else is set.
    usual: PathBuf,
}

impl<'a> Lookup<'a> {
    /// `own` is the variable that the file names; it comes before those that are known.
    pub(super) fn new(
        own: Option<&'a str>,
        known: &[&'a str],
        default: Option<&'a str>,
        usual: PathBuf,
    ) -> Self {
        let others = known.iter().copied().filter(|name| Some(*name) != own);
        Self {
            variables: own.into_iter().chain(others).collect(),
            default,
            usual,
        }
    }

    pub(super) fn find_root(&self, surroundings: &Surroundings, file: &Path) -> Result<LinkRoot> {
        let base = file.parent().unwrap_or(file);
        for name in &self.variables {
            if let Some(value) = surroundings.var(name) {
                return Ok(LinkRoot {
                    path: surroundings.path(value, Path::new("/"), file)?,
                    from: format!("${name} is {value}"),
                });
            }
        }
        let variables: Vec<String> = self
            .variables
            .iter()
            .map(|name| format!("${name}"))
            .collect();
        let path = match self.default {
            Some(path) => surroundings.path(path, base, file)?,
            None => self.usual.clone(),
        };
        Ok(LinkRoot {
            path,
            from: format!("{} is not set", variables.join(" or ")),
        })
    }
}

/// The hub's cache, as its own tools look for it.
pub(super) fn hub_cache(surroundings: &Surroundings) -> PathBuf {
    if let Some(cache) = surroundings.var("HF_HUB_CACHE") {
        return PathBuf::from(cache);
    }
    if let Some(home) = surroundings.var("HF_HOME") {
        return Path::new(home).join("hub");
    }
    home_folder(surroundings).join(".cache/huggingface/hub")
}

pub(super) fn home_folder(surroundings: &Surroundings) -> PathBuf {
    PathBuf::from(surroundings.var("HOME").unwrap_or("/"))
}

/// What a file says about where an asset is below its root.
pub(super) struct LinkTarget<'a> {
    pub(super) kind: RepoKind,
    pub(super) source_subdir: Option<&'a str>,
    pub(super) repo_id: Option<&'a str>,
    pub(super) revision: Option<&'a str>,
}

impl LinkTarget<'_> {
    /// The folder, with the commit where it is a snapshot of the cache. It may not exist.
    pub(super) fn find_folder(
        &self,
        root: &Path,
        file: &Path,
    ) -> Result<(PathBuf, Option<String>)> {
        let cached = |snapshot: Snapshot| (snapshot.path, Some(snapshot.revision));
        match (self.repo_id, self.source_subdir) {
            (Some(repo_id), None) => snapshot(root, self.kind, repo_id, self.revision).map(cached),
            (None, Some(subdir)) => {
                let folder = root.join(subdir);
                if is_repository(&folder) {
                    return in_repository(&folder, self.revision).map(cached);
                }
                if !folder.exists()
                    && is_commit(subdir)
                    && let Some(snapshot) = by_commit(root, subdir)
                {
                    return Ok(cached(snapshot));
                }
                let revision = folder
                    .parent()
                    .filter(|parent| parent.ends_with("snapshots"))
                    .and_then(|_| folder.file_name())
                    .map(|name| name.to_string_lossy().into_owned());
                Ok((folder, revision))
            }
            _ => Err(AssetError::bad(
                file,
                "one of `source_subdir` and `repo_id` says where the files are",
            )),
        }
    }
}
