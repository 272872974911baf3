use llmprof_units::Bytes;
use std::{
    fmt::Write as _,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::{
    Artifact, LOCK_FILE, MANIFEST_FILE, Manifest, Pass, RunStatus, SCHEMA_VERSION, StoreError,
    StoredRun, io_error, write_atomically,
};
use crate::issue::Issue;

/// A run directory being written by this process.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    manifest: Manifest,
    /// Held open for its lock, which ends with the process.
    _lock: File,
}

impl RunDir {
    /// Creates `path`, takes it for this process and writes the first `run.json` with status `running`.
    ///
    /// A directory that another live process holds, or that already contains a run, is refused: a run is never
    /// overwritten. Other files in it stay.
    pub fn create(
        path: impl Into<PathBuf>,
        created: String,
        version: &str,
    ) -> Result<Self, StoreError> {
        let path = path.into();
        fs::create_dir_all(&path).map_err(io_error("create", &path))?;
        let lock_path = path.join(LOCK_FILE);
        let lock = File::create(&lock_path).map_err(io_error("create", &lock_path))?;
        if let Err(errno) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            let source = io::Error::from(errno);
            if source.kind() == io::ErrorKind::WouldBlock {
                let pid = StoredRun::open(&path).ok().map(|run| run.manifest.pid);
                return Err(StoreError::InUse { path, pid });
            }
            return Err(io_error("lock", lock_path)(source));
        }
        match StoredRun::open(&path) {
            Ok(run) => {
                return Err(StoreError::Exists {
                    path,
                    status: run.manifest.status,
                });
            }
            Err(StoreError::NotARun { .. }) => {}
            Err(other) => return Err(other),
        }
        let manifest = Manifest {
            schema_version: SCHEMA_VERSION,
            llmprof_version: version.to_owned(),
            status: RunStatus::Running,
            pid: std::process::id(),
            created,
            finished: None,
            experiment: String::new(),
            model: String::new(),
            overrides: Vec::new(),
            error: None,
            passes: Vec::new(),
            issues: Vec::new(),
            artifacts: Vec::new(),
        };
        let run = Self {
            path,
            manifest,
            _lock: lock,
        };
        run.save()?;
        Ok(run)
    }

    /// Where the run is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its state as last saved, plus unsaved edits.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Names what is run, and saves.
    pub fn describe(
        &mut self,
        experiment: &str,
        model: &str,
        overrides: &[String],
    ) -> Result<(), StoreError> {
        experiment.clone_into(&mut self.manifest.experiment);
        model.clone_into(&mut self.manifest.model);
        self.manifest.overrides = overrides.to_vec();
        self.save()
    }

    /// Adds what was dropped, and saves.
    pub fn add_issue(&mut self, issue: Issue) -> Result<(), StoreError> {
        self.manifest.issues.push(issue);
        self.save()
    }

    /// Adds or replaces the pass of the same name, and saves.
    pub fn set_pass(&mut self, pass: Pass) -> Result<(), StoreError> {
        match self
            .manifest
            .passes
            .iter_mut()
            .find(|known| known.name == pass.name)
        {
            Some(known) => *known = pass,
            None => self.manifest.passes.push(pass),
        }
        self.save()
    }

    /// Writes a file of the run, creating the folders above it.
    pub fn write(&self, relative: &str, contents: impl AsRef<[u8]>) -> Result<PathBuf, StoreError> {
        let path = self.path.join(relative);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io_error("create", parent))?;
        }
        write_atomically(&path, contents.as_ref())?;
        Ok(path)
    }

    /// Lists the artifacts and writes the last `run.json`.
    ///
    /// If hashing fails (the disk went away), the status is still written: knowing how the run ended matters more.
    pub fn finish(
        mut self,
        status: RunStatus,
        error: Option<String>,
        finished: String,
    ) -> Result<(), StoreError> {
        self.manifest.status = status;
        self.manifest.error = error;
        self.manifest.finished = Some(finished);
        let listed = list_artifacts(&self.path);
        match listed {
            Ok(artifacts) => {
                self.manifest.artifacts = artifacts;
                self.save()
            }
            Err(error) => {
                self.save()?;
                Err(error)
            }
        }
    }

    fn save(&self) -> Result<(), StoreError> {
        save(&self.path, &self.manifest)
    }
}

/// Lists the files of a run that ended anew, after some were written again: a manifest must not vouch for old contents.
///
/// A run that a live process writes is refused.
pub fn relist(mut run: StoredRun) -> Result<(), StoreError> {
    let lock_path = run.path.join(LOCK_FILE);
    let lock = File::create(&lock_path).map_err(io_error("create", &lock_path))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(StoreError::InUse {
            pid: Some(run.manifest.pid),
            path: run.path,
        });
    }
    run.manifest.artifacts = list_artifacts(&run.path)?;
    save(&run.path, &run.manifest)
}

fn save(path: &Path, manifest: &Manifest) -> Result<(), StoreError> {
    let mut text = serde_json::to_string_pretty(manifest).expect("a manifest has only string keys");
    text.push('\n');
    write_atomically(&path.join(MANIFEST_FILE), text.as_bytes())
}

/// Every file below `root` but the manifest and the lock, by path.
fn list_artifacts(root: &Path) -> Result<Vec<Artifact>, StoreError> {
    let mut artifacts = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(io_error("read", &folder))? {
            let entry = entry.map_err(io_error("read", &folder))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(io_error("read", &path))?;
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            let relative = path.strip_prefix(root).expect("entries are below the root");
            let relative = relative.to_string_lossy().into_owned();
            if !kind.is_file() || relative == MANIFEST_FILE || relative == LOCK_FILE {
                continue;
            }
            let mut file = File::open(&path).map_err(io_error("read", &path))?;
            let mut hash = Sha256::new();
            let bytes =
                io::copy(&mut file, &mut HashWriter(&mut hash)).map_err(io_error("read", &path))?;
            let sha256 = hash
                .finalize()
                .iter()
                .fold(String::new(), |mut text, byte| {
                    let _ = write!(text, "{byte:02x}");
                    text
                });
            artifacts.push(Artifact {
                path: relative,
                bytes: Bytes(bytes),
                sha256,
            });
        }
    }
    artifacts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(artifacts)
}

/// Feeds a hash from `io::copy`.
struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(path: &Path) -> Result<RunDir, StoreError> {
        RunDir::create(path, "2026-01-02T03:04:05Z".into(), "0.0.0")
    }

    #[test]
    fn a_run_from_start_to_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let mut run = create(&path).unwrap();
        run.describe("baseline", "tiny", &["x=1".into()]).unwrap();
        run.write("plots/roofline.svg", "abc").unwrap();
        assert_eq!(
            StoredRun::open(&path).unwrap().liveness(),
            crate::store::Liveness::Live
        );
        run.finish(RunStatus::Complete, None, "2026-01-02T03:04:06Z".into())
            .unwrap();

        let stored = StoredRun::open(&path).unwrap();
        assert_eq!(stored.manifest.status, RunStatus::Complete);
        assert_eq!(
            stored.manifest.artifacts,
            [Artifact {
                path: "plots/roofline.svg".into(),
                bytes: Bytes(3),
                // printf abc | sha256sum
                sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".into(),
            }]
        );
    }

    #[test]
    fn a_directory_serves_one_run() {
        let folder = tempfile::tempdir().unwrap();
        let first = create(folder.path()).unwrap();
        assert!(matches!(
            create(folder.path()),
            Err(StoreError::InUse { pid: Some(_), .. })
        ));
        drop(first);
        assert!(matches!(
            create(folder.path()),
            Err(StoreError::Exists {
                status: RunStatus::Running,
                ..
            })
        ));
    }

    #[test]
    fn a_file_written_again_is_listed_anew() {
        let folder = tempfile::tempdir().unwrap();
        let run = create(folder.path()).unwrap();
        run.write("analysis.json", "old").unwrap();
        assert!(matches!(
            relist(StoredRun::open(folder.path()).unwrap()),
            Err(StoreError::InUse { .. })
        ));
        run.finish(RunStatus::Complete, None, "2026-01-02T03:04:06Z".into())
            .unwrap();
        fs::write(folder.path().join("analysis.json"), "abc").unwrap();
        relist(StoredRun::open(folder.path()).unwrap()).unwrap();
        let stored = StoredRun::open(folder.path()).unwrap();
        assert_eq!(stored.manifest.status, RunStatus::Complete);
        assert!(stored.manifest.artifacts[0].sha256.starts_with("ba7816bf"));
    }

    #[test]
    fn passes_are_replaced_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = create(folder.path()).unwrap();
        let pass = |status| Pass {
            name: "plain".into(),
            status,
            duration_ns: None,
            exit_code: None,
        };
        run.set_pass(pass(RunStatus::Running)).unwrap();
        run.set_pass(pass(RunStatus::Complete)).unwrap();
        assert_eq!(
            StoredRun::open(folder.path()).unwrap().manifest.passes,
            [pass(RunStatus::Complete)]
        );
    }
}
