//! Files and directories that a request names and that are not there: found before anything is measured.

use std::path::Path;

use llmprof_record::plan::{LoadFormat, Mistake, Plan, RuntimeType};

use crate::kernel_notes;

/// What is wrong with the paths of a request that is to be executed.
pub(super) fn mistakes(plan: &Plan) -> Vec<Mistake> {
    let mut found = Vec::new();
    let mut wrong = |key, message: String, hint: Option<&str>| {
        found.push(Mistake {
            key,
            message,
            hint: hint.map(str::to_owned),
        });
    };
    let model = &plan.model;
    let loads = matches!(
        plan.runtime.kind,
        RuntimeType::Native | RuntimeType::Pytorch | RuntimeType::Worker
    );
    if let Some(path) = &model.path {
        if !path.is_dir() {
            wrong(
                "model.path",
                not_there(path, "directory"),
                Some("the directory of a model has its config.json, weights and tokenizer"),
            );
        } else if loads && model.load_format == LoadFormat::Safetensors && !has_weights(path) {
            wrong(
                "model.path",
                format!("{} has no .safetensors file", path.display()),
                Some("model.load_format=dummy runs with random weights"),
            );
        }
    }
    if let Some(path) = &model.config
        && !path.is_file()
    {
        wrong("model.config", not_there(path, "file"), None);
    }
    let ncu = &plan.pipeline.ncu;
    if let Some(path) = ncu.kernel_info.as_ref().filter(|_| ncu.enable)
        && let Err(failure) = kernel_notes::read(path)
    {
        let hint = "a YAML list: - {raw_name: NAME, friendly_name: TEXT, source_lib: TEXT, description: TEXT}";
        let message = failure.to_string();
        wrong("pipeline.ncu.kernel_info", message, Some(hint));
    }
    if let Some(path) = &model.tokenizer
        && loads
        && !path.exists()
    {
        wrong("model.tokenizer", not_there(path, "directory"), None);
    }
    found
}

fn not_there(path: &Path, what: &str) -> String {
    if path.exists() {
        format!("{} is not a {what}", path.display())
    } else {
        format!("{what} {} not found", path.display())
    }
}

/// Whether a model's directory has weights. One that cannot be listed is for whoever loads it to judge.
fn has_weights(path: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(path) else {
        return true;
    };
    entries.flatten().any(|entry| {
        let name = entry.path();
        name.extension()
            .is_some_and(|extension| extension == "safetensors")
    })
}
