//! Files of the Hugging Face hub, through the installed `hf`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use llmprof_units::hex_text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{External, ExternalAction, ExternalState, git, write_pin};
use crate::{AssetError, Change, Changes, Result, changes::make_folder, hub_cache::is_commit};

/// What was downloaded, so that edits show.
pub(super) const RECORD: &str = ".llmprof-snapshot.json";

/// Files downloaded from the Hugging Face hub.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HubSnapshot {
    /// Repository on the Hugging Face hub, as `owner/name`.
    pub(super) repo_id: String,
    /// Commit that the files were downloaded at.
    pub(super) revision: String,
    /// SHA-256 of each file as downloaded, by its path in the snapshot.
    pub(super) files: BTreeMap<String, String>,
}

impl HubSnapshot {
    pub(super) fn read_record(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(RECORD)).ok()?).ok()
    }

    /// Files that are not as they were downloaded.
    pub(super) fn list_edits(&self, folder: &Path) -> Vec<String> {
        let now = hash_files(folder).unwrap_or_default();
        let names = self.files.keys().chain(now.keys());
        let mut edited: Vec<String> = names
            .filter(|name| self.files.get(*name) != now.get(*name))
            .cloned()
            .collect();
        edited.sort();
        edited.dedup();
        edited
    }
}

pub(super) fn plan_snapshot(
    project: &Path,
    external: &External,
    state: &ExternalState,
    action: ExternalAction,
    changes: &mut Changes,
) {
    let pinned = external.revision.as_deref().filter(|pin| is_commit(pin));
    let is_there = state.found.is_some() && state.found.as_deref() == pinned;
    if is_there && action != ExternalAction::Update {
        return;
    }
    let repo_id = external.repo_id.clone().unwrap_or_default();
    let named = match (action, pinned) {
        (ExternalAction::Update, _) | (_, None) => {
            let named = external.revision.as_deref().filter(|name| !is_commit(name));
            external
                .branch
                .as_deref()
                .or(named)
                .unwrap_or("main")
                .to_owned()
        }
        (_, Some(pin)) => pin.to_owned(),
    };
    let folder = external.folder(project);
    let what = format!(
        "download {} of {repo_id} at {named} into {}/, and pin what comes",
        external.include.join(" and "),
        folder.display()
    );
    let (project, external) = (project.to_owned(), external.clone());
    changes.push(Change::new(what, move || {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let partial = folder.with_file_name(format!(".{name}.llmprof-partial"));
        let revision = download_snapshot(&external, &repo_id, &named, &partial)?;
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(AssetError::io("remove", &folder))?;
        }
        fs::rename(&partial, &folder).map_err(AssetError::io("create", &folder))?;
        let mut changes = Changes::default();
        if external.revision.as_deref() != Some(&revision) {
            write_pin(&project, &external, &revision, &mut changes);
        }
        changes.apply(|_| {})
    }));
}

/// Downloads into a folder; the commit that came. What an ended call left there may be of another commit, with files that this one
/// lacks: it goes first.
fn download_snapshot(
    external: &External,
    repo_id: &str,
    named: &str,
    partial: &Path,
) -> Result<String> {
    if partial.symlink_metadata().is_ok() {
        fs::remove_dir_all(partial).map_err(AssetError::io("remove", partial))?;
    }
    make_folder(partial)?;
    for pattern in &external.include {
        // One pattern a call: versions of `hf` differ in how they take several.
        let words = [
            "download",
            repo_id,
            "--revision",
            named,
            "--include",
            pattern,
            "--local-dir",
        ];
        let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
        words.push(partial.into());
        let output = git::run_program("hf", &words, partial, None)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.trim().lines().last().unwrap_or_default();
            return Err(AssetError::Tool {
                command: format!("hf download {repo_id}"),
                how: format!("{}: {last}", output.status),
                hint: None,
            });
        }
    }
    let metadata = partial.join(".cache/huggingface");
    let commits = noted_commits(&metadata.join("download"));
    let revision = match (commits.as_slice(), is_commit(named)) {
        ([commit], _) => commit.clone(),
        ([], true) => named.to_owned(),
        (other, _) => {
            return Err(AssetError::Tool {
                command: format!("hf download {repo_id}"),
                how: format!("its files are of {} commits", other.len()),
                hint: Some("pin a commit: `revision: COMMIT`".to_owned()),
            });
        }
    };
    let files = hash_files(partial)?;
    if files.is_empty() {
        return Err(AssetError::Tool {
            command: format!("hf download {repo_id}"),
            how: format!(
                "{named} has no file that {} name",
                external.include.join(", ")
            ),
            hint: Some("`include` in third_party/externals.yaml".to_owned()),
        });
    }
    if metadata.exists() {
        fs::remove_dir_all(&metadata).map_err(AssetError::io("remove", &metadata))?;
        let _ = fs::remove_dir(partial.join(".cache"));
    }
    let record = HubSnapshot {
        repo_id: repo_id.to_owned(),
        revision: revision.clone(),
        files,
    };
    let text = serde_json::to_string_pretty(&record).expect("a record has only string keys");
    let path = partial.join(RECORD);
    fs::write(&path, text + "\n").map_err(AssetError::io("write", &path))?;
    Ok(revision)
}

/// The commits that `hf` noted beside its files: the first line of each `.metadata`.
fn noted_commits(folder: &Path) -> Vec<String> {
    let mut commits: Vec<String> = walk_files(folder)
        .unwrap_or_default()
        .into_iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "metadata")
        })
        .filter_map(|path| {
            Some(
                fs::read_to_string(path)
                    .ok()?
                    .lines()
                    .next()?
                    .trim()
                    .to_owned(),
            )
        })
        .collect();
    commits.sort();
    commits.dedup();
    commits
}

/// Hashes of the files of a folder, without hidden ones.
fn hash_files(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut hashes = BTreeMap::new();
    for path in walk_files(folder)? {
        let name = path
            .strip_prefix(folder)
            .unwrap_or(&path)
            .to_string_lossy()
            .into_owned();
        if name.split('/').any(|part| part.starts_with('.')) {
            continue;
        }
        let bytes = fs::read(&path).map_err(AssetError::io("read", &path))?;
        hashes.insert(name, hex_text(&Sha256::digest(&bytes)));
    }
    Ok(hashes)
}

fn walk_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(AssetError::io("read", &folder))? {
            let path = entry.map_err(AssetError::io("read", &folder))?.path();
            if path.is_symlink() || path.is_file() {
                files.push(path);
            } else {
                folders.push(path);
            }
        }
    }
    Ok(files)
}
