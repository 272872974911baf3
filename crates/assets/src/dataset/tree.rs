use std::{fs, path::Path};

use crate::{AssetError, Result};

/// Entries that are shown before they are only counted.
const SHOWN: usize = 40;

/// The first level of a folder, as a tree for a README.
pub(super) fn first_level(folder: &Path, title: &str) -> Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(AssetError::io("read", folder))? {
        let entry = entry.map_err(AssetError::io("read", folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let is_folder = entry.path().is_dir();
        names.push((!is_folder, name + if is_folder { "/" } else { "" }));
    }
    names.sort();
    let mut lines: Vec<String> = names.into_iter().map(|(_, name)| name).collect();
    if lines.len() > SHOWN {
        let more = lines.len() - (SHOWN - 1);
        lines.truncate(SHOWN - 1);
        lines.push(format!("… and {more} more"));
    }
    let last = lines.len().saturating_sub(1);
    let mut text = format!("{title}/\n");
    for (number, line) in lines.iter().enumerate() {
        let branch = if number == last {
            "└──"
        } else {
            "├──"
        };
        text += &format!("{branch} {line}\n");
    }
    Ok(text)
}
