//! One load from its request to the files of its run.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use llmprof_analysis::{Analysis, serving::SelfCheck};
use llmprof_capture::process::{Interrupt, Launch};
use llmprof_load::{
    slo::all_met,
    sweep::{RateBounds, Sweep, SweepPoint, search_rate},
};
use llmprof_record::{
    issue::{Issue, IssueCode},
    run::RunRecord,
    serving::{EngineStep, RequestRecord},
    store::{Pass, RunDir, RunStatus},
};
use llmprof_traffic::figures::LoadSummary;
use llmprof_units::{Count, Nanos, format_significant};

use super::{
    offline,
    request::BenchRequest,
    serve::ServerProcess,
    session::{self, MeasuredLoad},
};
use crate::{
    clock, engine_trace,
    failure::Failure,
    outputs::{self, Results, WantedFiles},
    profiles,
    progress::Show,
    subject::RunSubject,
};

/// How long a server may take to end that broke its connections.
const AFTER_A_FAILURE: Duration = Duration::from_millis(500);
/// Rates that a sweep tries at most.
const SWEEP_TRIES: usize = 16;
/// How close the two rates of a sweep's answer come.
const SWEEP_PRECISION: f64 = 0.05;

/// What a bench came to.
pub(crate) struct FinishedLoad {
    pub(super) record: RunRecord,
    pub(super) analysis: Analysis,
    pub(super) lines: Vec<String>,
    pub(super) is_met: bool,
    pub(super) was_interrupted: bool,
}

impl FinishedLoad {
    /// The conclusion, for the terminal.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    pub(crate) fn was_interrupted(&self) -> bool {
        self.was_interrupted
    }

    /// A load without one result measured nothing.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let requests = self.record.load.iter().flat_map(|load| &load.load.requests);
        if self.was_interrupted || requests.clone().any(RequestRecord::is_complete) {
            return None;
        }
        let failures = requests.filter_map(|request| request.failure.as_ref());
        let why = &failures.clone().next()?.message;
        let requests = Count(failures.count() as u64, "request");
        Some(Failure::new(format!("all of {requests} failed: {why}")))
    }
}

/// Loads a server that is up, or starts and ends one. For `run` too: the directory is open, and its caller closes it.
pub(super) fn run(
    request: &mut BenchRequest,
    launch: Option<Launch>,
    store: &mut RunDir,
    interrupt: &mut Interrupt,
) -> Result<FinishedLoad, Failure> {
    store.describe("bench", &request.load.template.model.clone(), &[])?;
    let Some(launch) = launch else {
        let loaded = loaded(request, store, interrupt, &mut || true)?;
        return concluded(request, store, loaded);
    };
    store.write("server/cmd.txt", format!("{launch}\n"))?;
    let started = Instant::now();
    let mut server = ServerProcess::start(launch, &request.serve, store.path())?;
    let loaded = server
        .wait_until_healthy(&request.load.endpoint, &request.serve, interrupt)
        .and_then(|()| {
            store.set_pass(pass("server_start", started))?;
            let mut is_alive = true;
            let loaded = loaded(request, store, interrupt, &mut || {
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
        .map(|folder| {
            ServerRecording::analyze(&[folder], request.subject.as_ref(), store, "record")
        })
        .transpose()?;
    if let Some(recorded) = &recorded {
        loaded.join(&recorded.steps);
    }
    let mut done = concluded(request, store, loaded)?;
    done.lines
        .extend(recorded.into_iter().flat_map(|r| r.lines));
    Ok(done)
}

/// The load of vLLM's `LLM` class.
pub(super) fn run_offline(
    request: &BenchRequest,
    job: offline::OfflineWork,
    store: &mut RunDir,
    interrupt: &mut Interrupt,
) -> Result<FinishedLoad, Failure> {
    store.describe("bench", &request.load.template.model, &[])?;
    let started = Instant::now();
    let (measured, server) = offline::measure(job, request, store, interrupt)?;
    store.set_pass(pass("load", started))?;
    let (issues, recorded) = server.stop(interrupt);
    for issue in issues {
        store.add_issue(issue)?;
    }
    let mut done = concluded(request, store, measured)?;
    if let Some(folder) = recorded {
        let recorded =
            ServerRecording::analyze(&[folder], request.subject.as_ref(), store, "record")?;
        done.lines.extend(recorded.lines);
    }
    Ok(done)
}

/// Profiles of the server, analyzed as a run of its own inside of this one.
struct ServerRecording {
    lines: Vec<String>,
    /// Its engine steps, where it labels them.
    steps: Vec<EngineStep>,
}

impl ServerRecording {
    fn analyze(
        profiles: &[PathBuf],
        subject: Option<&RunSubject>,
        store: &RunDir,
        name: &str,
    ) -> Result<Self, Failure> {
        let dir = store.path().join("server").join(name);
        let mut inner = RunDir::create(&dir, clock::now(), crate::VERSION)?;
        inner.describe("bench", name, &[])?;
        let kept = profiles::keep(
            profiles,
            "the server",
            subject,
            None,
            None,
            Vec::new(),
            &mut inner,
        );
        let is_whole = |kept: &profiles::Profiled| kept.unwritten().is_none();
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

/// The load against a server that is up.
fn loaded(
    request: &mut BenchRequest,
    store: &mut RunDir,
    interrupt: &mut Interrupt,
    is_alive: &mut dyn FnMut() -> bool,
) -> Result<MeasuredLoad, Failure> {
    let show = Show::detect();
    session::ask(request)?;
    store.describe("bench", &request.load.template.model.clone(), &[])?;
    let mut beside = || interrupt.stop_count() == 0 && is_alive();
    session::warm_up(&request.load, show, &mut beside)?;
    let started = Instant::now();
    let measured = match request.sweep {
        None => session::measure(request, &request.load.load(), "load", show, &mut beside)?,
        Some(bounds) => swept(request, bounds, store, show, &mut beside)?,
    };
    store.set_pass(pass("load", started))?;
    Ok(measured)
}

/// Everything that is said of a load, and its files.
fn concluded(
    request: &BenchRequest,
    store: &mut RunDir,
    measured: MeasuredLoad,
) -> Result<FinishedLoad, Failure> {
    for (name, text) in &measured.pages {
        store.write(name, text)?;
    }
    let traces = measured.traces;
    let is_met = match &measured.served.sweep {
        Some(sweep) => sweep.best_rate.is_some(),
        None => {
            request.load.slos.is_empty() || all_met(&request.load.slos, &measured.summary.figures)
        }
    };
    let record = RunRecord {
        name: request.load.template.model.clone(),
        samples: measured.samples,
        issues: measured.issues,
        load: Some(measured.served),
        ..RunRecord::default()
    };
    record.save(store.path())?;
    let analysis = llmprof_analysis::analyze(&record, None)
        .map_err(|error| Failure::new(format!("cannot analyze the load: {error}")))?;
    let results = Results {
        record: &record,
        analysis: &analysis,
        device: None,
        predictions: None,
        notes: None,
    };
    outputs::write(&results, WantedFiles::ALL, store)?;
    let mut lines = results.digest();
    lines.extend(recorded_traces(request, &traces, store)?);
    Ok(FinishedLoad {
        lines,
        is_met,
        was_interrupted: measured.was_interrupted,
        record,
        analysis,
    })
}

/// The conclusions of the server's own traces, each analyzed as a run inside of this one.
fn recorded_traces(
    request: &BenchRequest,
    traces: &[PathBuf],
    store: &mut RunDir,
) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for (index, trace) in traces.iter().enumerate() {
        let name = match index {
            0 => "trace".to_owned(),
            index => format!("trace_{}", index + 1),
        };
        let trace = std::slice::from_ref(trace);
        // Ranks that share a model have a part of it each.
        let subject = request.subject.as_ref().filter(|_| traces.len() == 1);
        match ServerRecording::analyze(trace, subject, store, &name) {
            Ok(more) => lines.extend(more.lines),
            Err(failure) => {
                store.add_issue(
                    Issue::warning(IssueCode::BenchTrace).with("why", failure.to_string()),
                )?;
            }
        }
    }
    Ok(lines)
}

/// Loads at rates until the highest is found that meets the objectives; what is kept is that load, or the lowest rate's.
fn swept(
    request: &mut BenchRequest,
    (least, most): (f64, f64),
    store: &RunDir,
    show: Show,
    beside: &mut session::Beside<'_>,
) -> Result<MeasuredLoad, Failure> {
    let bounds = RateBounds {
        least,
        most,
        precision: SWEEP_PRECISION,
        tries: SWEEP_TRIES,
    };
    let mut kept: Option<(f64, bool, MeasuredLoad)> = None;
    let mut failure = None;
    let mut late = Vec::new();
    let mut so_far = Sweep::default();
    let mut was_interrupted = false;
    let sweep = search_rate(bounds, |rate| {
        // Between a rate that meets the objectives and one at which the client was late, the client decides.
        if !late.is_empty() && so_far.best_rate.is_some() {
            return None;
        }
        request.load.arrivals = request.load.arrivals.at_rate(rate);
        let load = request.load.load();
        let name = format!("{} requests/s", format_significant(rate));
        let measured = match session::measure(request, &load, &name, show, beside) {
            Ok(measured) => measured,
            Err(error) => {
                failure = Some(error);
                return None;
            }
        };
        if measured.was_interrupted {
            was_interrupted = true;
            kept.get_or_insert((rate, false, measured));
            return None;
        }
        let summary = measured.summary.clone();
        let is_met = all_met(&request.load.slos, &summary.figures);
        // Latencies of a late client are too long: objectives that they meet are met, others say nothing about the server.
        if !is_met && !SelfCheck::from_load(&measured.served.load).kept_up {
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
        so_far.add_point(SweepPoint {
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
    request.load.arrivals = request.load.arrivals.at_rate(rate);
    measured.was_interrupted |= was_interrupted;
    if sweep
        .first_failing_rate
        .is_some_and(|rate| late.contains(&rate))
    {
        measured
            .issues
            .push(Issue::warning(IssueCode::BenchSweepClientLate));
    }
    measured.served.sweep = Some(sweep);
    Ok(measured)
}

fn write_sweep(sweep: &Sweep<LoadSummary>, store: &RunDir) -> Result<(), Failure> {
    let text =
        serde_json::to_string_pretty(sweep).map_err(|error| Failure::new(error.to_string()))?;
    store.write("sweep.json", text + "\n")?;
    Ok(())
}
