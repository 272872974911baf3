use std::{
    fs::{File, TryLockError},
    path::Path,
};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::{AssetError, Result};

/// Held by the one command that changes a project.
///
/// The lock is on the project's folder itself, so nothing is left behind. Programs that the command starts inherit it: where
/// llmprof is killed while its `git` still works, the next command waits for that `git`.
pub struct ProjectLock {
    _folder: File,
}

impl ProjectLock {
    /// Takes the lock; `waiting` is called once where somebody else has it.
    pub fn acquire(project: &Path, waiting: impl FnOnce()) -> Result<Self> {
        let folder = File::open(project).map_err(AssetError::io("open", project))?;
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                folder.lock().map_err(AssetError::io("lock", project))?;
            }
            Err(TryLockError::Error(source)) => {
                return Err(AssetError::io("lock", project)(source));
            }
        }
        fcntl_setfd(&folder, FdFlags::empty())
            .map_err(|error| AssetError::io("lock", project)(error.into()))?;
        Ok(Self { _folder: folder })
    }
}
