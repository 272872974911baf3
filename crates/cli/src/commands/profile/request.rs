//! What an import is told beside its files: the model, the workload, the device.

use std::path::{Path, PathBuf};

use llmprof_config::hydra::RunMode;
use llmprof_theory::device::Device;

use crate::{
    app,
    failure::Failure,
    outputs::recorded::{Recorded, RecordedModel, device_file},
    plan::{Purpose, plan},
    subject::Subject,
};

/// The profiles among some words, and the overrides: `KEY=VALUE` that is no file.
pub(super) fn split(words: &[PathBuf]) -> (Vec<PathBuf>, Vec<String>) {
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

/// What was asked of which model; nothing where no model is named.
pub(super) fn subject(
    config: Option<&Path>,
    overrides: &[String],
) -> Result<Option<(Subject, String)>, Failure> {
    let mut all = Vec::new();
    if let Some(config) = config {
        let path = config
            .to_string_lossy()
            .replace('\\', r"\\")
            .replace('\'', r"\'");
        all.push("model=local".to_owned());
        all.push(format!("model.config='{path}'"));
    }
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
    let spec = plan.hardware.spec.clone();
    let mut subject = Subject::of(&plan, None)?;
    if spec == "auto" {
        // This machine is not the one that the profile is of.
        subject.device = None;
    }
    Ok(Some((subject, spec)))
}

/// Puts what was told into what is kept with the profile.
pub(super) fn describe(
    recorded: &mut Recorded,
    subject: Option<(Subject, String)>,
    device: Option<Device>,
    named: Option<&str>,
) {
    let mut spec = named.map(str::to_owned);
    if let Some((subject, planned)) = subject {
        recorded.name.clone_from(&subject.name);
        recorded.workload = Some(subject.workload);
        recorded.model = Some(RecordedModel::of(&subject));
        recorded.device = subject.device;
        spec = spec.or(Some(planned));
    }
    if device.is_some() {
        recorded.device = device;
    }
    let spec = spec.unwrap_or_default();
    recorded.device_file = device_file(recorded.device.as_ref(), &spec);
}
