//! Which folders llmprof may write into: new ones, empty ones and those it made.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{Folder, LOCK_FILE, MANIFEST_FILE, StoreError, io_error};

/// Marks a folder of reports that is no run, so that a command can write its files there again.
const MARK_FILE: &str = ".llmprof";

/// Creates a folder for files that a command writes, or takes one that it may write into.
pub fn claim_folder(path: &Path) -> Result<Folder, StoreError> {
    let folder = create_unless_foreign(path, &[MARK_FILE])?;
    let mark = path.join(MARK_FILE);
    let marked = folder.open_in_place(MARK_FILE);
    marked.map_err(io_error("create", mark))?;
    Ok(folder)
}

/// Creates a folder that will be locked, for a run or a sweep; refuses one with files of somebody else.
pub fn check_folder(path: &Path) -> Result<Folder, StoreError> {
    create_unless_foreign(path, &[LOCK_FILE, MANIFEST_FILE])
}

fn create_unless_foreign(path: &Path, marks: &[&str]) -> Result<Folder, StoreError> {
    fs::create_dir_all(path).map_err(io_error("create", path))?;
    let folder = Folder::open(path).map_err(io_error("open", path))?;
    let names = entry_names(path).map_err(io_error("read", path))?;
    let is_ours = |name: &PathBuf| marks.iter().any(|mark| name.as_path() == Path::new(mark));
    if names.is_empty() || names.iter().any(is_ours) {
        return Ok(folder);
    }
    Err(StoreError::Foreign {
        path: path.to_owned(),
    })
}

fn entry_names(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path)?;
    entries
        .map(|entry| entry.map(|entry| PathBuf::from(entry.file_name())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_others_are_refused_and_left_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("notes");
        fs::create_dir(&notes).unwrap();
        fs::write(notes.join("report.md"), "mine").unwrap();
        for refused in [claim_folder(&notes), check_folder(&notes)] {
            assert!(matches!(refused, Err(StoreError::Foreign { .. })));
        }
        assert_eq!(fs::read_dir(&notes).unwrap().count(), 1);

        let reports = folder.path().join("new/reports");
        let claimed = claim_folder(&reports).unwrap();
        claimed.replace("report.md", b"ours").unwrap();
        claim_folder(&reports).unwrap();
        // A run replaces no reports either.
        assert!(check_folder(&reports).is_err());
    }
}
