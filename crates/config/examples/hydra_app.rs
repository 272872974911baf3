//! A Hydra application that only shows what it would do.
//!
//!     hydra_app [-cp DIR] [-cn NAME] [--config-dir D] [--cfg job|hydra|all] [--package P] [--resolve]
//!               [--info …] [-m] [OVERRIDE…]
//!     hydra_app --batch
//!
//! The primary config is `conf/config.yaml` unless the flags say otherwise. A run or a sweep
//! prints the files it would write. `--batch` reads one request in JSON a line and answers each
//! with one line:
//!
//! * request: `{"root": DIR, "args": [ARG…], "env": {…}, "now": "2026-03-05T14:07:09"}`, where
//!   only `args` is needed; or, for `--cfg`, `{"dir": DIR, "name": NAME, "overrides": […],
//!   "cfg": "job", "package": P, "resolve": true}`
//! * answer: `{"ok": true, "out": TEXT}`, `{"ok": true, "files": {PATH: TEXT}, "jobs": [[OVERRIDE…]…]}`
//!   or `{"ok": false, "kind": KIND, "message": TEXT, "hint": TEXT}`

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a program"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use llmprof_config::hydra::{App, CommandOutcome, Error, Execution, Host, HydraCommand, HydraJob};
use serde_json::{Value, json};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args == ["--batch"] {
        return batch();
    }
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let host = Host {
        cwd,
        env: std::env::vars().collect(),
        now: jiff::Zoned::now().datetime(),
        seed: 0,
        warnings: llmprof_config::hydra::Warnings::default(),
    };
    match HydraCommand::parse(args).and_then(|command| command.perform(&application(), &host)) {
        Ok(CommandOutcome::Text(text)) => print!("{text}"),
        Ok(CommandOutcome::Execution(execution)) => {
            for (path, text) in files(&execution) {
                println!("=== {}", path.display());
                print!("{text}");
            }
        }
        Err(error) => {
            eprintln!("{}: {error}", error.kind());
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn application() -> App {
    App {
        job_name: "app".to_owned(),
        config_dir: Some("conf".into()),
        config_name: Some("config".to_owned()),
        ..App::default()
    }
}

/// The files of a run or a sweep, with paths from the working directory.
fn files(execution: &Execution) -> Vec<(PathBuf, String)> {
    let of_job = |job: &HydraJob| -> Vec<(PathBuf, String)> {
        let files = job.files.iter();
        files
            .map(|(path, text)| (job.dir.join(path), text.clone()))
            .collect()
    };
    match execution {
        Execution::Run(job) => of_job(job),
        Execution::Multirun(sweep) => {
            let mut files: Vec<_> = sweep.jobs.iter().flat_map(of_job).collect();
            files.push((sweep.dir.join("multirun.yaml"), sweep.multirun_yaml.clone()));
            files
        }
    }
}

fn batch() -> ExitCode {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else {
            return ExitCode::FAILURE;
        };
        let answer = match serde_json::from_str(&line) {
            Ok(request) => answer(&request),
            Err(error) => json!({"ok": false, "kind": "request", "message": error.to_string()}),
        };
        if writeln!(out, "{answer}")
            .and_then(|()| out.flush())
            .is_err()
        {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn answer(request: &Value) -> Value {
    match perform(request) {
        Ok(CommandOutcome::Text(text)) => json!({"ok": true, "out": text}),
        Ok(CommandOutcome::Execution(execution)) => {
            let jobs = match &execution {
                Execution::Run(_) => Vec::new(),
                Execution::Multirun(sweep) => {
                    sweep.jobs.iter().map(|job| job.overrides.clone()).collect()
                }
            };
            let files: BTreeMap<String, String> = files(&execution)
                .into_iter()
                .map(|(path, text)| (path.display().to_string(), text))
                .collect();
            json!({"ok": true, "files": files, "jobs": jobs})
        }
        Err(error) => json!({
            "ok": false,
            "kind": error.kind(),
            "message": error.to_string(),
            "hint": error.hint(),
        }),
    }
}

fn perform(request: &Value) -> Result<CommandOutcome, Error> {
    let text = |key: &str| request[key].as_str().map(str::to_owned);
    let env = request["env"].as_object().into_iter().flatten();
    let host = Host {
        cwd: text("root")
            .map(PathBuf::from)
            .or_else(|| std::env::current_dir().ok())
            .unwrap_or_default(),
        env: env
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
        now: text("now")
            .and_then(|now| now.parse().ok())
            .unwrap_or_else(|| jiff::Zoned::now().datetime()),
        seed: 0,
        warnings: llmprof_config::hydra::Warnings::default(),
    };
    let mut app = application();
    let mut args = strings(&request["args"]);
    if let Some(dir) = text("dir") {
        app.config_dir = Some(Path::new(&dir).to_owned());
        args.extend([
            "--cfg".to_owned(),
            text("cfg").unwrap_or_else(|| "job".to_owned()),
        ]);
    }
    if let Some(name) = text("name") {
        app.config_name = Some(name);
    }
    if let Some(package) = text("package") {
        args.extend(["--package".to_owned(), package]);
    }
    if request["resolve"].as_bool() == Some(true) {
        args.push("--resolve".to_owned());
    }
    args.extend(strings(&request["overrides"]));
    HydraCommand::parse(args)?.perform(&app, &host)
}

fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}
