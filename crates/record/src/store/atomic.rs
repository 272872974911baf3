use std::{
    ffi::OsStr,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use super::{Folder, StoreError, io_error};
use crate::secrets::redact;

/// Replaces `path` with `contents` so that a reader, or the next start after a crash, sees the old file or the new
/// one and nothing between. The folder of `path` is taken as it is named; files of a run are written by
/// [`Folder::replace`], which trusts no folder inside it.
pub fn write_atomically(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().unwrap_or(OsStr::new(""));
    Folder::open(parent)
        .and_then(|folder| folder.replace(name, contents))
        .map_err(io_error("write", path))
}

/// Writes the file that a user named: as [`write_atomically`], but a link stays a link and what it leads to is replaced, and a
/// device or a FIFO is written to.
pub fn write_output(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|entry| entry.is_symlink());
    match fs::metadata(path) {
        Ok(target) if target.is_file() && is_link => {
            let target = fs::canonicalize(path).map_err(io_error("write", path))?;
            write_atomically(&target, contents)
        }
        Ok(target) if target.is_file() || target.is_dir() => write_atomically(path, contents),
        Err(_) if !is_link => write_atomically(path, contents),
        // A link to a file that is not there yet makes that file.
        Ok(_) | Err(_) => write_through(path, contents).map_err(io_error("write", path)),
    }
}

fn write_through(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut target = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    match std::str::from_utf8(contents) {
        Ok(text) => target.write_all(redact(text).as_bytes()),
        Err(_) => target.write_all(contents),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    use super::*;

    #[test]
    fn links_and_devices_are_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "old").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("absent", at("dangling")).unwrap();
        for link in ["link", "dangling"] {
            write_output(&at(link), b"new").unwrap();
            assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink());
        }
        assert_eq!(fs::read(at("file")).unwrap(), b"new");
        assert_eq!(fs::read(at("absent")).unwrap(), b"new");

        symlink("/dev/full", at("full")).unwrap();
        let error = write_output(&at("full"), b"new").unwrap_err();
        assert!(error.to_string().contains("No space left"), "{error}");
        let null = Path::new("/dev/null");
        write_output(null, b"new").unwrap();
        assert!(fs::metadata(null).unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");

        // A directory in the way of the rename makes it fail after the temporary file was written.
        let blocked = folder.path().join("taken");
        fs::create_dir_all(blocked.join("child")).unwrap();
        assert!(matches!(
            write_atomically(&blocked, b"x"),
            Err(StoreError::Io {
                action: "write",
                ..
            })
        ));
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["run.json", "taken"]);
    }
}
