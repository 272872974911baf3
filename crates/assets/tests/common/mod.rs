//! Folders of files for tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, fs, path::Path};

use llmprof_assets::{Changes, Surroundings};

pub(crate) fn write(root: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

pub(crate) fn surroundings(env: &[(&str, &Path)]) -> Surroundings {
    let env: BTreeMap<String, String> = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.to_string_lossy().into_owned()))
        .collect();
    Surroundings { env }
}

/// Makes the changes; how many there were.
pub(crate) fn made(changes: Changes) -> usize {
    let count = changes.lines().count();
    changes.apply(|_| {}).unwrap();
    count
}
