//! What an import is given beside its files: the model, the workload, the device.

use std::path::{Path, PathBuf};

use llmprof_config::hydra::RunMode;
use llmprof_record::run::RunRecord;
use llmprof_theory::device::Device;

use crate::{
    app,
    failure::Failure,
    plan::{Purpose, plan},
    subject::Subject,
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
    let path = config
        .to_string_lossy()
        .replace('\\', r"\\")
        .replace('\'', r"\'");
    vec!["model=local".to_owned(), format!("model.config='{path}'")]
}

/// What was asked of which model; nothing where no model is named.
pub(crate) fn subject(
    config: Option<&Path>,
    overrides: &[String],
) -> Result<Option<Subject>, Failure> {
    let mut all = config.map_or_else(Vec::new, local_model);
    all.extend(overrides.iter().cloned());
    if all.is_empty() {
        return Ok(None);
    }
    let names_model = |text: &String| text.starts_with("model=") || text.starts_with("model.");
    if !all.iter().any(names_model) {
        return Err(
            Failure::new("the overrides name no model, so there is nothing to count")
                .hint("model=NAME, or --config path/to/config.json".to_owned()),
        );
    }
    let host = app::host()?;
    let composed = app::llmprof(&host.cwd)
        .compose(&all, RunMode::Run, &host)
        .map_err(app::own_failure)?;
    let plan = plan(&composed, Purpose::Paper)?;
    let mut subject = Subject::of_profile(&plan)?;
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
pub(crate) fn describe(record: &mut RunRecord, subject: Option<&Subject>, device: Option<Device>) {
    if let Some(subject) = subject {
        subject.describe(record);
    }
    if device.is_some() {
        record.device = device;
    }
}
