//! `kernels profile`: counters of listed kernels in one run of a program.

use std::{
    fs::OpenOptions,
    io::ErrorKind,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use llmprof_capture::{
    process::{Interrupt, Launch, environment_variables},
    profiler::nsight::{
        Available, CounterPlan, CoverageRequest, Tool, ToolError,
        ncu::{self, Selection},
        progress::follow_logs,
        verdict::judge_tool,
    },
    session::{Observer, Outcome},
};
use llmprof_record::{
    import::{self, Limits, Profile},
    kernel_list::{ListedKernel, name_pattern},
    plan::{NcuPlan, Tier, Word},
    secrets,
    store::{Folder, claim_folder, write_atomically},
    trace::Trace,
};
use llmprof_report::compose::kernel_report::sentences;

use super::{listed, top::trace_of_run};
use crate::{
    args_kernels::{KernelProfileArgs, TierArg},
    failure::Failure,
    output::{Output, warn_of},
    progress::Show,
};

const NAME: &str = "kernels";
const LOG_BYTES_MAX: u64 = 64 << 20;

pub(super) fn profile(args: &KernelProfileArgs, output: &mut Output) -> Result<(), Failure> {
    let mut kernels = listed::read(&args.kernels)?;
    kernels.truncate(args.topk.unwrap_or(kernels.len()).max(1));
    let chosen = args
        .timeline
        .as_deref()
        .map(|timeline| planned(timeline, args, &kernels))
        .transpose()?;
    let selection = match &chosen {
        Some(chosen) => Selection::from_plan(chosen, None),
        None => Selection {
            pattern: Some(patterns(&kernels)),
            range: None,
            skip: args.skip,
            count: args.count.max(1),
        },
    };
    let mut said = Output::stderr();
    match &chosen {
        Some(chosen) => said
            .line(&sentences::planned_launches(
                chosen.launches.len(),
                chosen.kernels.len(),
                chosen.covered,
                chosen.total_ns,
                chosen.estimated_seconds(args.tier.into()),
            ))
            .and_then(|()| match args.coverage.fraction() {
                wanted if chosen.covered < wanted => {
                    said.line(&sentences::below_coverage(chosen.covered, wanted))
                }
                _ => Ok(()),
            })?,
        None => {
            said.line("without --timeline it is not known which share of GPU time is covered")?;
        }
    }
    let (launch, tool) = command(args, &selection)?;
    if args.dry_run {
        return output.line(&launch.to_string());
    }
    claim_folder(&args.output).map_err(|error| Failure::directory(&error, "-o DIR"))?;
    write_atomically(
        &args.output.join("cmd.txt"),
        format!("{launch}\n").as_bytes(),
    )?;
    let started = Instant::now();
    let planned = chosen.as_ref().map_or(0, |plan| plan.launches.len() as u64);
    let launch = launch.without_credentials(environment_variables());
    let ran = run(&launch, &args.output, planned);
    without_secrets(&args.output, &mut said)?;
    ran?;
    let report = args.output.join(format!("{NAME}.ncu-rep"));
    for page in ["raw", "details"] {
        print(
            &ncu::export_page(&tool, &report, page),
            &args.output.join(format!("{NAME}_{page}.csv")),
        )?;
    }
    said.line(&missed(&report, chosen.as_ref(), &kernels)?)?;
    said.line(&format!("{:.1} s", started.elapsed().as_secs_f64()))?;
    output.line(&report.display().to_string())
}

impl From<TierArg> for Tier {
    fn from(tier: TierArg) -> Self {
        match tier {
            TierArg::Basic => Self::Basic,
            TierArg::Roofline => Self::Roofline,
            TierArg::Full => Self::Full,
        }
    }
}

/// The plan of a timeline.
fn planned(
    timeline: &Path,
    args: &KernelProfileArgs,
    kernels: &[ListedKernel],
) -> Result<CounterPlan, Failure> {
    let trace = trace(timeline)?;
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.name.clone()).collect();
    let wanted = CoverageRequest {
        coverage: args.coverage.fraction(),
        range: None,
        steps: None,
        kernels: &names,
        is_gated: false,
    };
    CounterPlan::from_trace(&trace, &wanted)
        .filter(|plan| !plan.launches.is_empty())
        .ok_or_else(|| {
            Failure::new(format!(
                "{} has none of the kernels of {}",
                timeline.display(),
                args.kernels.display()
            ))
        })
}

fn trace(timeline: &Path) -> Result<Trace, Failure> {
    if let Some(trace) = trace_of_run(timeline)? {
        return Ok(trace);
    }
    let (_, profile) = import::import(timeline, &Limits::default())
        .map_err(|error| Failure::new(error.to_string()))?;
    match profile {
        Profile::Trace(trace) => Ok(*trace),
        _ => Err(Failure::new(format!(
            "{} is not a timeline",
            timeline.display()
        ))),
    }
}

/// Patterns of a list as one.
fn patterns(kernels: &[ListedKernel]) -> String {
    let all: Vec<String> = kernels
        .iter()
        .map(|kernel| {
            let own = kernel.regex.clone();
            format!("({})", own.unwrap_or_else(|| name_pattern(&kernel.name)))
        })
        .collect();
    all.join("|")
}

fn command(args: &KernelProfileArgs, selection: &Selection) -> Result<(Launch, Tool), Failure> {
    // The key of a run is an argument of this command.
    let hint = |error: &ToolError| error.hint().replace("pipeline.ncu.path=PATH", "--ncu PATH");
    let failed = |error: ToolError| Failure::new(error.to_string()).hint(hint(&error));
    let (tool, missing) = Tool::find_or_assume("ncu", args.ncu.as_deref()).map_err(failed)?;
    if let Some(failure) = missing.map(failed) {
        if !args.dry_run {
            return Err(failure);
        }
        failure.warn();
    }
    let (program, rest) = args
        .command
        .split_first()
        .ok_or_else(|| Failure::new("no program to profile"))?;
    let program = Launch::new(program).args(rest.iter().cloned());
    let plan = NcuPlan {
        tier: args.tier.into(),
        range: None,
        args: args.ncu_args.iter().cloned().map(Word).collect(),
        ..NcuPlan::default()
    };
    let report = args.output.join(NAME);
    let made = ncu::ncu_profile(
        &tool,
        &plan,
        &Available::ask_tool(&tool),
        selection,
        true,
        &report,
        &program,
    );
    let (launch, issues) =
        made.map_err(|error| Failure::new(error.to_string()).hint(error.hint()))?;
    warn_of(&issues);
    Ok((launch, tool))
}

/// Runs the program under ncu, and shows how many of the launches are profiled: `planned`, or 0 where that is not known.
fn run(launch: &Launch, folder: &Path, planned: u64) -> Result<(), Failure> {
    let mut interrupt = Interrupt::install().map_err(|error| Failure::new(error.to_string()))?;
    let mut child = launch
        .spawn(folder, NAME)
        .map_err(|error| Failure::new(error.to_string()))?;
    let stage = Show::detect().stage_begins("ncu", planned);
    let launches = AtomicU64::new(0);
    let at = |done: u64| {
        launches.store(done, Ordering::Relaxed);
        stage.step_done(done);
    };
    let logs = [child.stdout().to_owned(), child.stderr().to_owned()];
    let ended = follow_logs(&[&logs[0], &logs[1]], &at, || {
        child.wait(&mut interrupt, None)
    })
    .map_err(|error| Failure::new(error.to_string()))?;
    if ended.status.success() {
        stage.stage_ends(Outcome::Profiled {
            launches: launches.into_inner(),
        });
    }
    let said = child.last_lines(200).join("\n");
    let stdout = std::fs::read_to_string(child.stdout()).unwrap_or_default();
    let report = folder.join(format!("{NAME}.ncu-rep"));
    judge_tool(ended.status.code(), &(said + "\n" + &stdout), &report).map_err(|problem| {
        Failure::new(format!(
            "ncu failed: {} (its log is {})",
            problem.what,
            child.stdout().display()
        ))
        .hint(problem.hint.map(str::to_owned))
    })
}

/// ncu keeps the environment that it finds in its report, and a program may print anything: values of secret variables are
/// overwritten in the one and taken out of the other.
fn without_secrets(folder: &Path, said: &mut Output) -> Result<(), Failure> {
    let report = folder.join(format!("{NAME}.ncu-rep"));
    let opened = OpenOptions::new().read(true).write(true).open(&report);
    let blanked = match opened {
        Ok(file) => secrets::blank_file(&file).map(|_| ()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = blanked {
        said.line(&format!(
            "secrets in {} may not be overwritten: {error}",
            report.display()
        ))?;
    }
    let failed = |error: std::io::Error| {
        Failure::new(format!("cannot write to {}: {error}", folder.display()))
    };
    let folder = Folder::open(folder).map_err(failed)?;
    for stream in ["stdout", "stderr"] {
        let name = format!("{NAME}.{stream}.log");
        // A longer log is left as the program wrote it, like those of a run.
        if let Ok(log) = folder.read(&name, LOG_BYTES_MAX) {
            let text = String::from_utf8_lossy(&log);
            folder.replace(&name, text.as_bytes()).map_err(failed)?;
        }
    }
    Ok(())
}

fn print(launch: &Launch, file: &Path) -> Result<(), Failure> {
    let failed = |what: String| Failure::new(format!("cannot write {}: {what}", file.display()));
    let output = launch.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    Ok(write_atomically(file, &output.stdout)?)
}

/// What was profiled, and which kernels were not.
fn missed(
    report: &Path,
    chosen: Option<&CounterPlan>,
    kernels: &[ListedKernel],
) -> Result<String, Failure> {
    let (_, profile) = import::import(report, &Limits::default())
        .map_err(|error| Failure::new(error.to_string()))?;
    let Profile::Counters(mut counters) = profile else {
        return Err(Failure::new(format!(
            "{} has no counters",
            report.display()
        )));
    };
    let planned = chosen.map(|chosen| {
        let unexpected = chosen.join_launches(&mut counters.launches);
        let told = counters
            .launches
            .iter()
            .filter_map(|launch| launch.stands_for);
        let time: i64 = told.map(|whole| whole.total_ns.0).sum();
        (time as f64 / chosen.total_ns.0.max(1) as f64, unexpected)
    });
    let seen = |kernel: &&ListedKernel| {
        let own = llmprof_record::kernel_name::canonical(&kernel.name);
        !counters
            .launches
            .iter()
            .any(|launch| launch.canonical == own)
    };
    let absent = kernels.iter().filter(seen).count();
    let launches = counters.launches.len();
    Ok(sentences::profiled_launches(
        launches,
        planned,
        [absent, kernels.len()],
    ))
}
