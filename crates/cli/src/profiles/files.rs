//! What profiles are called, and where imports are written.

use crate::clock;
use std::path::{Path, PathBuf};

use llmprof_record::import::{FoundProfile, profiles_in};

/// Profiles in place of the directories that hold them. A run, wire files and pages of Nsight Compute are read as a directory.
pub(crate) fn expand_directories(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let expand = |path: PathBuf| {
        let found = if path.is_dir() && !path.join("run.json").exists() {
            profiles_in(&path).unwrap_or_default()
        } else {
            Vec::new()
        };
        if found.is_empty() || found.iter().any(FoundProfile::is_part) {
            return vec![path];
        }
        found.into_iter().map(|found| found.path).collect()
    };
    paths.into_iter().flat_map(expand).collect()
}

/// `runs/import/<name of the first file>/<time>`.
pub(crate) fn default_directory(files: &[PathBuf]) -> PathBuf {
    let name = files.first().map(|file| name(file)).unwrap_or_default();
    let stem = name
        .split('.')
        .next()
        .filter(|stem| !stem.is_empty())
        .unwrap_or("profile")
        .to_owned();
    let time = clock::directory_name();
    free(&Path::new("runs").join("import").join(stem).join(time))
}

/// The directory, or the first like it that is not there yet: two runs may begin in one microsecond.
pub(crate) fn free(dir: &Path) -> PathBuf {
    let mut found = dir.to_path_buf();
    let mut number = 2_u32;
    while found.exists() {
        let mut name = dir.as_os_str().to_owned();
        name.push(format!("-{number}"));
        found = name.into();
        number += 1;
    }
    found
}

/// The last part of a path, as text.
pub(super) fn name(file: &Path) -> String {
    file.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// What to call profiles of one program.
pub(crate) fn title(profiles: &[PathBuf]) -> String {
    match profiles {
        [] => String::new(),
        [file] => placed(file),
        [first, others @ ..] => format!("{} and {} more", placed(first), others.len()),
    }
}

/// A file with its folder: traces are often called alike.
fn placed(file: &Path) -> String {
    let folder = file.parent().map(name).filter(|folder| !folder.is_empty());
    folder.map_or_else(|| name(file), |folder| format!("{folder}/{}", name(file)))
}
