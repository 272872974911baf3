//! One job, from its plan to its finished directory.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use llmprof_analysis::{run::RunAnalysis, statics::Statics};
use llmprof_capture::{host::HostFacts, process::Interrupt};
use llmprof_config::hydra::Job;
use llmprof_record::{
    issue::Issue,
    plan::{Place, Plan, RuntimeType},
    store::{Pass, RunDir, RunStatus},
};
use llmprof_report::{
    Document,
    render::markdown,
    statics::{assumptions as assumptions_of, document as statics_document},
};

use super::{command::command, feed::Feed, halt::Halt, native, pytorch};
use crate::{
    clock,
    commands::bench::serve_configured,
    failure::{self, Failure},
    measured,
    output::Output,
    plan::{Purpose, plan},
    progress::Show,
    subject::Subject,
};

/// Exit code of a job that was interrupted: 128 + SIGINT, as shells have it.
pub(super) const INTERRUPTED: u8 = 130;

/// How a job ended.
pub(super) struct Ended {
    /// Its directory.
    pub(super) dir: PathBuf,
    /// How it stands.
    pub(super) status: RunStatus,
    /// Why it failed.
    pub(super) error: Option<String>,
    /// What to say about it at the end.
    pub(super) summary: Vec<String>,
    /// What it measured.
    pub(super) analysis: Option<RunAnalysis>,
    /// What should not be trusted.
    pub(super) issues: Vec<Issue>,
}

impl Ended {
    pub(super) fn exit_code(&self) -> ExitCode {
        match self.status {
            RunStatus::Complete => ExitCode::SUCCESS,
            RunStatus::Interrupted => ExitCode::from(INTERRUPTED),
            RunStatus::Failed | RunStatus::Running => ExitCode::from(failure::EXIT_CODE),
        }
    }

    pub(super) fn print(&self, output: &mut Output) -> Result<(), Failure> {
        if let Some(error) = &self.error {
            Failure::new(error.clone()).report();
        }
        for line in &self.summary {
            output.line(line)?;
        }
        let report = self.dir.join("report.html");
        if report.is_file() {
            output.line(&format!("report: {}", report.display()))?;
        }
        output.line(&format!("{}: {}", self.status, self.dir.display()))
    }
}

/// What a runtime measured and wrote.
pub(super) struct Told {
    /// The conclusion, for the terminal.
    pub(super) lines: Vec<String>,
    pub(super) analysis: RunAnalysis,
    /// What stopped it before its end; what it had by then is told.
    pub(super) stopped: Option<Halt>,
}

/// What a runtime needs to run a job.
pub(super) struct Run<'a> {
    pub(super) plan: &'a Plan,
    pub(super) subject: &'a Subject,
    pub(super) feed: &'a Feed,
    pub(super) cwd: &'a Path,
    pub(super) store: &'a mut RunDir,
    pub(super) interrupt: &'a mut Interrupt,
    pub(super) show: Show,
}

/// Runs a job. A mistake in its request is an error and leaves nothing; whatever happens later is in its directory.
pub(super) fn run(job: &Job, cwd: &Path, show: Show) -> Result<Ended, Failure> {
    let plan = plan(&job.composed, Purpose::Run)?;
    let on_cpu = plan.device == Place::Cpu;
    let runs = matches!(
        plan.runtime.kind,
        RuntimeType::Native | RuntimeType::Pytorch
    );
    let is_measured = runs && on_cpu && plan.hardware.spec == "auto";
    if is_measured {
        measured::ensure()?;
    }
    // What transformers or another program runs need not be known here.
    let subject = match plan.runtime.kind {
        RuntimeType::Native | RuntimeType::None => Subject::of(&plan, None)?,
        _ => Subject::of_any(&plan)?,
    };
    let feed = match plan.runtime.kind {
        RuntimeType::None | RuntimeType::Command => None,
        kind if kind.is_serving() => None,
        _ => Some(Feed::of(&plan, &subject, cwd)?),
    };
    let mut interrupt = Interrupt::install().map_err(|error| Failure::new(error.to_string()))?;
    let dir = cwd.join(&job.dir);
    let mut store = RunDir::create(&dir, clock::now(), crate::VERSION)?;
    let mut summary = Vec::new();
    let mut analysis = None;

    let mut stages = || -> Result<(), Halt> {
        store.describe(&plan.experiment, &plan.model.name, &job.overrides)?;
        for (path, text) in &job.files {
            store.write(&path.to_string_lossy(), text)?;
        }
        let facts = serde_json::to_string_pretty(&HostFacts::collect(crate::VERSION, cwd))
            .expect("host facts have only string keys");
        store.write("env.json", facts + "\n")?;
        for issue in &subject.issues {
            store.add_issue(issue.clone())?;
        }
        if plan.pipeline.static_analysis.enable {
            let started = std::time::Instant::now();
            if subject.model.is_some() {
                let statics = subject.statics()?;
                write_statics(&statics, &plan, &store)?;
                summary.extend(statics_summary(&statics));
            }
            store.set_pass(Pass {
                name: "static_analysis".to_owned(),
                status: RunStatus::Complete,
                duration_ns: Some(llmprof_units::Nanos(started.elapsed().as_nanos() as i64)),
                exit_code: None,
            })?;
        }
        let Some(feed) = &feed else {
            if plan.runtime.kind == RuntimeType::Command {
                summary.push(command(&plan, job, cwd, &mut store, &mut interrupt)?);
            } else if plan.runtime.kind.is_serving() {
                let done = serve_configured(&plan, &mut store, &mut interrupt)?;
                summary.extend_from_slice(done.lines());
                if done.was_interrupted() {
                    return Err(Halt::Interrupted);
                }
            }
            return Ok(());
        };
        store.write("inputs.yaml", feed.inputs(&plan))?;
        let mut run = Run {
            plan: &plan,
            subject: &subject,
            feed,
            cwd,
            store: &mut store,
            interrupt: &mut interrupt,
            show,
        };
        let told = match plan.runtime.kind {
            RuntimeType::Pytorch => pytorch::pytorch(&mut run)?,
            _ => native::native(&mut run)?,
        };
        summary = told.lines;
        analysis = Some(told.analysis);
        told.stopped.map_or(Ok(()), Err)
    };
    let (status, error) = match stages() {
        Ok(()) if interrupt.count() > 0 => (RunStatus::Interrupted, None),
        Ok(()) => (RunStatus::Complete, None),
        Err(Halt::Interrupted) => (RunStatus::Interrupted, None),
        Err(Halt::Failed(error)) => (RunStatus::Failed, Some(error)),
    };
    // What was lost stands above every number.
    let issues = store.manifest().issues.iter().map(Issue::in_a_line);
    let summary = issues.chain(summary).collect();
    let is_below = |issue: &Issue| issue.code == "waterfall.below_floor";
    if is_measured
        && store.manifest().issues.iter().any(is_below)
        && let Some(path) = measured::path()
    {
        // A cache that cannot be written is no reason to fail.
        measured::outdone(&path).unwrap_or_else(|failure| failure.warn());
    }
    let issues = store.manifest().issues.clone();
    store.finish(status, error.clone(), clock::now())?;
    Ok(Ended {
        issues,
        dir: job.dir.clone(),
        status,
        error,
        summary,
        analysis,
    })
}

/// Writes `static_compute.{json,md}` and `assumptions.md`.
fn write_statics(statics: &Statics, plan: &Plan, store: &RunDir) -> Result<(), Halt> {
    if plan.output.json {
        let text =
            serde_json::to_string_pretty(statics).expect("the analysis has only string keys");
        store.write("static_compute.json", text + "\n")?;
    }
    if plan.output.markdown {
        store.write(
            "static_compute.md",
            markdown::document(&statics_document(statics)),
        )?;
        let mut assumptions = Document::new("What the derived numbers rest on");
        assumptions.list(assumptions_of(statics));
        store.write("assumptions.md", markdown::document(&assumptions))?;
    }
    Ok(())
}

/// The floor of each phase in a line, below one that says whose they are.
fn statics_summary(statics: &Statics) -> Vec<String> {
    let device = statics.device.as_deref().unwrap_or("no device");
    let title = format!("On paper {} costs at least:", statics.model);
    let phases = statics.phases.iter().map(|(name, phase)| {
        let floor = phase.floor.as_ref().map(|floor| {
            format!(
                ", at least {} on {device} (bound by {})",
                floor.floor_ns, floor.binds
            )
        });
        format!(
            "{name:<12} {}, {} of weights{}",
            phase.sums.flops,
            phase.sums.weight_bytes,
            floor.unwrap_or_default()
        )
    });
    std::iter::once(title).chain(phases).collect()
}
