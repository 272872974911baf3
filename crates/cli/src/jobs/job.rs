//! One job, from its plan to its finished directory.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use llmprof_analysis::{Analysis, statics::Statics};
use llmprof_capture::{
    host,
    process::Interrupt,
    session::{Feed, Halt, Session, find_missing_tools},
    tokenizer::TOKENIZER_FILE,
};
use llmprof_config::hydra::HydraJob;
use llmprof_record::{
    issue::{Issue, IssueCode},
    plan::{ModelPlace, Plan, RuntimeType, Word},
    run::{HostFacts, PassKind, RecordedWeights, RunRecord},
    store::{Pass, RunDir, RunStatus},
};
use llmprof_report::{
    Document,
    compose::memory,
    render::markdown,
    statics::{self, assumptions as assumptions_of, document as statics_document},
    text::run_weights::weights_line,
};

use super::{command::command, direct, dry_run, power, prompts::prompts, sources, visuals};
use crate::{
    agent_summary::print_summary,
    calibration, clock,
    failure::{self, Failure},
    fit, kernel_notes,
    output::{Output, note, warn_of},
    outputs::{self, Results, WantedFiles},
    plan::{PlanPurpose, plan},
    progress::Show,
    serving::serve_configured,
    subject::RunSubject,
    weights,
};

/// Exit code of a job that was interrupted: 128 + SIGINT, as shells have it.
pub(super) const INTERRUPTED: u8 = 130;

/// Exit code of a job that is complete but for samples that could not be read or run.
const SKIPPED: u8 = 3;

pub(super) struct EndedJob {
    pub(super) dir: PathBuf,
    pub(super) status: RunStatus,
    pub(super) error: Option<String>,
    /// What to say about it at the end.
    pub(super) summary: Vec<String>,
    pub(super) analysis: Option<Analysis>,
    /// What should not be trusted.
    pub(super) issues: Vec<Issue>,
}

impl EndedJob {
    pub(super) fn exit_code(&self) -> ExitCode {
        match self.status {
            RunStatus::Complete if self.has_skipped() => ExitCode::from(SKIPPED),
            RunStatus::Complete => ExitCode::SUCCESS,
            RunStatus::Interrupted => ExitCode::from(INTERRUPTED),
            RunStatus::Failed | RunStatus::Running => ExitCode::from(failure::EXIT_CODE),
        }
    }

    /// Whether samples of the dataset were left out.
    fn has_skipped(&self) -> bool {
        let mut issues = self.issues.iter();
        issues.any(|issue| issue.code == IssueCode::DatasetSamplesSkipped)
    }

    pub(super) fn print(&self, output: &mut Output) -> Result<(), Failure> {
        if let Some(error) = &self.error {
            Failure::new(error.clone()).report();
        }
        output.summary(&self.summary)?;
        warn_of(&self.issues);
        let report = self.dir.join("report.html");
        if !report.is_file() {
            return output.line(&format!("{}: {}", self.status, self.dir.display()));
        }
        if self.status != RunStatus::Complete {
            note(&format!("{}: {}", self.status, self.dir.display()));
        }
        output.report(&self.dir)
    }
}

impl EndedJob {
    /// The short answer about the run, where it came so far that there is something to say.
    pub(super) fn print_for_agents(&self, output: &mut Output) -> Result<(), Failure> {
        if let Some(error) = &self.error {
            Failure::new(error.clone()).report();
        }
        print_summary(&self.dir, output)
    }
}

/// Runs a job. A mistake in its request is an error and leaves nothing; whatever happens later is in its directory.
pub(super) fn run(job: &HydraJob, cwd: &Path, show: Show) -> Result<EndedJob, Failure> {
    let plan = plan(&job.composed, PlanPurpose::Run)?;
    let is_direct = plan.pipeline.direct_inference.enable;
    let is_auto = is_judged_by_this_cpu(&plan);
    // Direct inference compares nothing with this CPU, whose peaks take seconds to measure.
    let is_measured = is_auto && !is_direct;
    let mut subject = RunSubject::of_run(&plan)?;
    subject.name_edits(&job.overrides);
    if !is_auto {
        subject.find_device(&plan)?;
    }
    subject.issues.extend(fit::check(&plan, &subject)?);
    let feed = match plan.runtime.kind {
        RuntimeType::None | RuntimeType::Command => None,
        kind if kind.is_serving() => None,
        _ => Some(feed(&plan, &subject, cwd)?),
    };
    if let Some(feed) = &feed {
        check_tokenizer(&plan, feed, cwd)?;
    }
    let mut interrupt = Interrupt::install().map_err(|error| Failure::new(error.to_string()))?;
    let dir = cwd.join(&job.dir);
    let mut store = direct::directory(&dir, &plan, feed.as_ref())?;
    let mut summary = Vec::new();
    let mut analysis = None;
    let mut limit = None;

    let mut stages = || -> Result<(), Halt> {
        store.describe(&plan.experiment, model_name(&plan, job), &job.overrides)?;
        if is_measured {
            // After every mistake has been looked for: it takes seconds.
            calibration::ensure().map_err(|failure| halt(&failure))?;
            subject
                .find_device(&plan)
                .map_err(|failure| halt(&failure))?;
        }
        // Before what describes the machine, which has the limit in force.
        limit = power::limit(&plan, &mut store)?;
        let host = write_request(job, &plan, cwd, &mut store)?;
        for issue in &subject.issues {
            store.add_issue(issue.clone())?;
        }
        if plan.pipeline.static_analysis.enable && knows_model(&plan, job) {
            summary.extend(analyze_statically(&subject, &plan, &mut store)?);
        }
        let weights = weights::describe(&plan, cwd);
        let Some(feed) = &feed else {
            watched(&plan, job, cwd, &mut store, &mut interrupt, &mut summary)?;
            summary.extend(weights.as_ref().map(weights_line));
            return Ok(());
        };
        store.write("inputs.yaml", feed.render_inputs(&plan))?;
        dry_run::warn_of_missing_tools(&find_missing_tools(&plan));
        let mut record = described(&plan, host, weights, &subject, &store)?;
        let mut session = Session {
            plan: &plan,
            feed,
            cwd,
            store: &mut store,
            interrupt: &mut interrupt,
            observer: &show,
        };
        let ran = session.run_passes(&mut record);
        let drawn = visuals::draw(&plan, &mut store, show)?;
        record.issues.extend(drawn.issues());
        if !record.has_times() {
            return ran;
        }
        let run_analysis = analyzed(&record, is_direct)?;
        let predictions = visuals::predictions(store.path(), feed, &drawn)?;
        let notes = kernel_notes::of_run(store.path()).map_err(|failure| halt(&failure))?;
        let results = Results {
            record: &record,
            analysis: &run_analysis,
            device: subject.device.as_ref(),
            predictions: predictions.as_ref(),
            notes: Some(&notes),
        };
        // What was found is printed even where the disk has no room for it.
        summary = results.digest();
        summary.extend(drawn.summary());
        summary.extend(peak_memory(&record));
        let written = outputs::write(&results, WantedFiles::from_plan(plan.output), &mut store);
        analysis = Some(run_analysis);
        ran.and(written.map_err(|failure| halt(&failure)))
    };
    let done = stages();
    let done = power::restore(limit, &mut store).and(done);
    let (status, error) = status(done, interrupt.stop_count() > 0);
    let is_below = |issue: &Issue| issue.code == IssueCode::WaterfallBelowRoofline;
    if is_measured && store.manifest().issues.iter().any(is_below) {
        // A cache that cannot be written is no reason to fail.
        calibration::outdone().unwrap_or_else(|failure| failure.warn());
    }
    let issues = store.manifest().issues.clone();
    let (status, error) = finish(store, status, error);
    Ok(EndedJob {
        issues,
        dir: job.dir.clone(),
        status,
        error,
        summary,
        analysis,
    })
}

/// Refuses texts that the native engine cannot read, before it loads weights.
fn check_tokenizer(plan: &Plan, feed: &Feed, cwd: &Path) -> Result<(), Failure> {
    if plan.runtime.kind != RuntimeType::Native || !feed.is_text() {
        return Ok(());
    }
    let is_named = plan.model.tokenizer.is_some();
    let path = plan.model.path.as_ref();
    if is_named || path.is_some_and(|path| cwd.join(path).join(TOKENIZER_FILE).exists()) {
        return Ok(());
    }
    Err(
        Failure::new("prompts are text, but the model has no tokenizer").hint(
            "model.tokenizer=DIR, or token ids: dataset=synthetic, infer.prompt=null".to_owned(),
        ),
    )
}

/// Whether the model of the plan is what runs: a command or a server runs its own, which the default of the config is not.
fn knows_model(plan: &Plan, job: &HydraJob) -> bool {
    let runs_own = plan.runtime.kind == RuntimeType::Command || plan.runtime.kind.is_serving();
    let mut keys = job.overrides.iter().map(|text| {
        text.split('=')
            .next()
            .unwrap_or(text)
            .trim_start_matches('+')
    });
    !runs_own || keys.any(|key| key == "model" || key.starts_with("model."))
}

/// What runs: the model, or the program of a command; empty for the model of a server that was not named.
fn model_name<'p>(plan: &'p Plan, job: &HydraJob) -> &'p str {
    if knows_model(plan, job) {
        return &plan.model.name;
    }
    let program = plan.runtime.argv.first().map(|Word(text)| text.as_str());
    program
        .filter(|_| plan.runtime.kind == RuntimeType::Command)
        .unwrap_or_default()
}

/// The record of a run before anything ran.
fn described(
    plan: &Plan,
    host: HostFacts,
    weights: Option<RecordedWeights>,
    subject: &RunSubject,
    store: &RunDir,
) -> Result<RunRecord, Halt> {
    let mut record = RunRecord {
        plan: Some(plan.clone()),
        host: Some(host),
        weights,
        ..RunRecord::default()
    };
    subject.describe(&mut record);
    record.save_facts(store.path())?;
    Ok(record)
}

/// Writes what was asked for, and on what machine.
fn write_request(
    job: &HydraJob,
    plan: &Plan,
    cwd: &Path,
    store: &mut RunDir,
) -> Result<HostFacts, Halt> {
    for (path, text) in &job.files {
        store.write(&path.to_string_lossy(), text)?;
    }
    let host = host::collect_facts(crate::VERSION, cwd);
    let facts = serde_json::to_string_pretty(&host).expect("host facts have only string keys");
    store.write("env.json", facts + "\n")?;
    sources::write(plan, cwd, store)?;
    let ncu = &plan.pipeline.ncu;
    if let Some(path) = ncu.kernel_info.as_ref().filter(|_| ncu.is_enabled()) {
        let read = kernel_notes::read(&cwd.join(path));
        let (_, text) = read.map_err(|failure| halt(&failure))?;
        store.write(kernel_notes::KEPT, text)?;
    }
    Ok(host)
}

/// The analysis of what was recorded. Where nothing was to be captured, and no pass is repeated, that is no issue.
fn analyzed(record: &RunRecord, is_direct: bool) -> Result<Analysis, Halt> {
    let mut analysis = llmprof_analysis::analyze(record, None)
        .map_err(|error| Halt::failed(format!("cannot analyze the run: {error}")))?;
    analysis.issues.extend(outputs::saturated(record));
    if is_direct {
        let expected = [
            IssueCode::RunNoCapture,
            IssueCode::LatencyNoWarmUp,
            IssueCode::HardwareUnknown,
        ];
        let issues = &mut analysis.issues;
        issues.retain(|issue| !expected.contains(&issue.code));
    }
    Ok(analysis)
}

/// Writes the last state of a run. The first failure is the one to report.
fn finish(store: RunDir, status: RunStatus, error: Option<String>) -> (RunStatus, Option<String>) {
    match (store.finish(status, error.clone(), clock::now()), error) {
        (Ok(()), error) => (status, error),
        (Err(_), Some(error)) => (RunStatus::Failed, Some(error)),
        (Err(unwritten), None) => {
            let failure = Failure::from(unwritten);
            (RunStatus::Failed, Some(failure.in_a_line()))
        }
    }
}

/// Whether the peaks of this machine's CPU are what the run is compared with: they are measured where they are not known.
fn is_judged_by_this_cpu(plan: &Plan) -> bool {
    let runs = matches!(
        plan.runtime.kind,
        RuntimeType::Native | RuntimeType::Pytorch | RuntimeType::Worker
    );
    runs && plan.device == ModelPlace::Cpu && plan.hardware.spec == "auto"
}

/// The stage of static analysis; its lines for the terminal.
fn analyze_statically(
    subject: &RunSubject,
    plan: &Plan,
    store: &mut RunDir,
) -> Result<Vec<String>, Halt> {
    let started = std::time::Instant::now();
    let mut summary = Vec::new();
    if subject.model.is_some() {
        let statics = subject.statics().map_err(|failure| halt(&failure))?;
        write_statics(&statics, plan, store)?;
        summary.extend(statics::sentences::phases_summary(&statics));
    }
    store.set_pass(Pass {
        name: "static_analysis".to_owned(),
        status: RunStatus::Complete,
        duration_ns: Some(llmprof_units::Nanos(started.elapsed().as_nanos() as i64)),
        exit_code: None,
    })?;
    Ok(summary)
}

/// A run of what takes no prompts from us: a command, a server that is loaded, or nothing.
fn watched(
    plan: &Plan,
    job: &HydraJob,
    cwd: &Path,
    store: &mut RunDir,
    interrupt: &mut Interrupt,
    summary: &mut Vec<String>,
) -> Result<(), Halt> {
    // Asked for before there was a command to end.
    if interrupt.stop_count() > 0 {
        return Err(Halt::Interrupted);
    }
    if plan.runtime.kind == RuntimeType::Command {
        summary.push(command(plan, job, cwd, store, interrupt)?);
    } else if plan.runtime.kind.is_serving() {
        let done = serve_configured(plan, store, interrupt).map_err(|failure| halt(&failure))?;
        summary.extend_from_slice(done.lines());
        if done.was_interrupted() {
            return Err(Halt::Interrupted);
        }
        if let Some(failure) = done.failure() {
            return Err(halt(&failure));
        }
    }
    Ok(())
}

/// How the stages ended, with the error where they failed.
fn status(done: Result<(), Halt>, was_interrupted: bool) -> (RunStatus, Option<String>) {
    match done {
        Ok(()) if was_interrupted => (RunStatus::Interrupted, None),
        Ok(()) => (RunStatus::Complete, None),
        Err(Halt::Interrupted) => (RunStatus::Interrupted, None),
        Err(Halt::Failed { message, hint }) => {
            let hint = hint.map(|hint| format!("\nhint: {hint}"));
            (RunStatus::Failed, Some(message + &hint.unwrap_or_default()))
        }
    }
}

fn feed(plan: &Plan, subject: &RunSubject, cwd: &Path) -> Result<Feed, Failure> {
    Feed::from_plan(plan, prompts(plan, subject, cwd)?.as_ref()).map_err(|error| {
        let failure = Failure::new(error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint.to_owned()),
            None => failure,
        }
    })
}

fn halt(failure: &Failure) -> Halt {
    Halt::failed(failure.in_a_line())
}

/// The largest batch of the plain passes, in a line.
fn peak_memory(record: &RunRecord) -> Option<String> {
    let plain = record.passes_of(PassKind::Plain);
    let facts = plain.flat_map(|(_, pass)| &pass.allocator);
    let largest = facts.max_by_key(|facts| facts.peak_allocated_bytes)?;
    Some(memory::sentences::peak(largest))
}

/// Writes `static_compute.{json,md}`, also under `static_analysis/`, and `assumptions.md`.
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
        let mut assumptions = Document::new("Assumptions");
        assumptions.list(assumptions_of(statics));
        store.write("assumptions.md", markdown::document(&assumptions))?;
    }
    for (is_there, name) in [
        (plan.output.json, "static_compute.json"),
        (plan.output.markdown, "static_compute.md"),
    ] {
        if is_there {
            store.link(name, &format!("static_analysis/{name}"))?;
        }
    }
    Ok(())
}
