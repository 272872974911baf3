use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Folder, JSON_MAX_BYTES, LOCK_FILE, MANIFEST_FILE, MANIFEST_MAX_BYTES, Manifest,
    NOTES_BYTES_MAX, NOTES_FILE, RunStatus, SCHEMA_VERSION, StoreError, io_error,
};

/// Whether somebody still writes to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// Its process holds the lock.
    Live,
    /// Its process is gone and did not say how it ended.
    Dead,
    Ended,
}

/// A run on disk, as anyone may read it.
#[derive(Clone, Debug)]
pub struct StoredRun {
    pub path: PathBuf,
    /// As written, but for the status of a run whose process is gone: that is `interrupted`, whatever the file says.
    pub manifest: Manifest,
}

impl StoredRun {
    /// Reads the run in `path`.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        let file = path.join(MANIFEST_FILE);
        let read = |folder: Folder| {
            let text = folder.read(MANIFEST_FILE, MANIFEST_MAX_BYTES)?;
            Ok::<_, io::Error>((folder, text))
        };
        let (folder, text) = match Folder::open(&path).and_then(read) {
            Ok(read) => read,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Err(StoreError::NotARun { path });
            }
            Err(error) => return Err(io_error("read", file)(error)),
        };
        let bad = |reason: String| StoreError::BadManifest {
            path: file.clone(),
            reason,
        };
        /// The version alone, so that a newer file is refused for its version and not for a detail.
        #[derive(Deserialize)]
        struct Version {
            schema_version: u32,
        }
        let version: Version =
            serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        if version.schema_version > SCHEMA_VERSION {
            return Err(bad(format!(
                "it has schema version {}, this llmprof reads up to {SCHEMA_VERSION}",
                version.schema_version
            )));
        }
        let mut manifest: Manifest =
            serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        if manifest.status == RunStatus::Running && !is_locked(&folder) {
            manifest.status = RunStatus::Interrupted;
        }
        Ok(Self { path, manifest })
    }

    /// Its files, by the one door that trusts none of them.
    pub fn folder(&self) -> Result<Folder, StoreError> {
        Folder::open(&self.path).map_err(io_error("read", &self.path))
    }

    /// A JSON file of the run; `None` where there is none.
    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let path = self.path.join(name);
        match self.folder()?.read(name, JSON_MAX_BYTES) {
            Ok(text) => {
                serde_json::from_slice(&text)
                    .map(Some)
                    .map_err(|error| StoreError::BadManifest {
                        path,
                        reason: error.to_string(),
                    })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", path)(error)),
        }
    }

    /// `notes.md`, which people write beside the files of the run; `None` where there is none.
    pub fn notes(&self) -> Result<Option<String>, StoreError> {
        match self.folder()?.read(NOTES_FILE, NOTES_BYTES_MAX) {
            Ok(text) => Ok(Some(String::from_utf8_lossy(&text).trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", self.path.join(NOTES_FILE))(error)),
        }
    }

    /// Whether its writer was alive when it was read.
    pub fn liveness(&self) -> Liveness {
        match (self.manifest.status, &self.manifest.finished) {
            (RunStatus::Running, _) => Liveness::Live,
            (RunStatus::Interrupted, None) => Liveness::Dead,
            _ => Liveness::Ended,
        }
    }
}

/// Whether a live process writes to a run. The lock decides, not the process id, which may have been given to another.
fn is_locked(folder: &Folder) -> bool {
    folder
        .open_file(LOCK_FILE)
        .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
}

/// Every run at or below `root`, oldest first, and what could not be read on the way. Runs do not nest.
pub fn find_runs(root: &Path) -> (Vec<StoredRun>, Vec<StoreError>) {
    let mut runs = Vec::new();
    let mut errors = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        match StoredRun::open(&folder) {
            Ok(run) => {
                runs.push(run);
                continue;
            }
            Err(StoreError::NotARun { .. }) => {}
            Err(error) => {
                errors.push(error);
                continue;
            }
        }
        match fs::read_dir(&folder) {
            Ok(entries) => folders.extend(
                entries
                    .flatten()
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path()),
            ),
            Err(source) => errors.push(io_error("read", folder)(source)),
        }
    }
    runs.sort_by(|a, b| (&a.manifest.created, &a.path).cmp(&(&b.manifest.created, &b.path)));
    (runs, errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RunDir;

    #[test]
    fn runs_are_found_below_a_folder_and_dead_ones_reported() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, created: &str| {
            RunDir::create(folder.path().join(name), created.into(), "0.0.0").unwrap()
        };
        let _late = make("x/late", "2026-02-01T00:00:00Z");
        drop(make("early", "2026-01-01T00:00:00Z"));
        fs::create_dir_all(folder.path().join("broken")).unwrap();
        fs::write(folder.path().join("broken").join(MANIFEST_FILE), "{").unwrap();

        let (runs, errors) = find_runs(folder.path());
        let states: Vec<_> = runs
            .iter()
            .map(|run| {
                (
                    run.path
                        .strip_prefix(folder.path())
                        .unwrap()
                        .to_str()
                        .unwrap(),
                    run.liveness(),
                )
            })
            .collect();
        assert_eq!(
            states,
            [("early", Liveness::Dead), ("x/late", Liveness::Live)]
        );
        let states: Vec<_> = runs.iter().map(|run| run.manifest.status).collect();
        assert_eq!(states, [RunStatus::Interrupted, RunStatus::Running]);
        assert!(matches!(
            errors.as_slice(),
            [StoreError::BadManifest { .. }]
        ));
    }

    #[test]
    fn a_newer_schema_is_refused_by_its_version() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join(MANIFEST_FILE),
            r#"{"schema_version": 99, "status": "dancing"}"#,
        )
        .unwrap();
        let error = StoredRun::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("schema version 99"), "{error}");
    }
}
