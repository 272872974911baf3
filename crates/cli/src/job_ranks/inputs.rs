//! Which files an import is given: files, patterns that no shell expanded, folders of timelines, lists.

use std::path::{Path, PathBuf};

use llmprof_units::bounded_file::{CONFIG_MAX_BYTES, read_named_text};

use crate::{
    failure::Failure,
    profiles::{FoundInputs, files::files_of_directory},
};

/// Files that one import takes: more than any job has ranks.
const FILES_MAX: usize = 100_000;

/// The files behind some words, in the order of the words, those of one word by name.
pub(crate) fn expand(words: &[PathBuf]) -> Result<FoundInputs, Failure> {
    let mut inputs = FoundInputs::default();
    let files = &mut inputs.files;
    for word in words {
        let text = word.to_string_lossy();
        if let Some(list) = text.strip_prefix('@').filter(|_| !word.exists()) {
            files.extend(read_list(Path::new(list))?);
        } else if !word.exists() && text.contains(['*', '?']) {
            files.extend(matching(&text)?);
        } else if let Some(of_directory) = files_of_directory(word) {
            let profiles = of_directory.profiles.into_iter().map(|one| one.path);
            let profiles: Vec<PathBuf> = profiles.collect();
            inputs.searched.extend(profiles.iter().cloned());
            files.extend(profiles);
            inputs.others.extend(of_directory.others);
        } else {
            files.push(word.clone());
        }
        if files.len() > FILES_MAX {
            return Err(Failure::new(format!(
                "{}: more than {FILES_MAX} files",
                word.display()
            )));
        }
    }
    Ok(inputs)
}

/// One path a line, relative to the list.
fn read_list(list: &Path) -> Result<Vec<PathBuf>, Failure> {
    let text = read_named_text(list, CONFIG_MAX_BYTES)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", list.display())))?;
    let base = list.parent().unwrap_or(Path::new(""));
    let lines = text.lines().map(str::trim);
    let paths: Vec<PathBuf> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| base.join(line))
        .collect();
    if paths.is_empty() {
        return Err(Failure::new(format!("{} lists no file", list.display())));
    }
    Ok(paths)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed =
        |error: std::io::Error| Failure::new(format!("cannot read {}: {error}", folder.display()));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Paths that match a pattern with `*` and `?` in any of its parts.
fn matching(pattern: &str) -> Result<Vec<PathBuf>, Failure> {
    let root = if pattern.starts_with('/') { "/" } else { "" };
    let mut paths = vec![PathBuf::from(root)];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for folder in paths {
            if !part.contains(['*', '?']) {
                next.push(folder.join(part));
                continue;
            }
            let here = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                &folder
            };
            if !here.is_dir() {
                continue;
            }
            for path in entries(here)? {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let is_hidden = name.starts_with('.') && !part.starts_with('.');
                if !is_hidden && matches(part.as_bytes(), name.as_bytes()) {
                    next.push(folder.join(&*name));
                }
            }
        }
        paths = next;
    }
    paths.retain(|path| path.exists());
    if paths.is_empty() {
        return Err(Failure::new(format!("no file matches {pattern}")));
    }
    Ok(paths)
}

/// Whether a name matches a pattern: `*` stands for any text, `?` for one byte.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[place] => {
                at += 1;
                place += 1;
            }
            _ => match star {
                Some((back, from)) => {
                    star = Some((back, from + 1));
                    at = back + 1;
                    place = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, is_match) in [
            ("rank*.json", "rank12.json", true),
            ("rank*.json", "rank12.json.gz", false),
            ("rank?.json", "rank1.json", true),
            ("rank?.json", "rank12.json", false),
            ("*a*b", "xaxbxb", true),
            ("*", "", true),
            ("a", "", false),
        ] {
            let is_matched = matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(is_matched, is_match, "{pattern} {name}");
        }
    }

    #[test]
    fn words_become_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["rank1.json", "rank0.json"] {
            std::fs::write(at(name), r#"{"traceEvents": []}"#).unwrap();
        }
        std::fs::write(at("other.json"), "{}").unwrap();
        std::fs::write(at("list"), "# ranks\nrank0.json\n\nrank1.json\n").unwrap();
        let both = [at("rank0.json"), at("rank1.json")];
        let list = PathBuf::from(format!("@{}", at("list").display()));
        for word in [at("rank*.json"), folder.path().to_owned(), list] {
            let inputs = expand(std::slice::from_ref(&word)).unwrap();
            assert_eq!(inputs.files, both, "{word:?}");
            let is_folder = word == folder.path();
            assert_eq!(inputs.searched.len(), if is_folder { 2 } else { 0 });
            let others = if is_folder {
                vec![at("list"), at("other.json")]
            } else {
                Vec::new()
            };
            assert_eq!(inputs.others, others, "{word:?}");
        }
        assert_eq!(expand(&[at("absent")]).unwrap().files, [at("absent")]);
        assert!(expand(&[at("no*")]).is_err());
    }
}
