//! Places configs come from: directories, trees inside the binary, and trees that are not there.

use std::path::{Path, PathBuf};

use super::error::Error;

/// A tree of config files held in memory: slash-separated paths with their text.
pub type FileTree = &'static [(&'static str, &'static str)];

/// Where a config source points, in the form Hydra records under `hydra.runtime.config_sources`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceInfo {
    /// Who put the source on the search path (`hydra`, `main`, `command-line`, …).
    pub provider: String,
    pub scheme: String,
    pub path: String,
}

impl std::fmt::Display for SourceInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "provider={}, path={}://{}",
            self.provider, self.scheme, self.path
        )
    }
}

/// What a listing of a group should contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    Configs,
    Groups,
}

#[derive(Debug, Clone)]
enum SourceLocation {
    Directory(PathBuf),
    Files(FileTree),
    /// A package that does not exist here: Hydra warns and goes on.
    Absent,
}

/// One element of the search path, ready to be read.
#[derive(Debug, Clone)]
pub(crate) struct ConfigSource {
    info: SourceInfo,
    place: SourceLocation,
}

impl ConfigSource {
    /// A directory; `path` is kept as written, and read relative to `cwd`.
    pub(crate) fn directory(provider: &str, path: &str, cwd: &Path) -> Self {
        Self::new(
            provider,
            "file",
            path,
            SourceLocation::Directory(cwd.join(if path.is_empty() { "." } else { path })),
        )
    }

    /// A tree held in memory under a scheme and a name.
    pub(crate) fn files(provider: &str, scheme: &str, path: &str, files: FileTree) -> Self {
        Self::new(provider, scheme, path, SourceLocation::Files(files))
    }

    /// A package that is not available.
    pub(crate) fn unavailable(provider: &str, scheme: &str, path: &str) -> Self {
        Self::new(provider, scheme, path, SourceLocation::Absent)
    }

    fn new(provider: &str, scheme: &str, path: &str, place: SourceLocation) -> Self {
        Self {
            info: SourceInfo {
                provider: provider.to_owned(),
                scheme: scheme.to_owned(),
                path: path.to_owned(),
            },
            place,
        }
    }

    pub(crate) fn info(&self) -> &SourceInfo {
        &self.info
    }

    /// Whether this is the store of Hydra's own typed configs, which is always last.
    pub(crate) fn is_schema(&self) -> bool {
        self.info.provider == "schema"
    }

    /// Whether the source points at something that exists.
    pub(crate) fn is_available(&self) -> bool {
        match &self.place {
            SourceLocation::Directory(root) => root.is_dir(),
            SourceLocation::Files(_) => true,
            SourceLocation::Absent => false,
        }
    }

    /// Whether `path` names a group (a directory) here.
    pub(crate) fn is_group(&self, path: &str) -> bool {
        match &self.place {
            SourceLocation::Directory(root) => root.join(path).is_dir(),
            SourceLocation::Files(files) => {
                let prefix = normalize_path(path);
                prefix.is_empty()
                    || files
                        .iter()
                        .any(|(file, _)| strip_group(file, &prefix).is_some())
            }
            SourceLocation::Absent => false,
        }
    }

    /// Whether `path`, with or without `.yaml`, names a config here.
    pub(crate) fn is_config(&self, path: &str) -> bool {
        let path = file_name(path);
        match &self.place {
            SourceLocation::Directory(root) => root.join(path).is_file(),
            SourceLocation::Files(files) => {
                let path = normalize_path(&path);
                files.iter().any(|(file, _)| *file == path)
            }
            SourceLocation::Absent => false,
        }
    }

    /// The text of a config and the name of its file for messages; `None` when it is not here.
    pub(crate) fn read_config(&self, path: &str) -> Result<Option<(String, String)>, Error> {
        let path = file_name(path);
        match &self.place {
            SourceLocation::Directory(root) => {
                let file = root.join(&path);
                if !file.is_file() {
                    return Ok(None);
                }
                let text = std::fs::read(&file)
                    .map_err(|error| error.to_string())
                    .and_then(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()))
                    .map_err(|reason| Error::Unreadable {
                        file: file.display().to_string(),
                        reason,
                    })?;
                Ok(Some((text, file.display().to_string())))
            }
            SourceLocation::Files(files) => {
                let path = normalize_path(&path);
                Ok(files
                    .iter()
                    .find(|(file, _)| *file == path)
                    .map(|(file, text)| {
                        let name = format!("{}://{}/{file}", self.info.scheme, self.info.path);
                        ((*text).to_owned(), name)
                    }))
            }
            SourceLocation::Absent => Ok(None),
        }
    }

    /// Names of the configs (without `.yaml`) or groups directly under `group`, unsorted.
    pub(crate) fn list_names(&self, group: &str, listing: Listing) -> Vec<String> {
        match &self.place {
            SourceLocation::Directory(root) => list_directory(&root.join(group), listing),
            SourceLocation::Files(files) => {
                let prefix = normalize_path(group);
                files
                    .iter()
                    .filter_map(|(file, _)| strip_group(file, &prefix))
                    .filter_map(|rest| match (rest.split_once('/'), listing) {
                        (Some((directory, _)), Listing::Groups) => Some(directory.to_owned()),
                        (None, Listing::Configs) => rest.strip_suffix(".yaml").map(str::to_owned),
                        _ => None,
                    })
                    .collect()
            }
            SourceLocation::Absent => Vec::new(),
        }
    }
}

fn list_directory(directory: &Path, listing: Listing) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_str()?.to_owned();
            match listing {
                Listing::Groups => (entry.path().is_dir() && name != "__pycache__").then_some(name),
                Listing::Configs => {
                    let stem = name.strip_suffix(".yaml")?;
                    entry.path().is_file().then(|| stem.to_owned())
                }
            }
        })
        .collect()
}

fn file_name(path: &str) -> String {
    match path.strip_suffix(".yaml") {
        Some(_) => path.to_owned(),
        None => format!("{path}.yaml"),
    }
}

/// Resolves `.`, `..` and repeated slashes, which the file system does for directories.
fn normalize_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn strip_group<'a>(file: &'a str, group: &str) -> Option<&'a str> {
    if group.is_empty() {
        Some(file)
    } else {
        file.strip_prefix(group)?.strip_prefix('/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: FileTree = &[
        ("config.yaml", "a: 1"),
        ("db/mysql.yaml", "host: x"),
        ("db/engine/v1.yaml", ""),
        ("db/torch.default.yaml", ""),
    ];

    #[test]
    fn lists_configs_and_groups_of_a_tree_in_memory() {
        let source = ConfigSource::files("llmprof", "pkg", "llmprof.conf", TREE);
        assert_eq!(source.list_names("", Listing::Groups), ["db", "db", "db"]);
        assert_eq!(
            source.list_names("db", Listing::Configs),
            ["mysql", "torch.default"]
        );
        assert_eq!(source.list_names("db/", Listing::Groups), ["engine"]);
        assert!(source.is_config("db/torch.default"));
        assert!(source.is_config("db/engine/../mysql.yaml"));
        assert!(!source.is_group("d"));
    }
}
