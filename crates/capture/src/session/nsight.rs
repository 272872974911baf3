//! Stage 2: a timeline by `nsys`, or by our own library where that is off, missing or fails, then counters by `ncu` for the
//! launches that hold most of its time.
//!
//! Each tool runs a worker of its own through the same warm-ups and the same batch, so that the launches of one are those of
//! the other. What was measured before stays where a tool fails.

use std::{
    fmt::Display,
    fs::{File, OpenOptions},
    path::Path,
    time::Instant,
};

use llmprof_record::{
    counters::Counters,
    import::{self, Limits, Profile, nsys_sqlite},
    issue::{Issue, IssueCode},
    kernel_list,
    plan::{NsysPlan, PipelinePlan, Plan, Tier},
    run::{RecordedTrace, RunRecord},
    secrets,
    store::{Pass, RunStatus},
    summary::{kernel_summary_csv, kernel_times},
    trace::Trace,
};
use llmprof_units::{Nanos, Percent};

use super::{
    Halt, Session, cublas_log, cupti,
    own_timeline::record_timeline,
    passes::{Passes, Patience, Start},
    worker_files::not_started,
};
use crate::{
    process::{Launch, environment_variables},
    profiler::nsight::{
        Available, CounterPlan, CoverageRequest, Tool, ToolError,
        importer::{check_importer, find_importer},
        ncu::{self, Selection},
        nsys,
        verdict::judge_tool,
    },
    runner::protocol::{Generate, Instruments, Load},
};

const NSYS: &str = "nsys";
const NCU: &str = "ncu";
/// As `nsys stats` names it.
const KERNEL_SUMMARY: &str = "summary_cuda_gpu_kern_sum.csv";
const LISTED_KERNELS_MAX: usize = 30;

/// Whether a run has a timeline of kernels, whoever records it, or counters.
pub(super) fn has_stages(plan: &Plan) -> bool {
    let pipeline = &plan.pipeline;
    let is_own = pipeline.cupti.applies(plan) && pipeline.cupti.overhead.is_none();
    is_own || pipeline.nsys.is_enabled() || pipeline.ncu.is_enabled()
}

/// Runs both stages as far as they are asked for.
pub(super) fn run_stages(
    session: &mut Session<'_>,
    launch: &Launch,
    request: &Load,
    record: &mut RunRecord,
) -> Result<(), Halt> {
    let pipeline = &session.plan.pipeline;
    let (wants_timeline, wants_counters) = (pipeline.nsys.is_enabled(), pipeline.ncu.is_enabled());
    let by_nsys = if wants_timeline {
        capture_timeline(session, launch, request, record)?
    } else {
        None
    };
    let trace = match by_nsys {
        Some(trace) => Some(trace),
        None => record_timeline(session, launch, request, record)?,
    };
    let Some(trace) = trace else {
        return Ok(());
    };
    write_tables(session, &trace)?;
    if wants_counters {
        capture_counters(session, launch, request, record, &trace)?;
    }
    Ok(())
}

/// The batch as both tools see it.
fn tool_batch(session: &Session<'_>, steps: Option<u64>) -> Result<Generate, Halt> {
    let batches = session.feed.batches();
    let first = batches.first();
    let mut batch = first
        .ok_or_else(|| Halt::failed("the dataset has no batch"))?
        .clone();
    if let Some(steps) = steps {
        for request in &mut batch.requests {
            request.max_new_tokens = request.max_new_tokens.min(steps.saturating_add(1));
        }
    }
    batch.instruments = Instruments {
        module_ranges: session.plan.runtime.module_ranges,
        ..Instruments::default()
    };
    Ok(batch)
}

/// Runs a worker under a tool: warm-ups, then the batch between the calls that the tool waits for. `replayed` has the launches
/// that the tool plans to replay (0 where that is not known), whose times are none of the program's; any other pass is kept.
fn run_under_tool(
    session: &mut Session<'_>,
    tool: &'static str,
    launch: &Launch,
    request: &Load,
    record: &mut RunRecord,
    batch: &Generate,
    replayed: Option<u64>,
) -> Result<ToolRun, Halt> {
    let kind = session.plan.runtime.kind;
    let start = Start {
        launch,
        folder: tool,
        request,
        is_measured: false,
        patience: match replayed {
            Some(_) => Patience::Unlimited,
            None => Patience::Report,
        },
    };
    let (mut passes, _) =
        Passes::start(session, &start, record).map_err(|error| not_started(error, launch, kind))?;
    for number in 0..passes.session.plan.runtime.warmup.max(1) {
        passes.run_rehearsal(&format!("{tool} warm-up {}", number + 1), batch)?;
    }
    let mut watched = batch.clone();
    watched.instruments.cuda_profiler = true;
    let pass = match replayed {
        Some(planned) => {
            passes.replayed_batch(tool, &watched, planned)?;
            None
        }
        None => passes.captured_batch(tool, &watched, true)?.0,
    };
    let exit_code = passes.exit_code()?;
    Ok(ToolRun { pass, exit_code })
}

/// A worker that came to its end under a tool.
struct ToolRun {
    pass: Option<usize>,
    /// Exit code of the tool, not of the worker.
    exit_code: Option<i32>,
}

/// `nsys`, where it can also make a report of what it records: a recording that nothing can read costs minutes.
fn find_timeline_tool(stage: &NsysPlan) -> Result<Tool, ToolError> {
    let tool = Tool::find_tool(NSYS, stage.path.as_deref())?;
    check_report_importer(&tool)?;
    Ok(tool)
}

fn check_report_importer(nsys: &Tool) -> Result<(), ToolError> {
    find_importer(&nsys.program).map_or(Ok(()), |importer| {
        check_importer(&importer).map_err(|why| ToolError::NoImporter { why })
    })
}

/// Why tools of the stages that are on cannot be used here.
pub(super) fn find_missing_tools(plan: &Plan) -> Vec<ToolError> {
    let PipelinePlan { nsys, ncu, .. } = &plan.pipeline;
    let timeline = nsys.is_enabled().then(|| find_timeline_tool(nsys));
    let counters = ncu
        .is_enabled()
        .then(|| Tool::find_tool(NCU, ncu.path.as_deref()));
    [timeline, counters]
        .into_iter()
        .flatten()
        .filter_map(Result::err)
        .collect()
}

fn not_found(error: &ToolError) -> Issue {
    if let ToolError::NoImporter { why } = error {
        return Issue::warning(IssueCode::NsightFailed)
            .with("tool", "nsys (its importer)")
            .with("what", why.as_str())
            .with_hint(format!("{}; the timeline is llmprof's own", error.hint()));
    }
    Issue::error(IssueCode::NsightNoTool)
        .with("why", error.to_string())
        .with_hint(error.hint())
}

/// `top-kernels.yaml`, and the table of kernels that `nsys stats` writes where it did not. The latter is of the range that
/// `pipeline.nsys` is gated to, as the tool's own is.
fn write_tables(session: &mut Session<'_>, trace: &Trace) -> Result<(), Halt> {
    let nsys = &session.plan.pipeline.nsys;
    let gate = nsys.nvtx_capture.as_deref().filter(|_| nsys.gating_nvtx);
    let gated = gate.map(|range| trace.launched_inside(|name| name == range));
    let rows = kernel_times(gated.as_ref().unwrap_or(trace));
    let name = format!("{NSYS}/{KERNEL_SUMMARY}");
    if !session.store.path().join(&name).is_file() {
        session.store.write(&name, kernel_summary_csv(&rows))?;
    }
    let total: Nanos = rows.iter().map(|row| row.total_ns).sum();
    let longest = &rows[..rows.len().min(LISTED_KERNELS_MAX)];
    let list = kernel_list::format_yaml(&kernel_list::list_kernels(longest, total), "the timeline");
    session
        .store
        .write(&format!("{NSYS}/top-kernels.yaml"), list)?;
    Ok(())
}

/// The timeline, which becomes the trace that explains the time; `None` where there is none, and an issue says why.
fn capture_timeline(
    session: &mut Session<'_>,
    launch: &Launch,
    request: &Load,
    record: &mut RunRecord,
) -> Result<Option<Trace>, Halt> {
    let plan = session.plan.pipeline.nsys.clone();
    let folder = session.store.path().join(NSYS);
    let output = folder.join("run");
    let made = find_timeline_tool(&plan)
        .and_then(|tool| Ok((nsys::nsys_profile(&tool, &plan, &output, launch)?, tool)));
    let (watched, tool) = match made {
        Ok(made) => made,
        Err(error) => {
            record.issues.push(not_found(&error));
            return Ok(None);
        }
    };
    let watched = cublas_log::enable_logs(session, watched)?;
    session
        .store
        .write(&format!("{NSYS}/cmd.txt"), format!("{watched}\n"))?;
    let watched = watched.without_credentials(environment_variables());
    let asked = tool_batch(session, None)?;
    let ran = run_under_tool(session, NSYS, &watched, request, record, &asked, None);
    let report = folder.join("run.nsys-rep");
    overwrite_secrets(record, NSYS, &report, &watched);
    let ToolOutcome::Report { pass } = judge_run(NSYS, ran, &folder, &report, record)? else {
        return Ok(None);
    };
    let sqlite = folder.join("run.sqlite");
    let steps = [
        (
            nsys::export_report(&tool, &report, &sqlite),
            &sqlite,
            "export",
        ),
        (
            nsys::kernel_summary(&tool, &report, &folder.join("summary")),
            &folder.join(KERNEL_SUMMARY),
            "stats",
        ),
    ];
    for (command, made, name) in steps {
        if let Err(issue) = convert_report(session, &command, made, name) {
            record.issues.push(issue);
        }
    }
    if !sqlite.is_file() {
        return Ok(None);
    }
    let imported = import::import(&sqlite, &Limits::default());
    if let Err(error) = nsys_sqlite::scrub(&sqlite) {
        record.issues.push(not_scrubbed(NSYS, &sqlite, &error));
    }
    let trace = match imported {
        Ok((_, Profile::Trace(trace))) if !trace.kernels.is_empty() => trace,
        Ok(_) => {
            let issue = Issue::error(IssueCode::NsightNoKernels).with("tool", NSYS);
            record.issues.push(issue);
            return Ok(None);
        }
        Err(error) => {
            record.issues.push(unreadable_report(NSYS, &error));
            return Ok(None);
        }
    };
    cublas_log::read_logs(session, record);
    let kept = (*trace).clone();
    let recorded = RecordedTrace {
        pass,
        trace: *trace,
    };
    record.traces.insert(0, recorded);
    record.save(session.store.path())?;
    Ok(Some(kept))
}

/// The counters of the launches that hold most of the timeline.
fn capture_counters(
    session: &mut Session<'_>,
    launch: &Launch,
    request: &Load,
    record: &mut RunRecord,
    trace: &Trace,
) -> Result<(), Halt> {
    let plan = session.plan.pipeline.ncu.clone();
    let wanted = CoverageRequest {
        coverage: plan.coverage.fraction(),
        range: plan.range.as_deref(),
        steps: Some(plan.steps),
        kernels: &[],
        is_gated: plan.gating_nvtx || plan.range.is_none(),
    };
    let gate = plan.range.as_deref().filter(|_| plan.gating_nvtx);
    let Some(chosen) = CounterPlan::from_trace(trace, &wanted) else {
        let range = plan.range.clone().unwrap_or_default();
        record
            .issues
            .push(Issue::error(IssueCode::NcuNothingToPlan).with("range", range));
        return Ok(());
    };
    let tool = match Tool::find_tool(NCU, plan.path.as_deref()) {
        Ok(tool) => tool,
        Err(error) => {
            record.issues.push(not_found(&error));
            return Ok(());
        }
    };
    let folder = session.store.path().join(NCU);
    let name = plan.range.as_deref().unwrap_or("run");
    let output = folder.join(name);
    let selection = Selection::from_plan(&chosen, gate);
    let made = ncu::ncu_profile(
        &tool,
        &plan,
        &Available::ask_tool(&tool),
        &selection,
        false,
        &output,
        launch,
    );
    let (watched, issues) = match made {
        Ok(made) => made,
        Err(error) => {
            record.issues.push(not_found(&error));
            return Ok(());
        }
    };
    record.issues.extend(issues);
    session
        .store
        .write(&format!("{NCU}/cmd.txt"), format!("{watched}\n"))?;
    let watched = watched.without_credentials(environment_variables());
    let command = describe_command(&tool, session.plan, &chosen);
    session
        .store
        .write(&format!("{NCU}/command.yaml"), command)?;
    session.observer.tell(&announce_plan(&chosen, plan.tier));
    let started = Instant::now();
    let asked = tool_batch(session, Some(plan.steps))?;
    // Only replay of single kernels is shown launch by launch.
    let is_counted = plan.replay_mode == "kernel";
    let planned = Some(if is_counted {
        chosen.launches.len() as u64
    } else {
        0
    });
    let ran = run_under_tool(session, NCU, &watched, request, record, &asked, planned);
    let report = folder.join(format!("{name}.ncu-rep"));
    overwrite_secrets(record, NCU, &report, &watched);
    if let ToolOutcome::Nothing = judge_run(NCU, ran, &folder, &report, record)? {
        return Ok(());
    }
    for page in ["raw", "details"] {
        let made = folder.join(format!("{name}_{page}.csv"));
        if let Err(issue) = print_to_file(&ncu::export_page(&tool, &report, page), &made) {
            record.issues.push(issue);
        }
    }
    record.counters = join_counters(&report, &chosen, started, plan.coverage.fraction(), record);
    if record.counters.is_none() {
        return Ok(());
    }
    session.store.set_pass(Pass {
        name: "ncu counters".to_owned(),
        status: RunStatus::Complete,
        duration_ns: Some(Nanos(started.elapsed().as_nanos() as i64)),
        exit_code: None,
    })?;
    Ok(record.save(session.store.path())?)
}

/// Overwrites the secrets that a tool found, in other processes too, in the report that it left, and says what it keeps.
fn overwrite_secrets(record: &mut RunRecord, tool: &str, report: &Path, launch: &Launch) {
    if !report.is_file() {
        return;
    }
    let opened = OpenOptions::new().read(true).write(true).open(report);
    if let Err(error) = opened.and_then(|file| secrets::blank_file(&file)) {
        record.issues.push(not_scrubbed(tool, report, &error));
    }
    let withheld = launch.env.values().filter(|value| value.is_none()).count();
    record.issues.push(
        Issue::info(IssueCode::NsightEnvironmentKept)
            .with("tool", tool)
            .with("report", in_run(tool, report))
            .with("withheld", withheld),
    );
}

fn not_scrubbed(tool: &str, file: &Path, error: &dyn Display) -> Issue {
    Issue::warning(IssueCode::NsightNotScrubbed)
        .with("report", in_run(tool, file))
        .with("why", error.to_string())
}

/// The file of a tool as people find it in the run directory.
fn in_run(tool: &str, file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!("{tool}/{name}")
}

/// A report that cannot be read.
fn unreadable_report(tool: &str, error: &dyn std::fmt::Display) -> Issue {
    Issue::error(IssueCode::NsightFailed)
        .with("tool", tool)
        .with("what", error.to_string())
}

/// Reads the counters of a report, joined to the launches that were chosen, and says how much they cover; nothing where it has
/// none, and an issue says why.
fn join_counters(
    report: &Path,
    chosen: &CounterPlan,
    started: Instant,
    wanted: f64,
    record: &mut RunRecord,
) -> Option<Counters> {
    let mut counters = match import::import(report, &Limits::default()) {
        Ok((_, Profile::Counters(counters))) if !counters.launches.is_empty() => counters,
        Ok(_) => {
            let issue = Issue::error(IssueCode::NsightNoKernels).with("tool", NCU);
            record.issues.push(issue);
            return None;
        }
        Err(error) => {
            record.issues.push(unreadable_report(NCU, &error));
            return None;
        }
    };
    let unexpected = chosen.join_launches(&mut counters.launches);
    if unexpected > 0 {
        record
            .issues
            .push(Issue::warning(IssueCode::NcuUnexpected).counting(unexpected as u64));
    }
    let told = counters
        .launches
        .iter()
        .filter_map(|launch| launch.stands_for);
    let time: i64 = told.map(|whole| whole.total_ns.0).sum();
    let share = time as f64 / chosen.total_ns.0.max(1) as f64;
    let seconds = started.elapsed().as_secs_f64();
    record.issues.push(
        Issue::info(IssueCode::NcuCovered)
            .with("launches", counters.launches.len())
            .with("share", Percent(share).to_string())
            .with("seconds", format!("{seconds:.1}")),
    );
    if share + 0.005 < wanted {
        record.issues.push(
            Issue::warning(IssueCode::NcuLessCovered)
                .with("share", Percent(share).to_string())
                .with("wanted", Percent(wanted).to_string()),
        );
    }
    Some(*counters)
}

/// What is said before the counters are collected.
fn announce_plan(plan: &CounterPlan, tier: Tier) -> String {
    format!(
        "ncu: {} launches stand for {} of {} device time; about {} s",
        plan.launches.len(),
        Percent(plan.covered),
        plan.total_ns,
        plan.estimated_seconds(tier)
    )
}

/// What came of a tool.
enum ToolOutcome {
    /// A report, and the pass that it was recorded in where that is kept.
    Report { pass: Option<usize> },
    /// Nothing; an issue says why.
    Nothing,
}

/// Judges a tool that ran. Its failure is an issue with its own words, and what it wrote before is used all the same.
fn judge_run(
    tool: &'static str,
    ran: Result<ToolRun, Halt>,
    folder: &Path,
    report: &Path,
    record: &mut RunRecord,
) -> Result<ToolOutcome, Halt> {
    let said = tool_output(folder);
    let (pass, exit_code, why) = match ran {
        Ok(ToolRun { pass, exit_code }) => (Some(pass), exit_code, None),
        Err(Halt::Interrupted) => return Err(Halt::Interrupted),
        Err(Halt::Failed { message, .. }) => (None, None, Some(message)),
    };
    if let Err(refusal) = judge_tool(exit_code, &said, report) {
        let issue = Issue::error(IssueCode::NsightFailed)
            .with("tool", tool)
            .with("what", refusal.what);
        let hint = refusal.hint.map(str::to_owned).or(why);
        record.issues.push(match hint {
            Some(hint) => issue.with_hint(hint),
            None => issue,
        });
    }
    let has_report = std::fs::metadata(report).is_ok_and(|metadata| metadata.len() > 0);
    Ok(match pass.filter(|_| has_report) {
        Some(pass) => ToolOutcome::Report { pass },
        None => ToolOutcome::Nothing,
    })
}

/// What a tool and its worker wrote.
fn tool_output(folder: &Path) -> String {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
    let both = [read("worker.stdout.log"), read("worker.stderr.log")].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Runs a step of a tool that makes a file.
fn convert_report(
    session: &mut Session<'_>,
    command: &Launch,
    made: &Path,
    name: &'static str,
) -> Result<(), Issue> {
    let failed = |what: String| {
        Issue::error(IssueCode::NsightFailed)
            .with("tool", format!("nsys {name}"))
            .with("what", what)
    };
    let folder = session.store.path().join(NSYS);
    let mut child = command
        .spawn(&folder, name)
        .map_err(|error| failed(error.to_string()))?;
    let ended = child
        .wait_after_stop(session.interrupt)
        .map_err(|error| failed(error.to_string()))?;
    let said = child.last_lines(20).join("\n");
    judge_tool(ended.status.code(), &said, made).map_err(|refusal| {
        let issue = failed(refusal.what);
        match refusal.hint {
            Some(hint) => issue.with_hint(hint),
            None => issue,
        }
    })
}

/// Runs a tool whose standard output is a file.
fn print_to_file(command: &Launch, made: &Path) -> Result<(), Issue> {
    let failed = |what: String| {
        Issue::error(IssueCode::NsightFailed)
            .with("tool", "ncu --import")
            .with("what", what)
    };
    let file = File::create(made).map_err(|error| failed(error.to_string()))?;
    let output = command
        .command()
        .stdout(file)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(
        String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    ))
}

/// `command.yaml`: what was asked of ncu, and why.
fn describe_command(tool: &Tool, plan: &Plan, chosen: &CounterPlan) -> String {
    let ncu = &plan.pipeline.ncu;
    let tier = serde_json::to_string(&ncu.tier).unwrap_or_default();
    let mut text = format!(
        "ncu_version: '{}'\ntier: {tier}\nlaunch_skip: {}\nlaunch_count: {}\nfilter_mode: per-launch-config\ncovered: {:.4}\ntotal_ns: {}\nlaunches:\n",
        tool.version, chosen.skip, chosen.count, chosen.covered, chosen.total_ns.0
    );
    for launch in &chosen.launches {
        text += &format!(
            "- kernel: {}\n  grid: {:?}\n  block: {:?}\n  index: {}\n  stands_for: {}\n  total_ns: {}\n",
            serde_json::to_string(&launch.kernel).unwrap_or_default(),
            launch.grid,
            launch.block,
            launch.index,
            launch.stands_for.launches,
            launch.stands_for.total_ns.0
        );
    }
    text
}

/// The command lines of a run, the worker's first, and the tools without which it would run. Which launches ncu profiles is
/// known only from the timeline.
pub(super) fn command_lines(
    plan: &Plan,
    worker: &Launch,
    run: &Path,
) -> (Vec<String>, Vec<ToolError>) {
    let mut lines = vec![worker.to_string()];
    let stages = &plan.pipeline;
    let nsys = stages
        .nsys
        .is_enabled()
        .then(|| nsys_lines(plan, worker, run));
    let ncu = stages
        .ncu
        .is_enabled()
        .then(|| ncu_lines(plan, worker, run));
    let by_nsys = nsys.as_ref().is_some_and(|(_, missing)| missing.is_none());
    if stages.cupti.applies(plan) || (has_stages(plan) && !by_nsys) {
        lines.extend(cupti::recorded_worker(plan, worker, run).map(|launch| launch.to_string()));
    }
    let mut missing = Vec::new();
    for (stage_lines, error) in [nsys, ncu].into_iter().flatten() {
        lines.extend(stage_lines);
        missing.extend(error);
    }
    (lines, missing)
}

/// Commands of a stage, and why its tool cannot run them here.
type StageLines = (Vec<String>, Option<ToolError>);

fn nsys_lines(plan: &Plan, worker: &Launch, run: &Path) -> StageLines {
    let stage = &plan.pipeline.nsys;
    let (tool, missing) = match Tool::find_or_assume(NSYS, stage.path.as_deref()) {
        Ok(tool) => tool,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let missing = missing.or_else(|| check_report_importer(&tool).err());
    let folder = run.join(NSYS);
    let report = folder.join("run.nsys-rep");
    let profile = match nsys::nsys_profile(&tool, stage, &folder.join("run"), worker) {
        Ok(profile) => profile,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let lines = vec![
        cublas_log::with_log_variables(plan, profile, run).to_string(),
        nsys::export_report(&tool, &report, &folder.join("run.sqlite")).to_string(),
        nsys::kernel_summary(&tool, &report, &folder.join("summary")).to_string(),
    ];
    (lines, missing)
}

fn ncu_lines(plan: &Plan, worker: &Launch, run: &Path) -> StageLines {
    let stage = &plan.pipeline.ncu;
    let (tool, missing) = match Tool::find_or_assume(NCU, stage.path.as_deref()) {
        Ok(tool) => tool,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let selection = Selection {
        pattern: None,
        range: stage.range.clone().filter(|_| stage.gating_nvtx),
        skip: 0,
        count: 1,
    };
    let name = stage.range.as_deref().unwrap_or("run");
    let output = run.join(NCU).join(name);
    let available = Available::ask_tool(&tool);
    let made = match ncu::ncu_profile(&tool, stage, &available, &selection, false, &output, worker)
    {
        Ok(made) => made,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let report = output.with_extension("ncu-rep");
    let pages = ["raw", "details"].map(|page| ncu::export_page(&tool, &report, page).to_string());
    let lines = [made.0.to_string()].into_iter().chain(pages).collect();
    (lines, missing)
}
