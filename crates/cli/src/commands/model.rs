use std::path::Path;

use llmprof_analysis::statics::Statics;
use llmprof_config::hydra::RunMode;
use llmprof_record::{
    issue::{Issue, IssueCode},
    store::{claim_folder, write_atomically},
};
use llmprof_report::{
    compose::listings::{self, layers},
    render::markdown,
    statics,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    app,
    args::{ModelArgs, ModelCommand},
    failure::Failure,
    output::{Output, warn_of},
    plan::{PlanPurpose, plan},
    profiles::request::local_model,
    shipped_models::GROUP,
    subject::RunSubject,
};

pub(crate) fn model(args: &ModelArgs, output: &mut Output) -> Result<(), Failure> {
    if let Some(ModelCommand::List { json }) = args.command {
        return list(json, output);
    }
    let host = app::host()?;
    let config = args.config.as_deref();
    let mut overrides = config.map_or_else(Vec::new, local_model);
    overrides.extend(args.overrides.iter().cloned());
    let composed = app::llmprof(&host.cwd)
        .compose(&overrides, RunMode::Run, &host)
        .map_err(app::own_failure)?;
    let subject = RunSubject::from_plan(
        &plan(&composed, PlanPurpose::Paper)?,
        args.family.as_deref(),
    )?;
    // Of the other issues the document has sentences.
    let is_disturbed = |issue: &&Issue| issue.code == IssueCode::HardwareDisturbed;
    let disturbed: Vec<Issue> = subject
        .issues
        .iter()
        .filter(is_disturbed)
        .cloned()
        .collect();
    warn_of(&disturbed);
    let statics = subject.statics()?;
    if let Some(directory) = &args.output {
        write(directory, &statics)?;
    }
    if args.json {
        return output.json(&statics);
    }
    output.document(&statics::document(&statics))?;
    if args.layers {
        for (title, operators) in layers(subject.counted()?, &subject.workload) {
            output.line(&format!("\n{title}"))?;
            output.table(&operators)?;
        }
    }
    Ok(())
}

/// A model of the config tree.
#[derive(Serialize, JsonSchema)]
pub(super) struct ListedModel {
    /// The name that `model=` takes.
    name: String,
    /// Its id on the Hugging Face hub, or where else its design is from.
    hub_id: Option<String>,
    /// Number of parameters; absent where no family counts it.
    parameters: Option<u64>,
}

/// Lists the models of the project's config tree and of the shipped one.
fn list(json: bool, output: &mut Output) -> Result<(), Failure> {
    let host = app::host()?;
    let application = app::llmprof(&host.cwd);
    let groups = application.list_groups(&host)?;
    let options = groups
        .into_iter()
        .find(|(group, _)| group == GROUP)
        .map_or_else(Vec::new, |(_, options)| options);
    let mut models = Vec::new();
    for name in options {
        // What other models are made of, and what stands for a model that is given.
        if matches!(name.as_str(), "base" | "local") {
            continue;
        }
        let composed = application
            .compose(&[format!("{GROUP}={name}")], RunMode::Run, &host)
            .map_err(app::own_failure)?;
        let hub_id = composed.resolved_value("model.hf_src")?;
        let subject = RunSubject::of_profile(&plan(&composed, PlanPurpose::Paper)?);
        models.push(ListedModel {
            hub_id: hub_id.as_str().map(str::to_owned),
            parameters: subject
                .ok()
                .and_then(|subject| Some(subject.model?.parameter_count())),
            name,
        });
    }
    if json {
        return output.json(&models);
    }
    let rows = models.into_iter();
    let rows = rows.map(|model| (model.name, model.hub_id, model.parameters));
    output.table(&listings::models(rows))
}

fn write(directory: &Path, statics: &Statics) -> Result<(), Failure> {
    claim_folder(directory).map_err(|error| Failure::directory(&error, "-o DIR"))?;
    let json = serde_json::to_string_pretty(statics)
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
    write_atomically(
        &directory.join("static_compute.json"),
        (json + "\n").as_bytes(),
    )?;
    let text = markdown::document(&statics::document(statics));
    write_atomically(&directory.join("static_compute.md"), text.as_bytes())?;
    Ok(())
}
