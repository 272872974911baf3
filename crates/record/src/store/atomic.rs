use std::{ffi::OsStr, path::Path};

use super::{Folder, StoreError, io_error};

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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
