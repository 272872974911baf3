//! Files and directories that a request names and that are not there: found before anything is measured.

use std::path::Path;

use llmprof_record::plan::{LoadFormat, Mistake, Plan, RuntimeType};

use crate::{
    kernel_notes,
    weights::{self, WeightFiles},
};

/// What is wrong with the paths of a request that is to be executed.
pub(super) fn mistakes(plan: &Plan) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut wrong = |key, message: String, hint: Option<&str>| {
        mistakes.push(Mistake {
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
        } else if weights::are_loaded(plan)
            && let Some((message, hint)) = unreadable_weights(plan, path)
        {
            wrong("model.path", message, Some(hint));
        }
    }
    if let Some(path) = &model.config
        && !path.is_file()
    {
        wrong("model.config", not_there(path, "file"), None);
    }
    let ncu = &plan.pipeline.ncu;
    if let Some(path) = ncu.kernel_info.as_ref().filter(|_| ncu.is_enabled())
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
    mistakes
}

fn not_there(path: &Path, what: &str) -> String {
    if path.exists() {
        format!("{} is not a {what}", path.display())
    } else {
        format!("{what} {} not found", path.display())
    }
}

/// Why the weights that a run would load cannot be, and what can be done.
fn unreadable_weights(plan: &Plan, path: &Path) -> Option<(String, &'static str)> {
    const RANDOM: &str = "model.load_format=dummy runs with random weights";
    let place = path.display();
    let lacks = |end: &str| Some((format!("{place} has no {end} file"), RANDOM));
    let files = WeightFiles::find(path);
    match (plan.model.load_format, files) {
        (None, WeightFiles::Unsupported(file)) => Some((
            format!(
                "weights are in {}, which no runtime here reads",
                file.display()
            ),
            "convert them to .safetensors; model.load_format=dummy runs with random weights",
        )),
        (Some(LoadFormat::Safetensors), files) if files != WeightFiles::Safetensors => {
            lacks(".safetensors")
        }
        (Some(LoadFormat::Pt), _) if plan.runtime.kind == RuntimeType::Native => Some((
            format!("the native runtime reads .safetensors files; {place} has .bin files"),
            "runtime=pytorch reads them; model.load_format=dummy runs with random weights",
        )),
        (Some(LoadFormat::Pt), WeightFiles::Absent | WeightFiles::Unsupported(_)) => {
            lacks("pytorch_model*.bin")
        }
        _ => None,
    }
}
