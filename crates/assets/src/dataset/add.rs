use std::path::{Path, PathBuf};

use serde_json::json;

use super::{
    ANALYSIS, Dataset, METADATA, SOURCE, check_name, readme, sample_page,
    samples::DatasetSamples,
    statistics::{self, Statistics},
};
use crate::{AssetError, Change, Changes, Result, document, link};

/// A dataset that a project is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDataset {
    /// Its name in the project.
    pub name: String,
    /// The folder with the data as it came.
    pub source: PathBuf,
    pub url: Option<String>,
    pub license: Option<String>,
    pub version: Option<String>,
}

/// Works out what makes a dataset part of the project: the link, facts, README, the way other hosts find it, its config.
pub fn add(project: &Path, new: &NewDataset) -> Result<Changes> {
    check_name(&new.name, "dataset")?;
    let source = new
        .source
        .canonicalize()
        .map_err(AssetError::io("find", &new.source))?;
    let inside = project
        .canonicalize()
        .map_err(AssetError::io("find", project))?;
    if source.starts_with(&inside) {
        return Err(AssetError::refused(
            format!(
                "{} is inside {}, the folder of the project",
                source.display(),
                inside.display()
            ),
            "data are kept outside of the project and linked; move it, or make it a variant",
        ));
    }
    let name = &new.name;
    let dataset = Dataset {
        name: name.clone(),
        folder: project.join("datasets").join(name),
    };
    let mut changes = Changes::default();
    changes.folder(&dataset.folder);
    link::plan_link(
        project,
        &dataset.source(),
        &source,
        "--source DIR",
        &mut changes,
    )?;
    let (root, folder) = (source.parent().unwrap_or(&source), source.file_name());
    let bootstrap = format!(
        "# How this dataset is found on another host: `llmprof bootstrap datasets`.\n\
         env:\n  # The variable that names the folder with all datasets…\n  data_root_env: DATASETS_ROOT\n  \
         # …and what it is where that is not set.\n  default_data_root: {}\n\
         dataset:\n  source_subdir: {}\n  repo_link_name: {SOURCE}\n",
        json!(root),
        json!(folder.map(|name| name.to_string_lossy()))
    );
    changes.new_file(&dataset.folder.join(crate::bootstrap::FILE), bootstrap);
    let script = format!(
        "#!/bin/sh\n# The link of this dataset: datasets/{name}/bootstrap.sh --yes\n\
         cd \"$(dirname \"$0\")/../..\" && exec llmprof bootstrap {name} \"$@\"\n"
    );
    changes.new_script(&dataset.folder.join("bootstrap.sh"), &script);
    let mut facts = json!({"name": name});
    let url = new.url.as_deref().unwrap_or("unknown");
    for (key, value) in [
        ("version", &new.version),
        ("source", &new.url),
        ("license", &new.license),
    ] {
        if let Some(value) = value {
            facts[key] = json!(value);
        }
    }
    facts["notes"] = json!("source-data is read-only; prepared data are variants beside it.");
    changes.new_file(&dataset.folder.join(METADATA), document::to_yaml(&facts));
    let config = format!(
        "# {name}, as `datasets/{name}` has it: `llmprof run dataset={name}`.\n\
         defaults:\n  - text\n  - _self_\nname: {name}\nroot: ${{hydra:runtime.cwd}}/datasets/{name}/{SOURCE}\n"
    );
    changes.new_file(
        &project.join("conf/dataset").join(format!("{name}.yaml")),
        config,
    );
    let samples = DatasetSamples::find_below(&source)?;
    let statistics = Statistics::of_samples(&samples)?;
    changes.own_file(
        &dataset.folder.join(ANALYSIS).join(statistics::FILE),
        statistics::with_part(&dataset.folder, SOURCE, &statistics),
    );
    sample_page::put_page(&dataset, SOURCE, (&source, &samples), &mut changes)?;
    describe_dataset(
        &dataset,
        url,
        new.license.as_deref().unwrap_or("unknown"),
        &mut changes,
    )?;
    Ok(changes)
}

/// The README shows what the link leads to, so it is written when the link is there.
fn describe_dataset(
    dataset: &Dataset,
    url: &str,
    license: &str,
    changes: &mut Changes,
) -> Result<()> {
    let path = dataset.folder.join("README.md");
    if path.symlink_metadata().is_ok() {
        if dataset.source().is_dir() {
            readme::refresh_readme(dataset, changes)?;
        }
        return Ok(());
    }
    let (dataset, url, license) = (dataset.clone(), url.to_owned(), license.to_owned());
    changes.push(Change::new(
        format!("create {}", path.display()),
        move || {
            let mut changes = Changes::default();
            changes.new_file(&path, readme::new(&dataset, &url, &license)?);
            changes.apply(|_| {})
        },
    ));
    Ok(())
}
