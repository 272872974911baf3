//! From the arguments to the command that they name.

use std::{ffi::OsString, path::Path, process::ExitCode};

use llmprof_capture::{
    telemetry::nvml::RESTORE,
    tokenizer::{TOKENIZE_COMMAND, serve_tokenizer},
};

use crate::commands::{
    analyze, bootstrap, completions, config, dataset, doctor, export, externals, hardware, import,
    init, kernels, man, model, plan, predict, query, record, report, runs, simulate, worker,
};
use crate::{
    agents,
    args::{Command, RunArgs},
    comparing,
    failure::Failure,
    jobs,
    output::Output,
    profiles::request::{local_model, path_override},
    serving, viewing,
};

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
    if command == TOKENIZE_COMMAND
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

/// Puts what `-o DIR` means before the overrides.
fn name_directory(args: &mut RunArgs) -> Result<(), Failure> {
    let Some(dir) = args.output.take() else {
        return Ok(());
    };
    let key = if args.hydra.multirun {
        "hydra.sweep.dir"
    } else {
        "hydra.run.dir"
    };
    let overrides = &mut args.hydra.overrides;
    let names_it = |text: &&String| text.split('=').next() == Some(key);
    if let Some(other) = overrides.iter().find(names_it) {
        return Err(
            Failure::new(format!("-o and {other} both name the directory"))
                .hint("give one of them".to_owned()),
        );
    }
    overrides.push(path_override(key, &dir));
    Ok(())
}

/// Does what was asked; the exit code says how it went.
pub(crate) fn dispatch(command: Command, output: &mut Output) -> Result<ExitCode, Failure> {
    match command {
        Command::Config(args) => config::config(args, output)?,
        Command::Run(mut args) => {
            name_model(args.config.as_deref(), &mut args.hydra.overrides);
            name_directory(&mut args)?;
            return jobs::run(args, output);
        }
        Command::Record(args) => return Ok(record::record(&args, output)),
        Command::Bench(args) => return serving::bench(&args, output),
        Command::Compare(args) => return comparing::compare(&args, output),
        Command::Import(args) => import::import(args, output)?,
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
