//! The source code that a model's config names, with the revisions it is at.

use std::path::Path;

use llmprof_assets::{
    externals::{SourceRevision, source_revision},
    project,
};
use llmprof_capture::session::Halt;
use llmprof_record::{
    issue::{Issue, IssueCode},
    plan::{CodeSource, Plan},
    store::RunDir,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Source code that the config of the model names.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CodeRevision {
    /// Config key that names the folder.
    key: String,
    /// The folder and the revision it is at.
    source: SourceRevision,
}

/// Writes `sources.json`, where `model.impl_src` or `model.hf_src` name folders. One that is missing is an issue; the run needs none.
pub(super) fn write(plan: &Plan, cwd: &Path, store: &mut RunDir) -> Result<(), Halt> {
    let named = [
        ("impl_src", &plan.model.impl_src),
        ("hf_src", &plan.model.hf_src),
    ];
    let project = project::find_project(cwd);
    let mut rows: Vec<CodeRevision> = Vec::new();
    for (key, source) in named {
        for (name, folder) in source.iter().flat_map(CodeSource::folders) {
            let key = format!("model.{key}.{name}");
            let path = cwd.join(folder);
            if !path.is_dir() {
                store.add_issue(
                    Issue::warning(IssueCode::ModelSourceMissing)
                        .with("key", key)
                        .with("path", path.display().to_string()),
                )?;
                continue;
            }
            let source = source_revision(&project, &path);
            rows.push(CodeRevision { key, source });
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let text = serde_json::to_string_pretty(&rows).expect("these rows have only string keys");
    store.write("sources.json", text + "\n")?;
    Ok(())
}
