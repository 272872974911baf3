use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use super::{StoreError, io_error};

/// Replaces `path` with `contents` so that a reader, or the next start after a crash, sees the old file or the new
/// one and nothing between. On failure the old file is untouched and no temporary file stays behind.
pub fn write_atomically(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(contents)?;
        file.sync_all()
    });
    if let Err(source) = written.and_then(|()| fs::rename(&temporary, path)) {
        // The error to report is the first one; a temporary file that cannot be removed changes nothing for readers.
        let _ = fs::remove_file(&temporary);
        return Err(io_error("write", path)(source));
    }
    // The rename itself lives in the directory: without this it may be lost in a power cut.
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        File::open(parent)
            .and_then(|directory| directory.sync_all())
            .map_err(io_error("sync", parent))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
