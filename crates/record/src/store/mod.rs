//! The run directory: self-contained, crash-safe, relocatable.
//!
//! [`RunDir`] is the one process that writes a run; [`StoredRun`] is anyone who reads it, and [`LockedRun`] who writes
//! its reports again. All of them open files by [`Folder`] alone, since a run may come from somebody else. The state of a run is
//! `run.json`, replaced whole at each change (write, fsync, rename), so that a reader never sees half of it. The
//! writer holds an exclusive lock for as long as it lives: the kernel drops it even after `kill -9`, which is how a
//! run that still says `running` is known to be dead.

mod atomic;
mod directory;
mod folder;
mod locked;
mod manifest;
mod ownership;
mod stored;

pub use atomic::{write_atomically, write_output};
pub use directory::RunDir;
pub use folder::{Durability, Folder};
pub use locked::{LockedRun, lock_folder, relist_artifacts};
pub use manifest::{Artifact, Manifest, Pass, RunStatus, SCHEMA_VERSION};
pub use ownership::{check_folder, claim_folder};
pub use stored::{Liveness, StoredRun, find_runs};

use std::path::{Path, PathBuf};

/// Name of the file that holds a run's state.
pub(crate) const MANIFEST_FILE: &str = "run.json";
/// Name of the file whose lock the writer of a run holds.
pub(crate) const LOCK_FILE: &str = ".lock";
/// Name of the file that people write about a run; nothing else does.
pub(crate) const NOTES_FILE: &str = "notes.md";

/// Notes are read by people: a larger file is something else.
const NOTES_BYTES_MAX: u64 = 1 << 20;

/// No manifest is near this; a larger one is not read into memory.
const MANIFEST_MAX_BYTES: u64 = 64 << 20;
/// The same for the other JSON files of a run, which have a row for every token of every request.
pub const JSON_MAX_BYTES: u64 = 1 << 30;

/// The action of an I/O error that writes nothing.
const READ: &str = "read";

/// Why a run directory could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was being done: `write`, `create`, `read`…
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// Another live process writes to this directory.
    #[error("{path} is in use by another run{}", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    InUse {
        path: PathBuf,
        /// The process that its manifest names.
        pid: Option<u32>,
    },
    /// The directory holds an earlier run, which is never overwritten.
    #[error("{path} already holds a run ({status})")]
    Exists { path: PathBuf, status: RunStatus },
    /// The directory has files and llmprof did not make it: nothing of the user's is replaced.
    #[error("{path} is not empty and llmprof did not make it; its files could be overwritten")]
    Foreign { path: PathBuf },
    /// There is no manifest, so this is not a run.
    #[error("{path} is not a run directory: it has no {MANIFEST_FILE}")]
    NotARun { path: PathBuf },
    /// The manifest is there and cannot be understood.
    #[error("{path} cannot be understood: {reason}")]
    BadManifest {
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    fn is_reading(&self) -> bool {
        matches!(self, Self::Io { action, .. } if *action == READ)
    }

    /// Whether another run directory would do.
    pub fn is_about_the_directory(&self) -> bool {
        match self {
            Self::InUse { .. } | Self::Exists { .. } | Self::Foreign { .. } => true,
            Self::Io { source, .. } => {
                !self.is_reading()
                    && matches!(
                        source.kind(),
                        std::io::ErrorKind::ReadOnlyFilesystem
                            | std::io::ErrorKind::PermissionDenied
                            | std::io::ErrorKind::NotADirectory
                            | std::io::ErrorKind::AlreadyExists
                    )
            }
            Self::NotARun { .. } | Self::BadManifest { .. } => false,
        }
    }

    /// A directory that would do in the place of the one that is refused.
    pub fn other_directory(&self) -> Option<PathBuf> {
        match self {
            Self::Foreign { path } => Some(path.join("llmprof")),
            _ => None,
        }
    }

    /// What would fix it, where that can be said.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { source, path, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied if self.is_reading() => Some(format!(
                    "{} is not readable for this user: `ls -ld` shows its permissions",
                    path.display()
                )),
                std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                    Some("choose a directory that can be written".to_owned())
                }
                _ => no_room_hint(source, path),
            },
            Self::InUse { .. } | Self::Exists { .. } | Self::Foreign { .. } => {
                Some("choose another directory".to_owned())
            }
            Self::NotARun { .. } => {
                Some("`llmprof runs list` shows the runs below a directory".to_owned())
            }
            Self::BadManifest { .. } => None,
        }
    }
}

/// What to say where a file could not be written for want of room.
pub fn no_room_hint(error: &std::io::Error, path: &Path) -> Option<String> {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Some(full_disk_hint(path))
        }
        std::io::ErrorKind::FileTooLarge => Some(format!(
            "{} is larger than this user may write: `ulimit -f` shows the limit; what was written before is kept",
            path.display()
        )),
        _ => None,
    }
}

pub fn full_disk_hint(path: &Path) -> String {
    format!(
        "the disk that holds {} is full; what was written before is kept",
        path.display()
    )
}

/// Attaches the action and path to an I/O error.
pub(crate) fn io_error(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.into();
    move |source| StoreError::Io {
        action,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    /// `runs list` of a directory that cannot be read once advised to choose a writable one.
    #[test]
    fn advice_fits_what_was_being_done() {
        let denied = |action| io_error(action, "runs")(Error::from(ErrorKind::PermissionDenied));
        let reading = denied("read");
        assert!(reading.hint().unwrap().contains("not readable"));
        assert!(!reading.is_about_the_directory());
        let creating = denied("create");
        assert!(creating.hint().unwrap().contains("can be written"));
        assert!(creating.is_about_the_directory());
    }
}
