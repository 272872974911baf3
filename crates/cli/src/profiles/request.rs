//! What an import is given beside its files: the model, the workload, the device.

use std::path::{Path, PathBuf};

use llmprof_config::hydra::RunMode;
use llmprof_record::run::RunRecord;
use llmprof_theory::device::Device;

use crate::{
    app,
    failure::Failure,
    plan::{PlanPurpose, plan},
    subject::RunSubject,
};

/// The profiles among some words, and the overrides: `KEY=VALUE` that is no file.
pub(crate) fn split(words: &[PathBuf]) -> (Vec<PathBuf>, Vec<String>) {
    let mut profiles = Vec::new();
    let mut overrides = Vec::new();
    for word in words {
        match word.to_str() {
            Some(text) if text.contains('=') && !word.exists() => overrides.push(text.to_owned()),
            _ => profiles.push(word.clone()),
        }
    }
    (profiles, overrides)
}

/// The overrides that read a model from its config.json.
pub(crate) fn local_model(config: &Path) -> Vec<String> {
    vec![
        "model=local".to_owned(),
        path_override("model.config", config),
    ]
}

/// An override whose value is a path, in quotes.
pub(crate) fn path_override(key: &str, path: &Path) -> String {
    let path = path
        .to_string_lossy()
        .replace('\\', r"\\")
        .replace('\'', r"\'");
    format!("{key}='{path}'")
}

/// The override of Hydra that names the run directory.
const RUN_DIR: &str = "hydra.run.dir=";

/// Takes `hydra.run.dir=DIR` as `-o DIR`.
pub(crate) fn take_output(
    overrides: &mut Vec<String>,
    output: &mut Option<PathBuf>,
) -> Result<(), Failure> {
    let Some(place) = overrides.iter().position(|text| text.starts_with(RUN_DIR)) else {
        return Ok(());
    };
    let dir = overrides.remove(place);
    if output.is_some() {
        return Err(
            Failure::new(format!("-o and {dir} both name the run directory"))
                .hint("give one of them".to_owned()),
        );
    }
    *output = Some(PathBuf::from(&dir[RUN_DIR.len()..]));
    Ok(())
}

/// Adds `--model NAME` to the overrides, which must not name another.
pub(crate) fn add_model(
    overrides: &mut Vec<String>,
    model: Option<&str>,
    config: Option<&Path>,
) -> Result<(), Failure> {
    let named = overrides.iter().find(|text| text.starts_with("model="));
    let option = match (model, config) {
        (Some(name), _) => Some(format!("--model {name}")),
        (None, Some(file)) => Some(format!("--config {}", file.display())),
        (None, None) => None,
    };
    if let Some((named, option)) = named.zip(option) {
        return Err(
            Failure::new(format!("{named} and {option} both name the model"))
                .hint("give one of them".to_owned()),
        );
    }
    overrides.extend(model.map(|name| format!("model={name}")));
    Ok(())
}

/// What was asked of which model; nothing where no model is named.
pub(crate) fn subject(
    config: Option<&Path>,
    overrides: &[String],
) -> Result<Option<RunSubject>, Failure> {
    let mut all = config.map_or_else(Vec::new, local_model);
    all.extend(overrides.iter().cloned());
    if all.is_empty() {
        return Ok(None);
    }
    let host = app::host()?;
    let composed = app::llmprof(&host.cwd)
        .compose(&all, RunMode::Run, &host)
        .map_err(app::own_failure)?;
    // A key that does not exist is the first mistake to name.
    let names_model = |text: &String| text.starts_with("model=") || text.starts_with("model.");
    if !all.iter().any(names_model) {
        return Err(
            Failure::new("the overrides name no model, so there is nothing to count")
                .hint("model=NAME, or --config path/to/config.json".to_owned()),
        );
    }
    let plan = plan(&composed, PlanPurpose::Paper)?;
    let mut subject = RunSubject::of_profile(&plan)?;
    subject.workload_keys = workload_keys(overrides);
    // This machine is not the one that the profile is of, nor does it matter what is known of it.
    if plan.hardware.spec != "auto" {
        subject.find_device(&plan)?;
    }
    Ok(Some(subject))
}

/// The keys of the workload among overrides.
fn workload_keys(overrides: &[String]) -> Vec<String> {
    let keys = overrides
        .iter()
        .filter_map(|text| text.split_once('='))
        .map(|(key, _)| key.trim_start_matches('+'));
    keys.filter(|key| {
        *key == "runtime.batch_size" || key.starts_with("workload.") || key.starts_with("infer.")
    })
    .map(str::to_owned)
    .collect()
}

/// Puts what was asked for into the record of the profiles.
pub(crate) fn describe(
    record: &mut RunRecord,
    subject: Option<&RunSubject>,
    device: Option<Device>,
) {
    if let Some(subject) = subject {
        subject.describe(record);
    }
    if device.is_some() {
        record.device = device;
    }
}
