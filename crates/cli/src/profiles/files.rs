//! What profiles are called, and where imports are written.

use std::path::{Path, PathBuf};

use llmprof_config::near_names::near_names;
use llmprof_record::{
    import::{FoundProfile, profiles_beside, profiles_in},
    secrets::without_known,
};

use crate::{clock, failure::Failure, subject::Subject};

/// The name of a model that is read from a config.json and has no other.
const LOCAL_MODEL: &str = "local";

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

/// `runs/import/NAME/TIME`. The name is that of the model where it has one, else of the first file, else of its folder.
pub(crate) fn default_directory(files: &[PathBuf], subject: Option<&Subject>) -> PathBuf {
    let model = subject
        .filter(|subject| subject.name != LOCAL_MODEL)
        .and_then(|subject| folder_name(&subject.name));
    let of_file = || files.first().and_then(|file| folder_name(&stem(file)));
    let name = model
        .or_else(of_file)
        .unwrap_or_else(|| "profile".to_owned());
    let time = clock::directory_name();
    free(&Path::new("runs").join("import").join(name).join(time))
}

/// Most characters of a folder's name: file systems take 255 bytes.
const FOLDER_CHARACTERS: usize = 60;

/// A text as the name of a folder. A server or a file may call its model anything: no name leaves the folder, is hidden or has a
/// key that the command was given.
pub(crate) fn folder_name(text: &str) -> Option<String> {
    let text = without_known(text);
    let text = text.trim_matches(|c: char| c == '.' || c == '/' || c.is_whitespace());
    let allowed = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let name: String = text
        .chars()
        .take(FOLDER_CHARACTERS)
        .map(|c| if allowed(c) { c } else { '_' })
        .collect();
    (!name.is_empty()).then_some(name)
}

/// Words that name a kind of file and not what it is of.
const GENERIC_WORDS: [&str; 14] = [
    "trace", "traces", "rank", "profile", "profiles", "profiler", "report", "timeline", "kineto",
    "chrome", "pt", "nsys", "ncu", "out",
];

/// What a profile is called: its name up to the first dot or, where that says only what kind of file it is (`trace`, `rank0`),
/// the name of the nearest folder that says more.
fn stem(file: &Path) -> String {
    let stem_of = |path: &Path| {
        let name = name(path);
        name.split('.').next().unwrap_or_default().to_owned()
    };
    let own = stem_of(file);
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let mut names = std::iter::once(own.clone()).chain(absolute.ancestors().skip(1).map(stem_of));
    names.find(|name| !is_generic(name)).unwrap_or(own)
}

fn is_generic(stem: &str) -> bool {
    let lower = stem.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphabetic());
    words.all(|word| word.is_empty() || GENERIC_WORDS.contains(&word))
}

/// Files that a message lists at most.
const LISTED_MAX: usize = 5;

/// That a profile does not exist, with the profiles of its folder.
pub(super) fn missing(file: &Path) -> Failure {
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let failure = Failure::new(format!("{} does not exist", file.display()));
    let profiles = profiles_beside(folder).unwrap_or_default();
    let mut names: Vec<String> = profiles.iter().map(|found| name(&found.path)).collect();
    let wanted = name(file);
    let near = near_names(&wanted, names.iter().map(String::as_str));
    let near: Vec<String> = near.into_iter().map(str::to_owned).collect();
    names.sort_by_key(|name| {
        near.iter()
            .position(|near| near == name)
            .unwrap_or(usize::MAX)
    });
    let more = names.len().saturating_sub(LISTED_MAX);
    names.truncate(LISTED_MAX);
    if names.is_empty() {
        return failure.hint(format!("{} holds no profile", folder.display()));
    }
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    failure.hint(format!(
        "profiles in {}: {}{more}",
        folder.display(),
        names.join(", ")
    ))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_after_what_says_most() {
        for (file, expected) in [
            ("/data/qwen_decode/trace.json.gz", "qwen_decode"),
            ("/data/tp4/traces/rank0.json", "tp4"),
            ("/data/tp4/rank_0_trace.pt.trace.json", "tp4"),
            ("/data/llama_prefill.json.gz", "llama_prefill"),
            ("/trace.json", "trace"),
            ("/data/.hidden/torch_full.json", "torch_full"),
        ] {
            assert_eq!(stem(Path::new(file)), expected, "{file}");
        }
    }
}
