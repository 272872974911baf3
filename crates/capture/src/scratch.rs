//! Folders for sockets and unpacked files, which are gone when we are.
//!
//! A process that is killed cannot remove its folder. Each holds a locked file as long as its process lives, so that the
//! next process knows which are nobody's and removes them.

use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use llmprof_record::store::Folder;
use rustix::fs::{FlockOperation, flock};
use rustix::process::getuid;
use tempfile::TempDir;

const PREFIX: &str = "llmprof-";
const LOCK: &str = ".lock";
/// The path of a socket may have 107 bytes; this is what follows the folder for temporary files.
const SOCKET_PATH_BYTES: usize = 107 - "/llmprof-XXXXXXXX/control".len();

/// A folder of our own that nobody else may enter.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    pub(crate) fn new() -> io::Result<Self> {
        let place = socket_safe_folder(std::env::temp_dir());
        remove_stale(&place);
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&place)
            .map_err(|error| {
                let message = format!(
                    "no folder can be made in {} (TMPDIR names another): {error}",
                    place.display()
                );
                io::Error::new(error.kind(), message)
            })?;
        // It has its name only when it is locked: an unlocked one is stale.
        let aside = folder.path().join(".lock.new");
        let lock = File::create_new(&aside)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(aside, folder.path().join(LOCK))?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// The user's folder for temporary files, unless no socket could have a path in it.
fn socket_safe_folder(named: PathBuf) -> PathBuf {
    if named.as_os_str().len() > SOCKET_PATH_BYTES {
        PathBuf::from("/tmp")
    } else {
        named
    }
}

/// Removes folders of this user whose processes are gone. What cannot be removed is left for the next.
fn remove_stale(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = |name: &OsStr| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if is_ours(&entry.file_name()) && is_stale(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_stale(folder: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(folder) else {
        return false;
    };
    if !metadata.is_dir() || metadata.uid() != getuid().as_raw() {
        return false;
    }
    let Ok(lock) = Folder::open(folder).and_then(|folder| folder.open_file(LOCK)) else {
        // Not locked yet, or not one of these.
        return false;
    };
    flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_lives_as_long_as_its_process() {
        let scratch = Scratch::new().unwrap();
        let mode = fs::metadata(scratch.path()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(!is_stale(scratch.path()));

        let place = tempfile::tempdir().unwrap();
        let (dead, young, other) = (
            place.path().join("llmprof-dead"),
            place.path().join("llmprof-young"),
            place.path().join("other"),
        );
        for folder in [&dead, &young, &other] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(dead.join(LOCK), "").unwrap();
        fs::write(other.join(LOCK), "").unwrap();
        std::os::unix::fs::symlink(&other, place.path().join("llmprof-link")).unwrap();
        remove_stale(place.path());
        assert!(!dead.exists());
        assert!(young.exists() && other.exists());
        let gone = scratch.path().to_owned();
        drop(scratch);
        assert!(!gone.exists());
    }

    #[test]
    fn a_socket_has_a_path_that_fits() {
        let long = PathBuf::from(format!("/{}", "x".repeat(150)));
        assert_eq!(socket_safe_folder(long), Path::new("/tmp"));
        assert_eq!(socket_safe_folder("/var/tmp".into()), Path::new("/var/tmp"));
    }
}
