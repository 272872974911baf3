use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use llmprof_units::bounded_file::{CONFIG_MAX_BYTES, read_text_bounded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FILE, FOLDER};
use crate::{AssetError, Result, changes::replace_file, document};

/// How an external is put below `third_party/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExternalKind {
    /// A git submodule, which `.gitmodules` lists.
    Submodule,
    /// A squashed git subtree: ordinary files of the project.
    Subtree,
    /// A clone of which only some folders are checked out; not part of the project's history.
    Sparse,
    /// A link to a checkout of this host.
    Symlink,
    /// Files of a repository of the Hugging Face hub.
    Hub,
}

/// An external source tree, as the manifest declares it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct External {
    /// Where it is below `third_party/`.
    pub path: String,
    pub kind: ExternalKind,
    /// The repository, for submodule, subtree and sparse.
    #[serde(default)]
    pub url: Option<String>,
    /// The commit. A branch or tag, or nothing, is replaced by its commit.
    #[serde(default)]
    pub revision: Option<String>,
    /// The branch that `update` follows; the repository's own default where absent.
    #[serde(default)]
    pub branch: Option<String>,
    /// Commits of history that are fetched; all where absent.
    #[serde(default)]
    pub depth: Option<u32>,
    /// Value of `submodule.NAME.ignore` in git's configuration; submodules only.
    #[serde(default = "dirty")]
    pub ignore: String,
    /// Value of `submodule.NAME.update` in git's configuration; submodules only.
    #[serde(default = "none")]
    pub update: String,
    /// Folders that a sparse checkout has.
    #[serde(default)]
    pub paths: Vec<String>,
    /// What a symlink points at.
    #[serde(default)]
    pub target: Option<String>,
    /// Repository on the hub as `ORG/NAME`; for kind `hub`.
    #[serde(default)]
    pub repo_id: Option<String>,
    /// Files that are taken from the hub.
    #[serde(default = "sources")]
    pub include: Vec<String>,
}

fn dirty() -> String {
    "dirty".to_owned()
}

fn none() -> String {
    "none".to_owned()
}

fn sources() -> Vec<String> {
    vec!["*.py".to_owned(), "LICENSE*".to_owned()]
}

impl External {
    pub fn folder(&self, project: &Path) -> PathBuf {
        project.join(FOLDER).join(&self.path)
    }

    fn check_external(&self, file: &Path) -> Result<()> {
        let bad = |message: String| AssetError::bad(file, format!("{}: {message}", self.path));
        let plain = Path::new(&self.path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if self.path.is_empty() || !plain || self.path.starts_with(['.', '-']) {
            return Err(bad("`path` is not a folder below third_party/".to_owned()));
        }
        let needs: &[(&str, bool)] = match self.kind {
            ExternalKind::Submodule | ExternalKind::Subtree => &[("url", self.url.is_some())],
            ExternalKind::Sparse => &[
                ("url", self.url.is_some()),
                ("paths", !self.paths.is_empty()),
            ],
            ExternalKind::Symlink => &[("target", self.target.is_some())],
            ExternalKind::Hub => &[
                ("repo_id", self.repo_id.is_some()),
                ("include", !self.include.is_empty()),
            ],
        };
        if let Some((key, _)) = needs.iter().find(|(_, there)| !there) {
            return Err(bad(format!("there is no `{key}`")));
        }
        let words = [
            &self.url,
            &self.revision,
            &self.branch,
            &self.target,
            &self.repo_id,
        ];
        let option = words
            .into_iter()
            .flatten()
            .chain(&self.paths)
            .chain(&self.include);
        if let Some(word) = option
            .into_iter()
            .find(|word| word.starts_with('-') || word.is_empty())
        {
            return Err(bad(format!("`{word}` would be read as an option")));
        }
        let known = [
            (
                "ignore",
                &self.ignore,
                &["all", "dirty", "untracked", "none"][..],
            ),
            (
                "update",
                &self.update,
                &["checkout", "rebase", "merge", "none"][..],
            ),
        ];
        for (key, value, allowed) in known {
            if !allowed.contains(&value.as_str()) {
                return Err(bad(format!("`{key}` is one of {}", allowed.join(", "))));
            }
        }
        if self.depth == Some(0) {
            return Err(bad("`depth` is at least 1".to_owned()));
        }
        Ok(())
    }
}

/// The file `third_party/externals.yaml`, which declares all externals.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalManifest {
    /// All externals, in the order of the file.
    #[serde(default)]
    pub externals: Vec<External>,
}

/// Marks the lines of `third_party/.gitignore` that belong to llmprof.
const BEGIN: &str =
    "# llmprof: not part of the project's history; `llmprof externals init` makes them.";
const END: &str = "# llmprof: end";

impl ExternalManifest {
    /// Reads the file of a project.
    pub fn load(project: &Path) -> Result<Self> {
        let path = project.join(FOLDER).join(FILE);
        if !path.is_file() {
            return Err(AssetError::refused(
                format!("there is no {}", path.display()),
                "`llmprof init DIR` makes a project with one",
            ));
        }
        let manifest: Self = document::read_document(&path)?;
        for (number, external) in manifest.externals.iter().enumerate() {
            external.check_external(&path)?;
            let mut before = manifest.externals[..number].iter();
            if let Some(other) = before.find(|other| {
                Path::new(&other.path).starts_with(&external.path)
                    || Path::new(&external.path).starts_with(&other.path)
            }) {
                return Err(AssetError::bad(
                    &path,
                    format!("`{}` and `{}` are in one place", other.path, external.path),
                ));
            }
        }
        Ok(manifest)
    }

    /// The externals of these paths; all where none is named.
    pub fn chosen(&self, paths: &[String]) -> Result<Vec<&External>> {
        let name = |path: &String| {
            let path = path.trim_end_matches('/');
            path.strip_prefix("third_party/").unwrap_or(path).to_owned()
        };
        for path in paths {
            if !self
                .externals
                .iter()
                .any(|external| external.path == name(path))
            {
                return Err(AssetError::Unknown {
                    what: "external",
                    name: path.clone(),
                    known: self
                        .externals
                        .iter()
                        .map(|external| external.path.clone())
                        .collect(),
                });
            }
        }
        let chosen = |external: &&External| {
            paths.is_empty() || paths.iter().any(|path| name(path) == external.path)
        };
        Ok(self.externals.iter().filter(chosen).collect())
    }

    /// `third_party/.gitignore` with the lines of those that are not committed; other lines stay.
    pub(crate) fn ignored(&self, file: &Path) -> String {
        let before = fs::read_to_string(file).unwrap_or_default();
        let mut text = match before.split_once(BEGIN) {
            Some((head, tail)) => {
                let tail = tail.split_once(END).map_or("", |(_, tail)| tail);
                format!("{head}{}", tail.trim_start_matches('\n'))
            }
            None => before,
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text += &format!("{BEGIN}\n.*.llmprof-partial/\n");
        for external in &self.externals {
            if matches!(
                external.kind,
                ExternalKind::Sparse | ExternalKind::Symlink | ExternalKind::Hub
            ) {
                text += &format!("/{}\n", external.path);
            }
        }
        text + END + "\n"
    }
}

/// Sets the revision of one external in the file's text; everything else stays, comments too.
pub(super) fn pin_revision(file: &Path, path: &str, revision: &str) -> Result<()> {
    let text = read_text_bounded(file, CONFIG_MAX_BYTES).map_err(AssetError::io("read", file))?;
    let text = with_pin(file, &text, path, revision)?;
    replace_file(file, text.as_bytes())
}

fn with_pin(file: &Path, text: &str, path: &str, revision: &str) -> Result<String> {
    let gone = || AssetError::bad(file, format!("there is no external `{path}` any more"));
    let tree = document::read_tree(file)?;
    let list = tree.get("externals").and_then(|list| list.as_list());
    let entry = list
        .into_iter()
        .flatten()
        .find(|entry| entry.get("path").and_then(|name| name.as_str()) == Some(path))
        .ok_or_else(gone)?;
    let span = |key: &str| {
        let node = entry.get(key)?;
        node.origin
            .as_ref()
            .map(llmprof_config::source::SourceSpan::span)
    };
    if let Some(old) = span("revision") {
        // `revision:` with nothing behind it has no text to replace.
        let separator = if old.is_empty() { " " } else { "" };
        return Ok(format!(
            "{}{separator}{revision}{}",
            &text[..old.start],
            &text[old.end..]
        ));
    }
    let named = span("path").ok_or_else(gone)?;
    let line_start = text[..named.start].rfind('\n').map_or(0, |at| at + 1);
    let key = &text[line_start..named.start];
    if key.contains('{') {
        return Ok(format!(
            "{}, revision: {revision}{}",
            &text[..named.end],
            &text[named.end..]
        ));
    }
    let indent = key.find("path").unwrap_or(0);
    let line_end = text[named.end..]
        .find('\n')
        .map_or(text.len(), |at| named.end + at);
    Ok(format!(
        "{}\n{}revision: {revision}{}",
        &text[..line_end],
        " ".repeat(indent),
        &text[line_end..]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: &str = "0123456789012345678901234567890123456789";

    #[test]
    fn a_pin_changes_its_place_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        let cases = [
            (
                "# all\nexternals:\n  - path: a  # first\n    kind: hub\n    repo_id: x/y\n    revision: main  # follows\n  - path: b\n    kind: hub\n    repo_id: x/z\n",
                "a",
                format!(
                    "# all\nexternals:\n  - path: a  # first\n    kind: hub\n    repo_id: x/y\n    revision: {PIN}  # follows\n  - path: b\n    kind: hub\n    repo_id: x/z\n"
                ),
            ),
            (
                "externals:\n- kind: hub\n  path: 'b'\n  repo_id: x/z",
                "b",
                format!("externals:\n- kind: hub\n  path: 'b'\n  revision: {PIN}\n  repo_id: x/z"),
            ),
            (
                "externals: [{path: b, kind: hub, repo_id: x/z}]\n",
                "b",
                format!("externals: [{{path: b, revision: {PIN}, kind: hub, repo_id: x/z}}]\n"),
            ),
        ];
        for (before, path, after) in cases {
            fs::write(&file, before).unwrap();
            pin_revision(&file, path, PIN).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), after);
            let manifest: ExternalManifest = document::read_document(&file).unwrap();
            let external = manifest
                .externals
                .iter()
                .find(|external| external.path == path);
            assert_eq!(external.unwrap().revision.as_deref(), Some(PIN));
        }
        assert!(pin_revision(&file, "absent", PIN).is_err());
    }

    #[test]
    fn mistakes_name_the_external() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(FOLDER)).unwrap();
        let file = folder.path().join(FOLDER).join(FILE);
        let cases = [
            (
                "{path: ../x, kind: hub, repo_id: a/b}",
                "below third_party/",
            ),
            ("{path: /x, kind: hub, repo_id: a/b}", "below third_party/"),
            ("{path: x, kind: hub}", "repo_id"),
            ("{path: x, kind: sparse, url: u}", "paths"),
            (
                "{path: x, kind: submodule, url: --upload-pack=evil}",
                "option",
            ),
            (
                "{path: x, kind: submodule, url: u, ignore: never}",
                "ignore",
            ),
            ("{path: x, kind: submodule, url: u, depth: 0}", "depth"),
            ("{path: x, kind: other}", "unknown variant"),
            ("{path: x, kind: hub, repo_id: a/b, typo: 1}", "typo"),
            (
                "{path: x, kind: hub, repo_id: a/b}, {path: x/y, kind: hub, repo_id: a/b}",
                "one place",
            ),
        ];
        for (entry, expected) in cases {
            fs::write(&file, format!("externals: [{entry}]\n")).unwrap();
            let error = ExternalManifest::load(folder.path())
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{entry}: {error}");
        }
    }
}
