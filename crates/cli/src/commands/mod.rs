//! One file per command.

mod analyze;
mod bootstrap;
mod completions;
mod config;
mod dataset;
mod doctor;
mod export;
mod externals;
mod hardware;
mod import;
mod init;
mod kernels;
mod man;
mod model;
mod plan;
mod predict;
mod query;
mod record;
mod report;
mod runs;
mod simulate;
mod worker;

use std::{collections::BTreeMap, ffi::OsString, path::Path, process::ExitCode};

pub(crate) use predict::prediction;
pub(crate) use record::OWN_FAILURE as RECORD_FAILED;

use llmprof_assets::{bootstrap::Asset, dataset::Fault, externals::State};
use llmprof_capture::{
    telemetry::nvml::RESTORE,
    tokenizer::{TOKENIZE, serve_tokenizer},
};
use llmprof_theory::device::{CatalogEntry, Device};
use serde_json::Value;

use crate::contracts::{NamedSchema, contract, titled};
use crate::{
    agents, args::Command, comparing, failure::Failure, jobs, output::Output,
    profiles::request::local_model, serving, viewing,
};

/// The JSON Schemas of what commands print with `--json`, where no file has the same.
pub(crate) fn schemas() -> Vec<NamedSchema> {
    vec![
        contract::<predict::PredictedGrid<'_>>("predict", 1, "llmprof predict --format json"),
        contract::<predict::Advised>("advise", 1, "llmprof predict --advise --format json"),
        contract::<simulate::Simulated>("simulate", 1, "llmprof simulate --json"),
        contract::<plan::Planned>("plan", 1, "llmprof plan --json"),
        titled(
            "kernels",
            1,
            "llmprof kernels analyze --json",
            kernels::analyze::schema,
        ),
        contract::<Vec<runs::Listed<'_>>>("runs", 1, "llmprof runs list --json"),
        contract::<runs::Listed<'_>>("runs_show", 1, "llmprof runs show --json"),
        contract::<Vec<CatalogEntry>>("hardware", 1, "llmprof hardware list --json"),
        contract::<Device>("hardware_show", 1, "llmprof hardware show --json"),
        contract::<Vec<doctor::Check>>("doctor", 1, "llmprof doctor --json"),
        contract::<Vec<model::ListedModel>>("models", 1, "llmprof model list --json"),
        contract::<Vec<BTreeMap<String, Value>>>("query", 1, "llmprof query --format json"),
        contract::<Vec<dataset::DatasetFacts>>("datasets", 1, "llmprof dataset list --json"),
        contract::<dataset::DatasetFacts>("dataset", 1, "llmprof dataset show --json"),
        contract::<Vec<Fault>>("dataset_verify", 1, "llmprof dataset verify --json"),
        contract::<Vec<State>>("externals", 1, "llmprof externals status --json"),
        contract::<Vec<Asset>>("bootstrap", 1, "llmprof bootstrap --json"),
    ]
}

/// What llmprof and its completion scripts ask of llmprof, not people: `worker`, a tokenizer, a job of a cluster's sweep, the guard of a power
/// limit, and the completion of a line. None is an argument that a help text or a completion shows.
pub(crate) fn internal(
    words: &[OsString],
    output: &mut Output,
) -> Option<Result<ExitCode, Failure>> {
    let (command, rest) = words.get(1..)?.split_first()?;
    if command == "worker" && rest.is_empty() {
        return Some(worker::worker().map(|()| ExitCode::SUCCESS));
    }
    if command == TOKENIZE
        && let [file] = rest
    {
        let served = serve_tokenizer(Path::new(file));
        return Some(
            served
                .map(|()| ExitCode::SUCCESS)
                .map_err(|error| Failure::new(error.to_string())),
        );
    }
    if command == jobs::SWEEP_JOB {
        return Some(jobs::sweep_job(rest));
    }
    let texts = || -> Vec<String> {
        rest.iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    };
    if command == RESTORE {
        return Some(jobs::guard_power_limit(&texts()).map(|()| ExitCode::SUCCESS));
    }
    (command == completions::COMMAND)
        .then(|| completions::complete(&texts(), output).map(|()| ExitCode::SUCCESS))
}

/// Puts what `--config FILE` means before the overrides, which may change it.
fn name_model(config: Option<&Path>, overrides: &mut Vec<String>) {
    if let Some(config) = config {
        overrides.splice(0..0, local_model(config));
    }
}

/// Does what was asked; the exit code says how it went.
pub(crate) fn dispatch(command: Command, output: &mut Output) -> Result<ExitCode, Failure> {
    match command {
        Command::Config(args) => config::config(args, output)?,
        Command::Run(mut args) => {
            name_model(args.config.as_deref(), &mut args.hydra.overrides);
            return jobs::run(args, output);
        }
        Command::Record(args) => return Ok(record::record(&args, output)),
        Command::Bench(args) => return serving::bench(&args, output),
        Command::Compare(args) => return comparing::compare(&args, output),
        Command::Import(args) => import::import(&args, output)?,
        Command::Analyze(args) => analyze::analyze(&args, output)?,
        Command::Report(args) => report::report(&args, output)?,
        Command::Export(args) => export::export(&args, output)?,
        Command::Query(args) => query::query(&args, output)?,
        Command::View(args) => viewing::view(&args, output)?,
        Command::Explain(args) => return agents::explain(&args, output),
        Command::Mcp(args) => agents::mcp(&args)?,
        Command::Skill => output.text(agents::SKILL)?,
        Command::Schema { name } => agents::schema(name.as_deref(), output)?,
        Command::Model(args) => model::model(&args, output)?,
        Command::Predict(mut args) => {
            name_model(args.config.as_deref(), &mut args.overrides);
            predict::predict(&args, output)?;
        }
        Command::Plan(mut args) => {
            name_model(args.config.as_deref(), &mut args.words);
            return plan::plan(&args, output);
        }
        Command::Simulate(mut args) => {
            name_model(args.config.as_deref(), &mut args.overrides);
            return simulate::simulate(&args, output);
        }
        Command::Doctor(args) => doctor::doctor(&args, output)?,
        Command::Kernels { command } => kernels::kernels(command, output)?,
        Command::Hardware { command } => hardware::hardware(command, output)?,
        Command::Runs { command } => runs::runs(command, output)?,
        Command::Init(args) => return init::init(&args, output),
        Command::Bootstrap(args) => return bootstrap::bootstrap(&args, output),
        Command::Dataset { command } => return dataset::dataset(command, output),
        Command::Externals { command } => return externals::externals(command, output),
        Command::Completions { shell } => completions::completions(shell, output)?,
        Command::Man { dir } => man::man(&dir, output)?,
    }
    Ok(ExitCode::SUCCESS)
}
