//! `bench`: load a serving endpoint, watch the server, say where each request's time went.

mod configured;
mod imported;
mod loading;
mod offline;
mod request;
mod serve;
mod session;
mod telemetry;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use llmprof_capture::process::{Interrupt, Launch};
use llmprof_record::store::{RunDir, RunStatus, find_runs};
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use self::configured::{serve as serve_configured, server_command};
pub(crate) use self::offline::OfflineJob;
use self::{
    loading::{FinishedLoad, run},
    request::BenchRequest,
};
use crate::args_agents::ResultFormat;
use crate::args_bench::{BenchArgs, ServedArgs};
use crate::{
    agent_summary::print_summary,
    clock,
    failure::Failure,
    output::{Output, warn_of},
    outputs::serving::BenchFile,
    profiles::{
        self,
        files::{folder_name, free},
    },
    subject::{self, RunSubject},
    viewing,
};

/// An objective that was not met.
const NOT_MET: u8 = 1;
const INTERRUPTED: u8 = 130;

/// What `bench --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PrintedBench<'a> {
    #[serde(flatten)]
    file: Option<BenchFile<'a>>,
    /// The run directory.
    run: String,
}

/// Loads an endpoint, or shows results of others.
pub(crate) fn bench(args: &BenchArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    if !args.import.is_empty() {
        return imported::show(&args.import, args.json, output);
    }
    let (mut request, launch) = requested(args)?;
    let mut interrupt = Interrupt::install().map_err(|error| Failure::new(error.to_string()))?;
    let dir = match &args.output {
        Some(dir) => dir.clone(),
        None => default_directory(&model_name(&mut request, launch.as_ref())?),
    };
    let mut store = RunDir::create(&dir, clock::now(), crate::VERSION)
        .map_err(|error| Failure::directory(&error, "-o DIR"))?;
    let done = run(&mut request, launch, &mut store, &mut interrupt);
    let stopped = interrupt.stop_count() > 0;
    match done {
        Ok(done) => finish(&done, args, store, &dir, output),
        // The first failure is the one to report.
        Err(failure) if stopped => {
            let why = Some(failure.to_string());
            let _ = store.finish(RunStatus::Interrupted, why, clock::now());
            failure.report();
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(failure) => {
            let _ = store.finish(RunStatus::Failed, Some(failure.to_string()), clock::now());
            Err(failure)
        }
    }
}

/// The load, and the server to start for it.
fn requested(args: &BenchArgs) -> Result<(BenchRequest, Option<Launch>), Failure> {
    let (url, overrides) = targets(args)?;
    let subject = served(&args.served, &overrides)?;
    let (mut request, launch) = match &args.serve.serve {
        None => (
            BenchRequest::from_args(args, url.unwrap_or_default())?,
            None,
        ),
        Some(command) => {
            let words = serve::words(command)?;
            let url = serve::url_of(&args.serve, &words);
            (
                BenchRequest::from_args(args, &url)?,
                Some(serve::launch(&words)?),
            )
        }
    };
    request.subject = subject;
    Ok((request, launch))
}

/// The address, and overrides: with `--serve` there is no address, and the first word is an override too.
fn targets(args: &BenchArgs) -> Result<(Option<&str>, Vec<String>), Failure> {
    let mut overrides = args.served.overrides.clone();
    let url = args.url.as_deref();
    let (Some(word), Some(_)) = (url, &args.serve.serve) else {
        return Ok((url, overrides));
    };
    if word.contains("://") || !word.contains('=') {
        return Err(Failure::new(format!(
            "--serve starts the server, so `{word}` is too much"
        ))
        .hint("--serve-url URL, where the server is not at its --port".to_owned()));
    }
    overrides.insert(0, word.to_owned());
    Ok((None, overrides))
}

/// The model that is served, and the device for its roofline.
fn served(args: &ServedArgs, overrides: &[String]) -> Result<Option<RunSubject>, Failure> {
    let mut subject = profiles::request::subject(args.config.as_deref(), overrides)?;
    if let Some(name) = &args.device {
        let device = subject::device(name)?;
        let Some(subject) = &mut subject else {
            return Err(
                Failure::new("--device is for roofline times, and no model is named")
                    .hint("model=NAME, or --config path/to/config.json".to_owned()),
            );
        };
        subject.device = Some(device);
    }
    Ok(subject)
}

fn finish(
    done: &FinishedLoad,
    args: &BenchArgs,
    store: RunDir,
    dir: &Path,
    output: &mut Output,
) -> Result<ExitCode, Failure> {
    let status = if done.was_interrupted {
        RunStatus::Interrupted
    } else {
        RunStatus::Complete
    };
    let issues = store.manifest().issues.clone();
    let failure = done.failure();
    if let Some(failure) = &failure {
        store.finish(RunStatus::Failed, Some(failure.to_string()), clock::now())?;
    } else {
        store.finish(status, None, clock::now())?;
    }
    let format = ResultFormat::chosen(args.format, args.json);
    if format == ResultFormat::Agent && failure.is_none() {
        print_summary(dir, output)?;
    } else if format == ResultFormat::Json {
        output.json(&PrintedBench {
            file: BenchFile::from_record(&done.record, &done.analysis),
            run: dir.display().to_string(),
        })?;
    } else {
        output.summary(&done.lines)?;
        warn_of(&issues);
        output.report(dir)?;
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    if args.show.view && !done.was_interrupted {
        viewing::show_runs(&with_server_runs(dir), output)?;
    }
    Ok(if done.was_interrupted {
        ExitCode::from(INTERRUPTED)
    } else if done.is_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_MET)
    })
}

/// A load, and the recordings of the server below it, which are runs of their own.
fn with_server_runs(dir: &Path) -> Vec<PathBuf> {
    let (servers, _) = find_runs(&dir.join("server"));
    let servers = servers.into_iter().map(|run| run.path);
    std::iter::once(dir.to_owned()).chain(servers).collect()
}

/// The model that is served: by the arguments, the command of the server, or the server itself.
fn model_name(request: &mut BenchRequest, launch: Option<&Launch>) -> Result<String, Failure> {
    let is_named = !request.load.template.model.is_empty();
    if let Some(launch) = launch.filter(|_| !is_named) {
        return Ok(serve::model_of(&launch.args).unwrap_or_default());
    }
    if !is_named {
        session::ask(request)?;
    }
    Ok(request.load.template.model.clone())
}

/// `runs/bench/<model>/<time>`.
fn default_directory(model: &str) -> PathBuf {
    let name = folder_name(model).unwrap_or_else(|| "endpoint".to_owned());
    let time = clock::directory_name();
    free(&Path::new("runs").join("bench").join(name).join(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_by_its_model_and_stays_in_its_folder() {
        let folder = |model: &str| {
            let path = default_directory(model);
            let mut parts = path.components().map(|part| part.as_os_str().to_owned());
            assert_eq!(parts.next().unwrap(), "runs");
            assert_eq!(parts.next().unwrap(), "bench");
            let name = parts.next().unwrap().into_string().unwrap();
            assert_eq!(parts.count(), 1, "{}", path.display());
            name
        };
        assert_eq!(folder("Qwen/Qwen3-8B"), "Qwen_Qwen3-8B");
        for hostile in ["", "..", "../..", "/", " . "] {
            assert_eq!(folder(hostile), "endpoint", "{hostile}");
        }
        assert_eq!(folder("/models/tiny"), "models_tiny");
        assert_eq!(folder(&"m".repeat(500)).len(), 60);
    }
}
