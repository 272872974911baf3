use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use llmprof_units::Bytes;
use serde::Deserialize;

use super::{
    Asset, Bootstrap, FILE, check_required, plain_name,
    roots::{LinkTarget, Lookup, home_folder},
};
use crate::{AssetError, Change, RepoKind, Result, Surroundings, archive, document, link};

/// The file `datasets/NAME/bootstrap.yaml`, which names one dataset.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DatasetBootstrap {
    #[serde(default)]
    env: DatasetEnv,
    dataset: DatasetLink,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DatasetEnv {
    #[serde(default)]
    data_root_env: Option<String>,
    #[serde(default)]
    default_data_root: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DatasetLink {
    #[serde(default)]
    source_subdir: Option<String>,
    #[serde(default)]
    repo_id: Option<String>,
    #[serde(default)]
    revision: Option<String>,
    #[serde(default = "source_data")]
    repo_link_name: String,
    #[serde(default)]
    required_files: Vec<String>,
    #[serde(default)]
    zips: Vec<String>,
    #[serde(default)]
    unzip_targets: BTreeMap<String, String>,
    /// Bytes that the files of one archive may have together.
    #[serde(default)]
    max_unzipped_bytes: Option<u64>,
}

fn source_data() -> String {
    crate::dataset::SOURCE.to_owned()
}

/// The files of a project's datasets, by name.
pub(super) fn dataset_files(project: &Path) -> Result<Vec<PathBuf>> {
    let folder = project.join("datasets");
    let mut files = Vec::new();
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(files),
        Err(error) => return Err(AssetError::io("read", &folder)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(AssetError::io("read", &folder))?;
        let file = entry.path().join(FILE);
        if file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn plan_dataset(
    project: &Path,
    path: &Path,
    surroundings: &Surroundings,
    plan: &mut Bootstrap,
) -> Result<()> {
    let DatasetBootstrap { env, dataset } = document::read_document(path)?;
    let lookup = Lookup::new(
        env.data_root_env.as_deref(),
        &["DATASETS_ROOT"],
        env.default_data_root.as_deref(),
        home_folder(surroundings).join("datasets"),
    );
    let root = lookup.find_root(surroundings, path)?;
    let place = LinkTarget {
        kind: RepoKind::Dataset,
        source_subdir: dataset.source_subdir.as_deref(),
        repo_id: dataset.repo_id.as_deref(),
        revision: dataset.revision.as_deref(),
    };
    let (target, revision) = place.find_folder(&root.path, path)?;
    let name = plain_name(&dataset.repo_link_name, "dataset.repo_link_name", path)?;
    let folder = path.parent().unwrap_or(project);
    let link = folder.join(name);
    let hint = format!(
        "{}, so datasets are looked for in {}; set ${} to the folder that has them",
        root.from,
        root.path.display(),
        env.data_root_env.as_deref().unwrap_or("DATASETS_ROOT")
    );
    link::plan_link(project, &link, &target, &hint, &mut plan.changes)?;
    plan_archives(&dataset, &target, path, plan)?;
    check_required(&target, &dataset.required_files)?;
    plan.assets.push(Asset {
        kind: "dataset",
        link: link.strip_prefix(project).unwrap_or(&link).to_owned(),
        target,
        revision,
    });
    Ok(())
}

/// Archives whose folders are missing or empty. They are extracted beside the archive, as the schema has it.
fn plan_archives(
    dataset: &DatasetLink,
    target: &Path,
    file: &Path,
    plan: &mut Bootstrap,
) -> Result<()> {
    let unknown = dataset
        .unzip_targets
        .keys()
        .find(|name| !dataset.zips.contains(name));
    if let Some(name) = unknown {
        return Err(AssetError::bad(
            file,
            format!("`dataset.unzip_targets`: `{name}` is not one of `dataset.zips`"),
        ));
    }
    let bound = dataset
        .max_unzipped_bytes
        .map_or(archive::DEFAULT_BOUND, Bytes);
    for zip in &dataset.zips {
        plain_name(zip, "dataset.zips", file)?;
        let stem = zip.strip_suffix(".zip").unwrap_or(zip);
        let folder = dataset.unzip_targets.get(zip).map_or(stem, String::as_str);
        let into = target.join(plain_name(folder, "dataset.unzip_targets", file)?);
        if !archive::is_needed(&into) {
            continue;
        }
        let path = target.join(zip);
        if !path.is_file() {
            return Err(AssetError::MissingFiles {
                folder: target.to_owned(),
                files: vec![format!("{zip} (and {folder}/ is missing or empty)")],
            });
        }
        let size = archive::check_archive(&path, bound)?;
        let what = format!(
            "extract {} into {}/ ({size})",
            path.display(),
            into.display()
        );
        plan.changes.push(Change::new(what, move || {
            archive::extract_archive(&path, &into, bound)
        }));
    }
    Ok(())
}
