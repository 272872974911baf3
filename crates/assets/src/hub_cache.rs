//! The cache of the Hugging Face hub: `models--ORG--NAME/{refs,snapshots,blobs}`, where a snapshot's files are links to blobs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{AssetError, Result};

/// What kind of repository of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepoKind {
    Model,
    Dataset,
}

impl RepoKind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }
}

/// One revision in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub path: PathBuf,
    pub revision: String,
}

/// The branch that is meant where none is named.
const DEFAULT_REF: &str = "main";

/// Finds a revision of `repo_id` (`org/name`) below `root`, which is the hub's cache or the folder around it. Without a
/// revision that is `refs/main`, or the only snapshot there is.
pub fn snapshot(
    root: &Path,
    kind: RepoKind,
    repo_id: &str,
    revision: Option<&str>,
) -> Result<Snapshot> {
    let parts = repo_id.split('/').count();
    if repo_id.is_empty() || parts > 2 || repo_id.contains("..") {
        return Err(AssetError::refused(
            format!("`{repo_id}` is not a repository of the hub"),
            "ORG/NAME",
        ));
    }
    let name = format!("{}--{}", kind.prefix(), repo_id.replace('/', "--"));
    let places = [root.join(&name), root.join("hub").join(&name)];
    let folder = places.iter().find(|place| place.is_dir());
    let folder = folder.ok_or_else(|| {
        AssetError::refused(
            format!("{repo_id} is not in the cache: there is no {}", places[0].display()),
            "download it first (`hf download`), or name the cache's folder in the environment variable that bootstrap.yaml names",
        )
    })?;
    in_repository(folder, revision)
}

/// Whether a folder is a repository of the cache.
pub(crate) fn is_repository(folder: &Path) -> bool {
    folder.join("snapshots").is_dir()
}

/// Finds a revision of the repository in this folder.
pub(crate) fn in_repository(folder: &Path, revision: Option<&str>) -> Result<Snapshot> {
    let named = revision.unwrap_or(DEFAULT_REF);
    if named.is_empty() || named.split('/').any(|part| part == ".." || part.is_empty()) {
        return Err(AssetError::refused(
            format!("`{named}` is not a revision"),
            "a commit, a branch or a tag",
        ));
    }
    let snapshots = folder.join("snapshots");
    let commit = match fs::read_to_string(folder.join("refs").join(named)) {
        Ok(commit) => Some(commit.trim().to_owned()),
        Err(_) if snapshots.join(named).is_dir() => Some(named.to_owned()),
        Err(_) => None,
    };
    let known = list_names(&snapshots);
    let commit = match (commit, known.as_slice()) {
        (Some(commit), _) => commit,
        (None, [only]) if revision.is_none() => only.clone(),
        (None, _) => {
            return Err(AssetError::Unknown {
                what: "revision in the cache",
                name: format!("{} {named}", folder.display()),
                known,
            });
        }
    };
    let path = snapshots.join(&commit);
    if !path.is_dir() {
        return Err(AssetError::refused(
            format!(
                "{} says {named} is {commit}, but there is no such snapshot",
                folder.join("refs").display()
            ),
            "the download did not finish: run `hf download` again",
        ));
    }
    Ok(Snapshot {
        path,
        revision: commit,
    })
}

/// The snapshot of that commit, of whichever repository below `root`.
pub(crate) fn by_commit(root: &Path, commit: &str) -> Option<Snapshot> {
    let mut snapshots = list_names(root)
        .into_iter()
        .map(|name| root.join(name).join("snapshots").join(commit))
        .filter(|path| path.is_dir());
    let path = snapshots.next()?;
    snapshots.next().is_none().then(|| Snapshot {
        path,
        revision: commit.to_owned(),
    })
}

/// Whether a name is a whole commit id.
pub(crate) fn is_commit(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn list_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "1111111111111111111111111111111111111111";
    const NEW: &str = "2222222222222222222222222222222222222222";

    #[test]
    fn refs_commits_and_lone_snapshots_are_found() {
        let root = tempfile::tempdir().unwrap();
        let repository = root.path().join("hub/models--org--name");
        for commit in [OLD, NEW] {
            fs::create_dir_all(repository.join("snapshots").join(commit)).unwrap();
        }
        let find = |revision| snapshot(root.path(), RepoKind::Model, "org/name", revision);
        let error = find(None).unwrap_err();
        assert!(error.hint().unwrap().contains(NEW), "{error}");
        fs::create_dir_all(repository.join("refs/pr")).unwrap();
        fs::write(repository.join("refs/main"), NEW).unwrap();
        fs::write(repository.join("refs/pr/1"), OLD).unwrap();
        assert_eq!(find(None).unwrap().revision, NEW);
        assert_eq!(find(Some("pr/1")).unwrap().revision, OLD);
        assert_eq!(find(Some(OLD)).unwrap().revision, OLD);
        for wrong in ["v9", "../../x", ""] {
            assert!(find(Some(wrong)).is_err(), "{wrong}");
        }
        fs::remove_dir_all(repository.join("snapshots").join(NEW)).unwrap();
        let error = find(None).unwrap_err().to_string();
        assert!(error.contains("no such snapshot"), "{error}");
        fs::remove_file(repository.join("refs/main")).unwrap();
        assert_eq!(find(None).unwrap().revision, OLD, "the only one");
        for wrong in ["other/name", "../name", "a/b/c", ""] {
            assert!(
                snapshot(root.path(), RepoKind::Model, wrong, None).is_err(),
                "{wrong}"
            );
        }
        let hub = root.path().join("hub");
        assert_eq!(by_commit(&hub, OLD).unwrap().revision, OLD);
        assert!(by_commit(&hub, NEW).is_none());
    }
}
