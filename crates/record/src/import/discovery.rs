//! Profiles in a directory and its subdirectories: traces of ranks are often kept that way.

use std::io;
use std::path::{Path, PathBuf};

use super::source::read_head;
use super::{Importer, ncu_csv, sniff, wire};

/// Subdirectories of subdirectories that are looked into: `runs/rank0/trace.json`.
const LEVELS_MAX: u32 = 3;
/// Files of a directory that are looked at; one with more is not a set of profiles.
const FILES_MAX: usize = 4096;

/// A file that an importer knows by its content.
pub struct FoundProfile {
    pub path: PathBuf,
    /// The short name of the format.
    pub format: &'static str,
}

impl FoundProfile {
    /// Whether a directory of such files is one profile: wire files of a run, pages of Nsight Compute.
    pub fn is_part(&self) -> bool {
        [wire::IMPORTER.name, ncu_csv::IMPORTER.name].contains(&self.format)
    }
}

/// Files of a directory in order of their paths.
#[derive(Default)]
pub struct FoundFiles {
    pub profiles: Vec<FoundProfile>,
    /// Files of an unrecognized format.
    pub others: Vec<PathBuf>,
}

/// Files of a directory and its subdirectories. Nothing but regular files is opened, and no link is followed.
pub fn profiles_in(directory: &Path) -> io::Result<FoundFiles> {
    profiles_within(directory, LEVELS_MAX)
}

/// The profiles of a directory without its subdirectories.
pub fn profiles_beside(directory: &Path) -> io::Result<Vec<FoundProfile>> {
    Ok(profiles_within(directory, 1)?.profiles)
}

fn profiles_within(directory: &Path, levels: u32) -> io::Result<FoundFiles> {
    let mut files = Vec::new();
    collect_files(directory, levels, &mut files)?;
    files.sort();
    let mut sorted = FoundFiles::default();
    for path in files {
        let head = read_head(&path).ok();
        match head.as_deref().and_then(sniff) {
            Some(Importer { name, .. }) => {
                sorted.profiles.push(FoundProfile { path, format: name });
            }
            None => sorted.others.push(path),
        }
    }
    Ok(sorted)
}

fn collect_files(directory: &Path, levels: u32, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && levels > 1 {
            collect_files(&entry.path(), levels - 1, files)?;
        } else if kind.is_file() && files.len() < FILES_MAX {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_lie_in_subdirectories() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        };
        let trace = r#"{"schemaVersion": 1, "traceEvents": []}"#;
        write("b/rank1.json", trace);
        write("a/rank0.json", trace);
        write("a/notes.txt", "not a profile");
        write("a/empty.json", "");
        write("1/2/3/too_deep.json", trace);
        let outside = root.path().join("a/rank0.json");
        std::os::unix::fs::symlink(&outside, root.path().join("link.json")).unwrap();
        let files = profiles_in(root.path()).unwrap();
        let name = |path: &PathBuf| {
            let name = path.strip_prefix(root.path()).unwrap();
            name.display().to_string()
        };
        let profiles = files.profiles.iter().map(|one| name(&one.path));
        let profiles: Vec<String> = profiles.collect();
        assert_eq!(profiles, ["a/rank0.json", "b/rank1.json"]);
        assert!(files.profiles.iter().all(|one| one.format == "kineto"));
        let others: Vec<String> = files.others.iter().map(name).collect();
        assert_eq!(others, ["a/empty.json", "a/notes.txt"]);
        assert!(profiles_in(&root.path().join("none")).is_err());
    }
}
