//! Writing into a run that ended: its reports again, or an export.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use llmprof_units::{Bytes, hex_text};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use crate::secrets::redact;

use super::{
    Artifact, Durability, Folder, LOCK_FILE, MANIFEST_FILE, Manifest, StoreError, StoredRun,
    io_error,
};

/// A run that ended, held by this process. No other writes to it until this is dropped.
#[derive(Debug)]
pub struct LockedRun {
    pub run: StoredRun,
    folder: Folder,
    _lock: File,
}

impl StoredRun {
    /// Takes the run for writing; one that a live process writes is refused.
    pub fn lock(self) -> Result<LockedRun, StoreError> {
        let folder = self.folder()?;
        let lock = lock_folder(&folder)?;
        Ok(LockedRun {
            run: self,
            folder,
            _lock: lock,
        })
    }
}

impl LockedRun {
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Replaces a file of the run that can be made again.
    pub fn write(&self, relative: &str, contents: impl AsRef<[u8]>) -> Result<(), StoreError> {
        self.folder
            .replace_as(Durability::Derived, relative, contents.as_ref())
            .map_err(io_error("write", self.run.path.join(relative)))
    }

    /// Lists its files anew: a manifest must not vouch for old contents.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.run.manifest.artifacts = list_artifacts(&self.folder)?;
        save(&self.folder, &self.run.manifest, Durability::Whole)
    }
}

/// Lists the files of a run that ended anew, after some were written again.
pub fn relist_artifacts(run: StoredRun) -> Result<(), StoreError> {
    run.lock()?.finish()
}

/// Takes the lock of a folder of runs or of a run, as long as the file is open.
pub fn lock_folder(folder: &Folder) -> Result<File, StoreError> {
    let path = folder.path().join(LOCK_FILE);
    let lock = folder
        .open_in_place(LOCK_FILE)
        .map_err(io_error("create", &path))?;
    if let Err(errno) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        let source = io::Error::from(errno);
        if source.kind() == io::ErrorKind::WouldBlock {
            return Err(StoreError::InUse {
                path: folder.path().to_owned(),
                pid: lock_holder(&lock),
            });
        }
        return Err(io_error("lock", path)(source));
    }
    Ok(lock)
}

/// The process that holds the lock of a file, as `/proc/locks` lists it (`1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF`); a process of another
/// PID namespace is 0 there. The manifest names the process that made the run, which may have ended.
fn lock_holder(file: &File) -> Option<u32> {
    let status = rustix::fs::fstat(file).ok()?;
    let inode = format!(
        "{:02x}:{:02x}:{}",
        rustix::fs::major(status.st_dev),
        rustix::fs::minor(status.st_dev),
        status.st_ino
    );
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, place, ..] = words[..] else {
            return None;
        };
        (place == inode)
            .then(|| pid.parse().ok())?
            .filter(|pid| *pid != 0)
    })
}

pub(super) fn save(
    folder: &Folder,
    manifest: &Manifest,
    durability: Durability,
) -> Result<(), StoreError> {
    let mut text = serde_json::to_string_pretty(manifest).expect("a manifest has only string keys");
    text.push('\n');
    folder
        .replace_as(durability, MANIFEST_FILE, text.as_bytes())
        .map_err(io_error("write", folder.path().join(MANIFEST_FILE)))
}

/// Every file of the run but the manifest and the lock, by path.
pub(super) fn list_artifacts(root: &Folder) -> Result<Vec<Artifact>, StoreError> {
    let mut artifacts = Vec::new();
    let walked = root.walk(&mut |relative, folder, name| {
        if relative != Path::new(MANIFEST_FILE) && relative != Path::new(LOCK_FILE) {
            let (bytes, sha256) = hash_file(folder.open_file(name)?)?;
            let path = relative.to_string_lossy().into_owned();
            artifacts.push(Artifact {
                path,
                bytes: Bytes(bytes),
                sha256,
            });
        }
        Ok(())
    });
    walked.map_err(|(path, error)| io_error("read", path)(error))?;
    artifacts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(artifacts)
}

/// Logs longer than this are left as their program wrote them.
const LOG_MAX_BYTES: u64 = 64 << 20;

/// Takes what looks like a credential out of what programs printed.
pub(super) fn redact_logs(root: &Folder) -> Result<(), StoreError> {
    let walked = root.walk(&mut |relative, folder, name| {
        if relative
            .extension()
            .is_some_and(|extension| extension == "log")
        {
            let file = folder.open_file(name)?;
            if file.metadata()?.len() <= LOG_MAX_BYTES {
                let bytes = folder.read(name, LOG_MAX_BYTES)?;
                let text = String::from_utf8_lossy(&bytes);
                if let Cow::Owned(clean) = redact(&text) {
                    folder.replace(name, clean.as_bytes())?;
                }
            }
        }
        Ok(())
    });
    walked.map_err(|(path, error)| io_error("write", path)(error))
}

fn hash_file(mut file: File) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&buffer[..count]);
        bytes += count as u64;
    }
    Ok((bytes, hex_text(&hash.finalize())))
}
