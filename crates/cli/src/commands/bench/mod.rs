//! `bench`: load a serving endpoint, watch the server, say where each request's time went.

mod configured;
mod imported;
mod offline;
mod outcome;
mod page;
mod request;
mod serve;
mod session;
mod telemetry;
mod tokenizer;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use llmprof_analysis::serving::{SelfCheck, Sweep, parts};
use llmprof_capture::process::{Interrupt, Launch};
use llmprof_load::{
    slo::all_met,
    sweep::{Bounds, Point, sweep},
};
use llmprof_record::{
    issue::{Issue, IssueCode},
    secrets::without_known,
    serving::EngineStep,
    store::{Pass, RunDir, RunStatus},
};
use llmprof_report::{
    render::terminal::{self, digest},
    text::warning_lines,
};
use llmprof_units::{Count, Nanos, significant};

pub(crate) use self::configured::{serve as serve_configured, server_command};
use self::{outcome::Outcome, request::Request, serve::Server, session::Measured};
use super::profile::{self, files::free};
use crate::args_bench::{BenchArgs, ServedArgs};
use crate::{
    clock, engine_trace,
    failure::Failure,
    output::Output,
    outputs::{self, Wanted},
    progress::Show,
    subject::{self, Subject},
};

/// An objective that was not met.
const NOT_MET: u8 = 1;
const INTERRUPTED: u8 = 130;
/// How long a server may take to end that broke its connections.
const AFTER_A_FAILURE: Duration = Duration::from_millis(500);
/// Rates that a sweep tries at most.
const SWEEP_TRIES: usize = 16;
/// How close the two rates of a sweep's answer come.
const SWEEP_PRECISION: f64 = 0.05;

/// Loads an endpoint, or shows results of others.
pub(crate) fn bench(args: &BenchArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    if !args.import.is_empty() {
        return imported::show(&args.import, args.json, output);
    }
    let (mut request, launch) = requested(args)?;
    let mut interrupt = Interrupt::install().map_err(|error| Failure::new(error.to_string()))?;
    let dir = match &args.output {
        Some(dir) => dir.clone(),
        None => default_directory(&model_name(args, &mut request, launch.as_ref())?),
    };
    let mut store = RunDir::create(&dir, clock::now(), crate::VERSION)
        .map_err(|error| Failure::directory(&error, "-o DIR"))?;
    let done = run(args, &mut request, launch, &mut store, &mut interrupt);
    let stopped = interrupt.count() > 0;
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
fn requested(args: &BenchArgs) -> Result<(Request, Option<Launch>), Failure> {
    let (url, overrides) = targets(args)?;
    let subject = served(&args.served, &overrides)?;
    let (mut request, launch) = match &args.serve.serve {
        None => (Request::of(args, url.unwrap_or_default())?, None),
        Some(command) => {
            let words = serve::words(command)?;
            let url = serve::url_of(&args.serve, &words);
            (Request::of(args, &url)?, Some(serve::launch(&words)?))
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
fn served(args: &ServedArgs, overrides: &[String]) -> Result<Option<Subject>, Failure> {
    let mut subject = profile::request::subject(args.config.as_deref(), overrides)?;
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

/// What a bench came to.
pub(crate) struct Done {
    outcome: Outcome,
    sweep: Option<Sweep>,
    lines: Vec<String>,
    is_met: bool,
    was_interrupted: bool,
    /// The message of the first request that failed.
    first_failure: Option<String>,
}

impl Done {
    /// The conclusion, for the terminal.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    pub(crate) fn was_interrupted(&self) -> bool {
        self.was_interrupted
    }

    /// A load without one result measured nothing.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let summary = &self.outcome.summary;
        if summary.completed > 0 || summary.failed == 0 || self.was_interrupted {
            return None;
        }
        let why = self.first_failure.as_deref().unwrap_or_default();
        let requests = Count(summary.failed, "request");
        Some(Failure::new(format!("all of {requests} failed: {why}")))
    }
}

fn finish(
    done: &Done,
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
    if args.json {
        #[derive(serde::Serialize)]
        struct Printed<'a> {
            #[serde(flatten)]
            outcome: &'a Outcome,
            sweep: Option<&'a Sweep>,
            run: String,
        }
        output.json(&Printed {
            outcome: &done.outcome,
            sweep: done.sweep.as_ref(),
            run: dir.display().to_string(),
        })?;
    } else {
        for line in &done.lines {
            output.line(line)?;
        }
        let mut warnings = Output::stderr();
        for line in warning_lines(&issues) {
            warnings.line(&line)?;
        }
        output.line(&format!("report: {}", dir.join("report.html").display()))?;
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    Ok(if done.was_interrupted {
        ExitCode::from(INTERRUPTED)
    } else if done.is_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_MET)
    })
}

/// Loads a server that is up, or starts and ends one. For `run` too: the directory is open, and its caller closes it.
fn run(
    args: &BenchArgs,
    request: &mut Request,
    launch: Option<Launch>,
    store: &mut RunDir,
    interrupt: &mut Interrupt,
) -> Result<Done, Failure> {
    store.describe("bench", args.model.as_deref().unwrap_or_default(), &[])?;
    let Some(launch) = launch else {
        let loaded = loaded(args, request, store, interrupt, &mut || true)?;
        return concluded(args, request, store, &loaded);
    };
    store.write("server/cmd.txt", format!("{launch}\n"))?;
    let started = Instant::now();
    let mut server = Server::start(launch, &args.serve, store.path())?;
    let loaded = server
        .wait_until_healthy(&request.endpoint, &args.serve, interrupt)
        .and_then(|()| {
            store.set_pass(pass("server_start", started))?;
            let mut is_alive = true;
            let loaded = loaded(args, request, store, interrupt, &mut || {
                is_alive = is_alive && server.is_alive();
                is_alive
            });
            // A connection breaks before its process has ended.
            if is_alive && (loaded.is_ok() || !server.ends_within(AFTER_A_FAILURE)) {
                loaded
            } else {
                Err(server.died("ended during the load"))
            }
        });
    let (issues, recorded) = server.stop(interrupt);
    for issue in issues {
        store.add_issue(issue)?;
    }
    let mut loaded = loaded?;
    let recorded = recorded
        .map(|folder| Recorded::of(&[folder], request.subject.as_ref(), store, "record"))
        .transpose()?;
    if let Some(recorded) = &recorded {
        loaded.measured.join(&recorded.steps);
    }
    let mut done = concluded(args, request, store, &loaded)?;
    done.lines
        .extend(recorded.into_iter().flat_map(|r| r.lines));
    Ok(done)
}

/// The load of vLLM's `LLM` class.
fn run_offline(
    args: &BenchArgs,
    request: &Request,
    job: offline::Job,
    store: &mut RunDir,
    interrupt: &mut Interrupt,
) -> Result<Done, Failure> {
    store.describe("bench", &request.template().model, &[])?;
    let started = Instant::now();
    let (measured, server) = offline::measure(job, request, args, store, interrupt)?;
    store.set_pass(pass("load", started))?;
    let (issues, recorded) = server.stop(interrupt);
    for issue in issues {
        store.add_issue(issue)?;
    }
    let loaded = Loaded {
        shared: request.shared_share(&request.load().plan),
        measured,
        sweep: None,
    };
    let mut done = concluded(args, request, store, &loaded)?;
    if let Some(folder) = recorded {
        let recorded = Recorded::of(&[folder], request.subject.as_ref(), store, "record")?;
        done.lines.extend(recorded.lines);
    }
    Ok(done)
}

/// Profiles of the server, analyzed as a run of its own inside of this one.
struct Recorded {
    /// Its conclusion.
    lines: Vec<String>,
    /// Its engine steps, where it labels them.
    steps: Vec<EngineStep>,
}

impl Recorded {
    fn of(
        profiles: &[PathBuf],
        subject: Option<&Subject>,
        store: &RunDir,
        name: &str,
    ) -> Result<Self, Failure> {
        let dir = store.path().join("server").join(name);
        let mut inner = RunDir::create(&dir, clock::now(), crate::VERSION)?;
        inner.describe("bench", name, &[])?;
        let kept = profile::keep(
            profiles,
            "the server",
            subject,
            None,
            None,
            Vec::new(),
            &mut inner,
        );
        let is_whole = |kept: &profile::Profiled| kept.unwritten().is_none();
        let status = if kept.as_ref().is_ok_and(is_whole) {
            RunStatus::Complete
        } else {
            RunStatus::Failed
        };
        inner.finish(status, None, clock::now())?;
        let kept = kept?;
        let mut lines = vec![format!(
            "the server's own time: {}",
            dir.join("report.html").display()
        )];
        lines.extend(kept.digest());
        // Without a clock there is nothing to join, and the report of the recording stands for itself.
        let steps = engine_trace::of_record(kept.record()).unwrap_or_default();
        Ok(Self { lines, steps })
    }
}

fn pass(name: &str, started: Instant) -> Pass {
    Pass {
        name: name.to_owned(),
        status: RunStatus::Complete,
        duration_ns: Some(Nanos(started.elapsed().as_nanos() as i64)),
        exit_code: None,
    }
}

/// A load, before anything is concluded from it.
struct Loaded {
    measured: Measured,
    /// Tokens of prompts that all have in common, as a share.
    shared: f64,
    sweep: Option<Sweep>,
}

/// The load against a server that is up.
fn loaded(
    args: &BenchArgs,
    request: &mut Request,
    store: &mut RunDir,
    interrupt: &mut Interrupt,
    is_alive: &mut dyn FnMut() -> bool,
) -> Result<Loaded, Failure> {
    let show = Show::detect();
    session::ask(request)?;
    store.describe("bench", &request.template().model.clone(), &[])?;
    let before = interrupt.count();
    let mut beside = || interrupt.count() == before && is_alive();
    session::warm_up(request, args.warmup, show, &mut beside)?;
    let started = Instant::now();
    let loaded = match args.sweep {
        None => {
            let load = request.load();
            Loaded {
                shared: request.shared_share(&load.plan),
                measured: session::measure(request, &load, args, "load", show, &mut beside)?,
                sweep: None,
            }
        }
        Some(bounds) => {
            let (measured, found) = swept(args, request, bounds, store, show, &mut beside)?;
            Loaded {
                measured,
                shared: 0.0,
                sweep: Some(found),
            }
        }
    };
    store.set_pass(pass("load", started))?;
    Ok(loaded)
}

/// Everything that is said of a load, and its files.
fn concluded(
    args: &BenchArgs,
    request: &Request,
    store: &mut RunDir,
    loaded: &Loaded,
) -> Result<Done, Failure> {
    let Loaded {
        measured,
        shared,
        sweep: found,
    } = loaded;
    let each = parts::split(
        &measured.load.requests,
        measured.load.started_unix_ns,
        &measured.steps,
    );
    let outcome = Outcome::of(measured, &each, request, &args.slo, *shared);
    for issue in &outcome.issues {
        store.add_issue(issue.clone())?;
    }
    outcome.write(measured, &each, store)?;
    if let Some(found) = found {
        write_sweep(found, store)?;
    }
    let mut report = page::document(&outcome, measured, found.as_ref());
    // With those of the server and of its runtime.
    report.issues.clone_from(&store.manifest().issues);
    for (name, contents) in outputs::rendered(&report, Wanted::ALL) {
        store.write(&name, contents)?;
    }
    let mut lines = digest(&report);
    let result = page::result(&outcome.summary);
    let result = result.iter().flat_map(|table| {
        let text = terminal::table(table);
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    let after_summary = report.caveats.len() + report.summary.len();
    lines.splice(after_summary..after_summary, result);
    for (index, trace) in measured.traces.iter().enumerate() {
        let name = match index {
            0 => "trace".to_owned(),
            index => format!("trace_{}", index + 1),
        };
        let trace = std::slice::from_ref(trace);
        // Ranks that share a model have a part of it each.
        let subject = request
            .subject
            .as_ref()
            .filter(|_| measured.traces.len() == 1);
        match Recorded::of(trace, subject, store, &name) {
            Ok(more) => lines.extend(more.lines),
            Err(failure) => {
                store.add_issue(
                    Issue::warning(IssueCode::BenchTrace).with("why", failure.to_string()),
                )?;
            }
        }
    }
    let is_met = match found {
        Some(found) => found.best_rate.is_some(),
        None => args.slo.is_empty() || all_met(&args.slo, &measured.summary),
    };
    Ok(Done {
        outcome,
        sweep: found.clone(),
        lines,
        is_met,
        was_interrupted: measured.was_interrupted,
        first_failure: measured
            .load
            .requests
            .iter()
            .find_map(|request| Some(request.failure.as_ref()?.message.clone())),
    })
}

/// Loads at rates until the highest is found that meets the objectives; what is kept is that load, or the lowest rate's.
fn swept(
    args: &BenchArgs,
    request: &mut Request,
    (least, most): (f64, f64),
    store: &RunDir,
    show: Show,
    beside: &mut session::Beside<'_>,
) -> Result<(Measured, Sweep), Failure> {
    let bounds = Bounds {
        least,
        most,
        precision: SWEEP_PRECISION,
        tries: SWEEP_TRIES,
    };
    let mut kept: Option<(f64, bool, Measured)> = None;
    let mut failure = None;
    let mut late = Vec::new();
    let mut so_far = Sweep::default();
    let found = sweep(bounds, |rate| {
        request.arrivals = args.load.arrivals_at(rate);
        let load = request.load();
        let name = format!("{} requests/s", significant(rate));
        let measured = match session::measure(request, &load, args, &name, show, beside) {
            Ok(measured) => measured,
            Err(error) => {
                failure = Some(error);
                return None;
            }
        };
        if measured.was_interrupted {
            kept.get_or_insert((rate, false, measured));
            return None;
        }
        let summary = measured.summary.clone();
        let is_met = all_met(&args.slo, &summary);
        // Latencies of a late client are too long: objectives that they meet are met, others say nothing about the server.
        if !is_met && !SelfCheck::of(&measured.load).kept_up {
            late.push(rate);
        }
        let is_better = kept
            .as_ref()
            .is_none_or(|(before, met, _)| match (is_met, *met) {
                (true, true) => rate > *before,
                (true, false) => true,
                (false, true) => false,
                (false, false) => rate < *before,
            });
        if is_better {
            kept = Some((rate, is_met, measured));
        }
        so_far.add(Point {
            rate,
            is_met,
            summary: summary.clone(),
        });
        // What was measured survives a kill. Where it cannot be written, the last write says why.
        let _ = write_sweep(&so_far, store);
        Some((summary, is_met))
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    let (rate, _, mut measured) = kept.ok_or_else(|| Failure::new("the sweep measured nothing"))?;
    request.arrivals = args.load.arrivals_at(rate);
    if found
        .first_failing_rate
        .is_some_and(|rate| late.contains(&rate))
    {
        measured
            .issues
            .push(Issue::error(IssueCode::BenchSweepClientLate));
    }
    Ok((measured, found))
}

fn write_sweep(found: &Sweep, store: &RunDir) -> Result<(), Failure> {
    let text =
        serde_json::to_string_pretty(found).map_err(|error| Failure::new(error.to_string()))?;
    store.write("sweep.json", text + "\n")?;
    Ok(())
}

/// The model that is served: by the arguments, the command of the server, or the server itself.
fn model_name(
    args: &BenchArgs,
    request: &mut Request,
    launch: Option<&Launch>,
) -> Result<String, Failure> {
    if let Some(name) = &args.model {
        return Ok(name.clone());
    }
    if let Some(launch) = launch {
        return Ok(serve::model_of(&launch.args).unwrap_or_default());
    }
    session::ask(request)?;
    Ok(request.template().model.clone())
}

/// Most characters of a folder's name: file systems take 255 bytes.
const FOLDER_CHARACTERS: usize = 60;

/// `runs/bench/<model>/<time>`. A server may call its model anything: no name leaves the folder, is hidden or has the key.
fn default_directory(model: &str) -> PathBuf {
    let model = without_known(model);
    let model = model.trim_matches(|c: char| c == '.' || c == '/' || c.is_whitespace());
    let mut name: String = model
        .chars()
        .take(FOLDER_CHARACTERS)
        .map(|c| {
            if c.is_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    if name.is_empty() {
        name.push_str("endpoint");
    }
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
        assert_eq!(folder(&"m".repeat(500)).len(), FOLDER_CHARACTERS);
    }
}
