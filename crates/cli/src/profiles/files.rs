//! What profiles are called, and where imports are written.

use std::path::{Path, PathBuf};

use llmprof_config::near_names::near_names;
use llmprof_record::{
    import::{FoundFiles, FoundProfile, profiles_beside, profiles_in},
    secrets::without_known,
    store::StoredRun,
};

use crate::{clock, failure::Failure, subject::RunSubject};

/// The name of a model that is read from a config.json and has no other.
const LOCAL_MODEL: &str = "local";

/// The profiles that a directory holds; `None` where it is read as one profile or holds none: a run, wire files and pages of Nsight Compute.
pub(crate) fn files_of_directory(directory: &Path) -> Option<FoundFiles> {
    if directory.join("run.json").exists() {
        return None;
    }
    let inside = profiles_in(directory).ok()?;
    let is_one = inside.profiles.is_empty() || inside.profiles.iter().any(FoundProfile::is_part);
    (!is_one).then_some(inside)
}

/// `runs/import/NAME/TIME`. The name is that of the model where it has one, else of the first file, else of its folder.
pub(crate) fn default_directory(files: &[PathBuf], subject: Option<&RunSubject>) -> PathBuf {
    let model = subject
        .filter(|subject| subject.name != LOCAL_MODEL)
        .and_then(|subject| folder_name(&subject.name));
    let of_file = || folder_name(&stem_of_all(files)?);
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

/// Words that name a kind of file and not what it is of; the last are of tables of `nsys stats`.
const GENERIC_WORDS: [&str; 26] = [
    "trace", "traces", "rank", "profile", "profiles", "profiler", "report", "timeline", "kineto",
    "chrome", "pt", "nsys", "ncu", "out", "stats", "summary", "cuda", "api", "gpu", "kern", "mem",
    "time", "size", "sum", "nvtx", "osrt",
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

/// What several profiles of one program are called: the words that their names begin with alike, else the first one's name.
fn stem_of_all(files: &[PathBuf]) -> Option<String> {
    let (first, others) = files.split_first()?;
    let own = stem(first);
    let is_end = |c: char| "-_.".contains(c);
    let mut common = own.clone();
    for other in others.iter().map(|other| stem(other)) {
        // A cut in the middle of a word leaves the words before it.
        let is_alike = |common: &str| {
            let rest = other.strip_prefix(common);
            rest.is_some_and(|rest| {
                common.is_empty() || rest.is_empty() || rest.starts_with(is_end)
            })
        };
        while !is_alike(&common) {
            common.truncate(common.rfind(is_end).unwrap_or(0));
        }
    }
    Some(if is_generic(&common) { own } else { common })
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
    let folder = folder_of(file);
    let profiles = profiles_beside(folder).unwrap_or_default();
    let names = profiles.iter().map(|profile| name(&profile.path)).collect();
    let hint = match nearest_first(&name(file), names) {
        Some(names) if folder == Path::new(".") => format!("profiles here: {names}"),
        Some(names) => format!("profiles in {}: {names}", folder.display()),
        None if folder == Path::new(".") => "the current directory holds no profile".to_owned(),
        None => format!("{} holds no profile", folder.display()),
    };
    does_not_exist(file).hint(hint)
}

/// That a run or a profile does not exist, with the runs of its folder, else its profiles.
pub(crate) fn missing_run(path: &Path) -> Failure {
    let entries = std::fs::read_dir(folder_of(path)).into_iter().flatten();
    let siblings = entries.flatten().map(|entry| entry.file_name());
    let siblings = siblings.map(|sibling| path.with_file_name(sibling));
    let runs = siblings.filter(|sibling| sibling.join("run.json").is_file());
    let runs = runs.map(|run| run.display().to_string()).collect();
    match nearest_first(&path.display().to_string(), runs) {
        Some(runs) => does_not_exist(path).hint(format!("runs there: {runs}")),
        None => missing(path),
    }
}

/// Opens a run that a command was given.
pub(crate) fn open_run(path: &Path) -> Result<StoredRun, Failure> {
    if path.exists() {
        Ok(StoredRun::open(path)?)
    } else {
        Err(missing_run(path))
    }
}

fn does_not_exist(path: &Path) -> Failure {
    Failure::new(format!("{} does not exist", path.display()))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The first of some names as a list.
pub(super) fn listed(mut names: Vec<String>) -> String {
    let more = match names.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(LISTED_MAX);
    names.join(", ") + &more
}

/// A few names as a list, those near `wanted` first; `None` of no names.
fn nearest_first(wanted: &str, mut names: Vec<String>) -> Option<String> {
    names.sort();
    let near = near_names(wanted, names.iter().map(String::as_str));
    let near: Vec<String> = near.into_iter().map(str::to_owned).collect();
    names.sort_by_key(|name| {
        let place = near.iter().position(|near| near == name);
        place.unwrap_or(usize::MAX)
    });
    (!names.is_empty()).then(|| listed(names))
}

/// The directory, or the first like it that is not there yet: two runs may begin in one microsecond.
pub(crate) fn free(dir: &Path) -> PathBuf {
    let mut candidate = dir.to_path_buf();
    let mut number = 2_u32;
    while candidate.exists() {
        let mut name = dir.as_os_str().to_owned();
        name.push(format!("-{number}"));
        candidate = name.into();
        number += 1;
    }
    candidate
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
        for (files, expected) in [
            (
                [
                    "/data/llama/stats_cuda_api_sum.csv",
                    "/data/llama/stats_cuda_gpu_kern_sum.csv",
                ],
                "llama",
            ),
            (
                [
                    "/data/llama7_cuda_api_sum.csv",
                    "/data/llama7_cuda_gpu_kern_sum.csv",
                ],
                "llama7_cuda",
            ),
            (["/data/decode_a.json", "/data/decode_ab.csv"], "decode"),
            (["/data/qwen.json", "/data/counters.csv"], "qwen"),
        ] {
            let files = files.map(PathBuf::from);
            assert_eq!(stem_of_all(&files).as_deref(), Some(expected), "{files:?}");
        }
    }
}
