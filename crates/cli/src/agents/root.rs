//! The folder that an agent's server reads, and nothing else.

use std::path::{Path, PathBuf};

use llmprof_record::store::{StoredRun, find_runs};

use crate::failure::Failure;

/// Paths longer than this are refused before the file system sees them.
const PATH_BYTES_MAX: usize = 4096;

/// A folder whose files may be read.
pub(super) struct RunsRoot {
    /// Canonical: links are resolved.
    folder: PathBuf,
}

impl RunsRoot {
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        let refused =
            |why: String| Failure::new(format!("cannot read {}: {why}", folder.display()));
        let folder = folder
            .canonicalize()
            .map_err(|error| refused(error.to_string()))?;
        if folder.is_dir() {
            Ok(Self { folder })
        } else {
            Err(refused("not a directory".to_owned()))
        }
    }

    /// The file or folder that an argument names, without links. One outside, one that does not exist and one behind a link that leads
    /// outside read alike, so that an answer says nothing of other folders.
    pub(super) fn resolve(&self, name: &str) -> Result<PathBuf, String> {
        let refused = || {
            let shown: String = name.chars().take(120).collect();
            format!("`{shown}` is not a run or profile below the folder of this server")
        };
        if name.is_empty() || name.len() > PATH_BYTES_MAX || name.contains('\0') {
            return Err(refused());
        }
        let path = self.folder.join(name).canonicalize();
        let path = path.map_err(|_| refused())?;
        // A pipe or a device would be waited for.
        if path.starts_with(&self.folder) && (path.is_dir() || path.is_file()) {
            Ok(path)
        } else {
            Err(refused())
        }
    }

    /// Whether an argument that need not be a file names one outside.
    pub(super) fn is_outside(&self, name: &str) -> bool {
        std::fs::symlink_metadata(self.folder.join(name)).is_ok() && self.resolve(name).is_err()
    }

    /// A message with paths as arguments name them.
    pub(super) fn relative(&self, message: &str) -> String {
        let folder = self.folder.to_string_lossy();
        message
            .replace(&format!("{folder}/"), "")
            .replace(&*folder, ".")
    }

    /// All runs, the oldest first, with their paths as arguments name them.
    pub(super) fn runs(&self) -> Vec<(String, StoredRun)> {
        let (runs, _) = find_runs(&self.folder);
        let named = runs.into_iter().filter_map(|run| {
            let path = run.path.strip_prefix(&self.folder).ok()?.to_str()?;
            let path = if path.is_empty() { "." } else { path };
            Some((path.to_owned(), run))
        });
        named.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_is_read_and_nothing_is_said_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        std::fs::create_dir_all(inside.join("runs/a")).unwrap();
        std::fs::write(folder.path().join("secret.json"), "{}").unwrap();
        std::fs::write(inside.join("trace.json"), "{}").unwrap();
        symlink(folder.path(), inside.join("up")).unwrap();
        symlink("../secret.json", inside.join("leak.json")).unwrap();
        symlink("trace.json", inside.join("own.json")).unwrap();
        let root = RunsRoot::open(&inside).unwrap();
        for name in ["runs/a", "trace.json", "own.json", "./runs/../trace.json"] {
            assert!(root.resolve(name).is_ok(), "{name}");
        }
        let outside = folder.path().join("secret.json");
        for name in [
            "../secret.json",
            "up/secret.json",
            "leak.json",
            "up",
            "..",
            "/",
            "/etc/passwd",
            "/dev/null",
            "none.json",
            "",
            "a\0b",
            outside.to_str().unwrap(),
        ] {
            let error = root.resolve(name).unwrap_err();
            assert!(error.contains("is not a run or profile"), "{name}: {error}");
        }
        assert!(root.resolve(&"x/".repeat(4000)).is_err());
        assert!(root.is_outside("leak.json") && root.is_outside("../secret.json"));
        assert!(!root.is_outside("h200") && !root.is_outside("own.json"));
    }
}
