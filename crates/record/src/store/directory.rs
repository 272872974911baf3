use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use super::{
    Durability, Folder, Manifest, Pass, RunStatus, SCHEMA_VERSION, StoreError, StoredRun,
    check_folder, io_error,
    locked::{list_artifacts, lock_folder, redact_logs, save},
};
use crate::issue::Issue;

/// A run directory being written by this process.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    folder: Folder,
    manifest: Manifest,
    /// Held open for its lock, which ends with the process.
    _lock: File,
}

impl RunDir {
    /// Creates `path`, takes it for this process and writes the first `run.json` with status `running`.
    ///
    /// A directory that another live process holds, or that already contains a run or files of somebody else, is refused:
    /// workers and profilers write by path, and nothing is ever overwritten.
    pub fn create(
        path: impl Into<PathBuf>,
        created: String,
        version: &str,
    ) -> Result<Self, StoreError> {
        let path = path.into();
        check_folder(&path)?;
        let (folder, lock) = create_locked(&path)?;
        match StoredRun::open(&path) {
            Ok(run) => {
                let status = match run.manifest.status {
                    // The lock is ours: its process is gone.
                    RunStatus::Running => RunStatus::Interrupted,
                    ended => ended,
                };
                return Err(StoreError::Exists { path, status });
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
            folder,
            manifest,
            _lock: lock,
        };
        run.save(Durability::Derived)?;
        Ok(run)
    }

    /// Takes a run that did not come to its end, to go on with it. One that is complete is refused, and so is one that a live
    /// process holds. What was wrong with it is forgotten: whatever still holds is found again.
    pub fn reopen(path: impl Into<PathBuf>, version: &str) -> Result<Self, StoreError> {
        let path = path.into();
        let (folder, lock) = create_locked(&path)?;
        let mut manifest = StoredRun::open(&path)?.manifest;
        if manifest.status == RunStatus::Complete {
            let status = manifest.status;
            return Err(StoreError::Exists { path, status });
        }
        version.clone_into(&mut manifest.llmprof_version);
        manifest.status = RunStatus::Running;
        manifest.pid = std::process::id();
        (manifest.error, manifest.finished) = (None, None);
        manifest.issues.clear();
        manifest.artifacts.clear();
        folder
            .sweep_temporary()
            .map_err(|(entry, error)| io_error("use", entry)(error))?;
        let run = Self {
            path,
            folder,
            manifest,
            _lock: lock,
        };
        run.save(Durability::Derived)?;
        Ok(run)
    }

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
        self.save(Durability::Derived)
    }

    /// Adds what was dropped, and saves.
    pub fn add_issue(&mut self, issue: Issue) -> Result<(), StoreError> {
        self.manifest.issues.push(issue);
        self.save(Durability::Derived)
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
        self.save(Durability::Derived)
    }

    /// Writes a file of the run, creating the folders above it.
    pub fn write(&self, relative: &str, contents: impl AsRef<[u8]>) -> Result<PathBuf, StoreError> {
        let path = self.path.join(relative);
        self.folder
            .replace(relative, contents.as_ref())
            .map_err(io_error("write", &path))?;
        Ok(path)
    }

    /// Writes a file of the run that can be made again from its record.
    pub fn write_derived(
        &self,
        relative: &str,
        contents: impl AsRef<[u8]>,
    ) -> Result<(), StoreError> {
        self.folder
            .replace_as(Durability::Derived, relative, contents.as_ref())
            .map_err(io_error("write", self.path.join(relative)))
    }

    /// Gives a file of the run a second name.
    pub fn link(&self, existing: &str, second: &str) -> Result<(), StoreError> {
        let linked = self.folder.link(existing, second);
        linked.map_err(io_error("link", self.path.join(second)))
    }

    /// Its files, for whoever writes more than text.
    pub fn folder(&self) -> &Folder {
        &self.folder
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
        let listed = redact_logs(&self.folder).and_then(|()| list_artifacts(&self.folder));
        match listed {
            Ok(artifacts) => {
                self.manifest.artifacts = artifacts;
                self.save(Durability::Whole)
            }
            Err(error) => {
                self.save(Durability::Whole)?;
                Err(error)
            }
        }
    }

    /// Removes the directory: nothing was found to keep.
    pub fn discard(self) -> Result<(), StoreError> {
        fs::remove_dir_all(&self.path).map_err(io_error("remove", &self.path))
    }

    /// While a run goes on, a power cut may take the last changes of its manifest: it is found as it was before them, and can be resumed.
    fn save(&self, durability: Durability) -> Result<(), StoreError> {
        save(&self.folder, &self.manifest, durability)
    }
}

/// Creates the directory and takes it for this process.
fn create_locked(path: &Path) -> Result<(Folder, File), StoreError> {
    fs::create_dir_all(path).map_err(io_error("create", path))?;
    let folder = Folder::open(path).map_err(io_error("open", path))?;
    let lock = lock_folder(&folder)?;
    Ok((folder, lock))
}

#[cfg(test)]
mod tests {
    use llmprof_units::Bytes;

    use super::*;
    use crate::store::{Artifact, relist_artifacts};

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
        // Whatever the manifest says, the process that has the lock is named.
        let manifest = folder.path().join("run.json");
        let text = fs::read_to_string(&manifest).unwrap();
        let own = std::process::id();
        let other = text.replace(&format!("\"pid\": {own}"), "\"pid\": 4194303");
        assert_ne!(text, other);
        fs::write(&manifest, other).unwrap();
        match create(folder.path()) {
            Err(StoreError::InUse { pid, .. }) => assert_eq!(pid, Some(own)),
            other => panic!("{other:?}"),
        }
        drop(first);
        assert!(matches!(
            create(folder.path()),
            Err(StoreError::Exists {
                status: RunStatus::Interrupted,
                ..
            })
        ));
    }

    /// `RunDir::write` was killed between the new file and its rename.
    #[test]
    fn what_a_killed_run_did_not_finish_is_swept_on_resume() {
        let folder = tempfile::tempdir().unwrap();
        let run = create(folder.path()).unwrap();
        run.write("plots/roofline.svg", "abc").unwrap();
        drop(run);
        let left = [
            "plots/.roofline.svg.0123456789abcdef.tmp",
            ".run.json.00000000000000ff.tmp",
        ];
        let kept = [
            "plots/.x.tmp",
            "notes.0123456789abcdef.tmp",
            "plots/roofline.svg",
        ];
        for name in left.iter().chain(&kept[..2]) {
            fs::write(folder.path().join(name), "cut").unwrap();
        }
        RunDir::reopen(folder.path(), "0.0.0").unwrap();
        for name in left {
            assert!(!folder.path().join(name).exists(), "{name}");
        }
        for name in kept {
            assert!(folder.path().join(name).exists(), "{name}");
        }
    }

    #[test]
    fn a_file_written_again_is_listed_anew() {
        let folder = tempfile::tempdir().unwrap();
        let run = create(folder.path()).unwrap();
        run.write("analysis.json", "old").unwrap();
        assert!(matches!(
            relist_artifacts(StoredRun::open(folder.path()).unwrap()),
            Err(StoreError::InUse { .. })
        ));
        run.finish(RunStatus::Complete, None, "2026-01-02T03:04:06Z".into())
            .unwrap();
        fs::write(folder.path().join("analysis.json"), "abc").unwrap();
        relist_artifacts(StoredRun::open(folder.path()).unwrap()).unwrap();
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
