//! Links of models and datasets to the storage of this host, as `bootstrap.yaml` files declare them.

mod datasets;
mod models;
mod roots;

use std::path::{Path, PathBuf};

use llmprof_units::path_text;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{AssetError, Changes, Result, Surroundings};

/// Name of the file that declares links.
pub const FILE: &str = "bootstrap.yaml";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootstrapPart {
    /// Links that the file `models/bootstrap.yaml` declares.
    Models,
    /// Links that the files `datasets/*/bootstrap.yaml` declare.
    Datasets,
    /// Both, as far as they are there.
    All,
}

/// One link, and what it should point at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Asset {
    /// What the link points at: `model` or `dataset`.
    pub kind: &'static str,
    /// The link, relative to the project.
    #[serde(serialize_with = "path_text::serialize")]
    pub link: PathBuf,
    /// What it should point at.
    #[serde(serialize_with = "path_text::serialize")]
    pub target: PathBuf,
    /// The commit, where the target is a snapshot of the hub's cache.
    pub revision: Option<String>,
}

/// What the files declare, and what is left to do.
#[derive(Default)]
pub struct Bootstrap {
    /// Every link that could be worked out.
    pub assets: Vec<Asset>,
    /// The changes that make the links, not applied yet.
    pub changes: Changes,
    /// What cannot be made; nothing else waits for it.
    pub problems: Vec<AssetError>,
}

impl Bootstrap {
    /// Takes over what one link needs, all of it or, where something is wrong with it, none.
    fn add_link(&mut self, plan_one: impl FnOnce(&mut Self) -> Result<()>) {
        let mut one = Self::default();
        match plan_one(&mut one) {
            Ok(()) => {
                self.assets.append(&mut one.assets);
                self.changes.extend(one.changes);
                self.problems.append(&mut one.problems);
            }
            Err(problem) => self.problems.push(problem),
        }
    }

    /// The changes, unless something cannot be made: then all of that.
    pub fn changes(self) -> Result<Changes> {
        let mut problems = self.problems;
        match problems.len() {
            0 => Ok(self.changes),
            1 => Err(problems.remove(0)),
            _ => Err(AssetError::Several(problems)),
        }
    }
}

/// Reads the files of a project and works out what is to be done. `names` are models and datasets; all where it is empty.
pub fn plan(
    project: &Path,
    part: BootstrapPart,
    names: &[String],
    surroundings: &Surroundings,
) -> Result<Bootstrap> {
    let mut plan = Bootstrap::default();
    let mut has_file = false;
    let mut known: Vec<String> = Vec::new();
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    if part != BootstrapPart::Models {
        for file in datasets::dataset_files(project)? {
            has_file = true;
            let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
            let name = folder.to_string_lossy().into_owned();
            if is_wanted(&name) {
                plan.add_link(|one| datasets::plan_dataset(project, &file, surroundings, one));
            }
            known.push(name);
        }
    }
    let file = project.join("models").join(FILE);
    if part != BootstrapPart::Datasets && file.is_file() {
        has_file = true;
        let mut own = Bootstrap::default();
        match models::plan_models(project, &file, &is_wanted, surroundings, &mut own) {
            Ok(names) => known.extend(names),
            Err(problem) => own.problems.push(problem),
        }
        plan.add_link(|one| {
            *one = own;
            Ok(())
        });
    }
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        let hint = if known.is_empty() {
            "models/bootstrap.yaml and datasets/NAME/bootstrap.yaml declare them; none of them does yet"
                .to_owned()
        } else {
            format!("declared: {}", known.join(", "))
        };
        return Err(AssetError::refused(
            format!(
                "no model or dataset `{unknown}` is declared in {}",
                project.display()
            ),
            &hint,
        ));
    }
    if !has_file {
        let looked = match part {
            BootstrapPart::Models => "models/bootstrap.yaml",
            BootstrapPart::Datasets => "datasets/*/bootstrap.yaml",
            BootstrapPart::All => "models/bootstrap.yaml or datasets/*/bootstrap.yaml",
        };
        return Err(AssetError::refused(
            format!("there is no {looked} in {}", project.display()),
            "`llmprof init DIR` makes a project; `llmprof dataset add` declares a dataset",
        ));
    }
    Ok(plan)
}

/// Files below `folder` that are not there, or are links to nothing.
fn check_required(folder: &Path, required: &[String]) -> Result<()> {
    let mut files = Vec::new();
    for name in required {
        let path = folder.join(name);
        if path.is_file() {
            continue;
        }
        files.push(match path.read_link() {
            Ok(target) => format!(
                "{name} (a link to {}, which is not there: the download did not finish)",
                target.display()
            ),
            Err(_) => name.clone(),
        });
    }
    if files.is_empty() {
        return Ok(());
    }
    Err(AssetError::MissingFiles {
        folder: folder.to_owned(),
        files,
    })
}

/// A name that is one plain part of a path.
fn plain_name<'a>(name: &'a str, key: &str, file: &Path) -> Result<&'a str> {
    let plain = !name.is_empty() && !name.contains(['/', '\\', '\0']) && !name.starts_with('.');
    if plain {
        return Ok(name);
    }
    Err(AssetError::bad(
        file,
        format!("`{key}`: `{name}` is not the name of a link"),
    ))
}
