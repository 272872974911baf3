use std::path::Path;

use serde::Deserialize;

use super::{
    Asset, Bootstrap, check_required, plain_name,
    roots::{LinkTarget, Lookup, hub_cache},
};
use crate::{RepoKind, Result, Surroundings, document, link};

/// `models/bootstrap.yaml`: one `model`, or a list of `models`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelBootstrap {
    #[serde(default)]
    env: ModelEnv,
    #[serde(default)]
    model: Option<ModelLink>,
    #[serde(default)]
    models: Vec<ModelLink>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelEnv {
    #[serde(default)]
    model_root_env: Option<String>,
    #[serde(default)]
    default_model_root: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelLink {
    #[serde(default)]
    source_subdir: Option<String>,
    #[serde(default)]
    repo_id: Option<String>,
    #[serde(default)]
    revision: Option<String>,
    repo_link_name: String,
    #[serde(default)]
    required_files: Vec<String>,
}

/// Plans the wanted models; the answer is the names of all that are declared.
pub(super) fn plan_models(
    project: &Path,
    path: &Path,
    is_wanted: &dyn Fn(&str) -> bool,
    surroundings: &Surroundings,
    plan: &mut Bootstrap,
) -> Result<Vec<String>> {
    let file: ModelBootstrap = document::read_document(path)?;
    let lookup = Lookup::new(
        file.env.model_root_env.as_deref(),
        &["HF_SNAPSHOTS_ROOT", "MODELS_ROOT"],
        file.env.default_model_root.as_deref(),
        hub_cache(surroundings),
    );
    let root = lookup.find_root(surroundings, path)?;
    let entries: Vec<&ModelLink> = file.model.iter().chain(&file.models).collect();
    for entry in &entries {
        if !is_wanted(&entry.repo_link_name) {
            continue;
        }
        plan.add_link(|plan| {
            let name = plain_name(&entry.repo_link_name, "repo_link_name", path)?;
            let place = LinkTarget {
                kind: RepoKind::Model,
                source_subdir: entry.source_subdir.as_deref(),
                repo_id: entry.repo_id.as_deref(),
                revision: entry.revision.as_deref(),
            };
            let (target, revision) = place.find_folder(&root.path, path)?;
            let link = project.join("models").join(name);
            let hint = format!(
                "{}, so models are looked for in {}; set $HF_SNAPSHOTS_ROOT or $MODELS_ROOT to the folder that has them",
                root.from,
                root.path.display()
            );
            link::plan_link(project, &link, &target, &hint, &mut plan.changes)?;
            check_required(&target, &entry.required_files)?;
            plan.assets.push(Asset {
                kind: "model",
                link: Path::new("models").join(name),
                target,
                revision,
            });
            Ok(())
        });
    }
    Ok(entries
        .into_iter()
        .map(|entry| entry.repo_link_name.clone())
        .collect())
}
