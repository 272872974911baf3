//! `record`: watch any command.

use std::{
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus},
};

use llmprof_capture::session::{Sliced, cupti_stays};
use llmprof_capture::{
    host_stacks::HostSampler,
    process::{Interrupt, Launch},
    profiler::{
        Channel, CommandOutput, Cupti, Schedule, Watched, WatchedEnd, find_library,
        quarter_of_free, run_watched,
    },
};
use llmprof_record::{
    import::wire,
    issue::{Issue, IssueCode},
    store::{Pass, RunDir, RunStatus},
};
use llmprof_report::text::issue_line;
use llmprof_units::Share;
use llmprof_wire::Options;

use crate::profiles::{self, Profiled, files::free};
use crate::recording::{WIRE_FOLDER, dropped_issues, nothing_recorded, scrub};
use crate::{args::RecordArgs, clock, failure::Failure, output::Output, subject, viewing};

/// Exit code of our own failures; others are the command's.
pub(crate) const OWN_FAILURE: u8 = 125;

/// Runs the command, recorded, and says what it did on its GPUs. The exit code is the command's, or our own where the command
/// succeeded and nothing was recorded.
pub(crate) fn record(args: &RecordArgs, output: &mut Output) -> ExitCode {
    match run(args, output) {
        Ok((status, false)) if status.success() => ExitCode::from(OWN_FAILURE),
        Ok((status, _)) => exit_code(status),
        Err(failure) => {
            failure.report();
            ExitCode::from(OWN_FAILURE)
        }
    }
}

/// As a shell would say it: 128 and the signal for a command that was killed.
fn exit_code(status: ExitStatus) -> ExitCode {
    let signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signal).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// How the command ended, and whether anything of a GPU was recorded.
fn run(args: &RecordArgs, output: &mut Output) -> Result<(ExitStatus, bool), Failure> {
    let Some((program, rest)) = args.command.split_first() else {
        return Err(Failure::new("no command to record"));
    };
    let library = find_library().map_err(|missing| {
        let hint = missing.hint();
        Failure::new(missing.to_string()).hint(hint)
    })?;
    // A mistake in the request is found before the command starts.
    if args.no_detach && args.overhead.is_none() && args.length.is_none() {
        return Err(
            Failure::new("--no-detach does nothing where everything is recorded")
                .hint("add --overhead 2%, or --for 30s".to_owned()),
        );
    }
    args.device.as_deref().map(subject::device).transpose()?;
    let dir = args
        .output
        .clone()
        .unwrap_or_else(|| default_directory(program));
    let mut interrupt = Interrupt::install().map_err(failure)?;
    let mut store = RunDir::create(&dir, clock::now(), crate::VERSION)
        .map_err(|error| Failure::directory(&error, "-o DIR"))?;
    let launch = Launch::new(program.clone()).args(rest.iter().cloned());
    let ran = recorded(args, launch, library, &mut interrupt, &mut store)
        .and_then(|recorded| Ok((keep(args, &recorded, &mut store)?, recorded.end)));
    let (kept, end) = match ran {
        Ok(ran) => ran,
        Err(failure) => return Err(failed(store, failure)),
    };
    let is_recorded = kept.as_ref().is_ok_and(Profiled::has_device_events);
    let missing = match &kept {
        Ok(kept) => kept.unwritten().map(ToString::to_string),
        Err(why) => Some(issue_line(why)),
    };
    match (missing, status(&end)) {
        // What was found is printed below, with this failure.
        (Some(why), RunStatus::Complete) => {
            let _ = store.finish(RunStatus::Failed, Some(why), clock::now());
        }
        (why, status) => store.finish(status, why, clock::now())?,
    }
    // What the command printed comes first.
    let _ = std::io::stdout().flush();
    match kept {
        Ok(profiled) if args.json => profiled.print(true, &dir, output)?,
        Ok(profiled) => {
            let mut words = Output::stderr();
            profiled.print(false, &dir, &mut words)?;
            if args.show.view && !end.was_interrupted {
                viewing::show_runs(&[dir], &mut words)?;
            }
        }
        Err(why) => {
            let mut words = Output::stderr();
            words.line(&issue_line(&why))?;
            words.line(&format!("run: {}", dir.display()))?;
        }
    }
    Ok((end.status, is_recorded))
}

struct RecordedCommand {
    end: WatchedEnd,
    processes: Vec<Watched>,
    /// What of its host threads was not sampled.
    host_issues: Vec<Issue>,
    /// Where its wire files are.
    directory: PathBuf,
}

/// Runs the command to its end with the library inside.
fn recorded(
    args: &RecordArgs,
    launch: Launch,
    library: PathBuf,
    interrupt: &mut Interrupt,
    store: &mut RunDir,
) -> Result<RecordedCommand, Failure> {
    store.describe("record", "", &[])?;
    store.write(&format!("{WIRE_FOLDER}/cmd.txt"), format!("{launch}\n"))?;
    let directory = std::path::absolute(store.path().join(WIRE_FOLDER)).map_err(failure)?;
    let mut channel = Channel::open().map_err(failure)?;
    let most = args.max_size.or_else(|| quarter_of_free(&directory));
    let schedule = Schedule {
        after: args.after,
        length: args.length,
        most: most.map(|most| (directory.clone(), most)),
    };
    let cupti = Cupti {
        library,
        directory,
        control: Some(channel.path()),
        options: Options {
            all_calls: args.all_calls,
            begin: schedule.begins_at_once(),
            overhead_ppm: args.overhead.map_or(0, Share::ppm),
            detach: !args.no_detach,
            most_bytes: most.map_or(0, |most| most.0.max(1)),
            ..Options::default()
        },
        range: args.nvtx_range.clone(),
    };
    let launch = cupti.apply_to(launch);
    let command_output = if args.json {
        CommandOutput::Stderr
    } else {
        CommandOutput::Stdout
    };
    let sampler = (!args.no_host_stacks)
        .then(|| HostSampler::start(&cupti.directory, args.overhead))
        .transpose()
        .map_err(failure)?;
    let end = run_watched(
        &launch,
        &mut channel,
        &schedule,
        command_output,
        sampler.as_ref(),
        interrupt,
    );
    let host_issues = sampler.map(HostSampler::stop).unwrap_or_default();
    let end = end.map_err(failure)?;
    Ok(RecordedCommand {
        end,
        host_issues,
        processes: channel.processes().cloned().collect(),
        directory: cupti.directory,
    })
}

/// What was recorded, in the run directory; an issue where the command did not use CUDA.
fn keep(
    args: &RecordArgs,
    recorded: &RecordedCommand,
    store: &mut RunDir,
) -> Result<Result<Profiled, Issue>, Failure> {
    let processes = &recorded.processes;
    let mut issues = dropped_issues(processes);
    issues.extend(recorded.host_issues.iter().cloned());
    let was_full = recorded.end.was_full;
    issues.extend(was_full.then(|| Issue::error(IssueCode::RecordMaxSize)));
    // Where it was to detach and did not, the files say so.
    issues.extend(
        args.overhead
            .filter(|_| args.no_detach)
            .map(|_| cupti_stays()),
    );
    store.set_pass(Pass {
        name: "record".to_owned(),
        status: status(&recorded.end),
        duration_ns: Some(recorded.end.duration),
        exit_code: recorded.end.status.code(),
    })?;
    // Whatever becomes of the rest.
    for issue in scrub(&recorded.directory) {
        store.add_issue(issue)?;
    }
    if !uses_cuda(&recorded.directory, processes)? {
        let why = nothing_recorded(processes);
        store.add_issue(why.clone())?;
        return Ok(Err(why));
    }
    issues.extend(never_on(args, processes));
    let sliced = args.overhead.map(|share| Sliced {
        share,
        is_bounded: is_bounded(args),
    });
    let device = args.device.as_deref();
    let directory = std::slice::from_ref(&recorded.directory);
    profiles::keep(
        directory,
        &title(&args.command),
        None,
        device,
        sliced,
        issues,
        store,
    )
    .map(Ok)
}

/// What to call a command: its program, and the script that an interpreter runs. Other arguments may be anybody's secrets.
fn title(command: &[String]) -> String {
    let file = |word: &String| {
        let path = Path::new(word);
        path.file_name()
            .map_or(word.clone(), |name| name.to_string_lossy().into_owned())
    };
    let is_script = |word: &&String| {
        let extension = Path::new(word).extension();
        extension.is_some_and(|extension| extension == "py" || extension == "sh")
    };
    let program = command.iter().take(1);
    let script = command.iter().skip(1).find(is_script);
    program
        .chain(script)
        .map(file)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Marks the run as failed; the failure itself is the one to report.
fn failed(store: RunDir, failure: Failure) -> Failure {
    let _ = store.finish(RunStatus::Failed, Some(failure.to_string()), clock::now());
    failure
}

fn status(end: &WatchedEnd) -> RunStatus {
    match end {
        end if end.was_interrupted => RunStatus::Interrupted,
        end if end.status.success() => RunStatus::Complete,
        _ => RunStatus::Failed,
    }
}

/// Whether some process used CUDA, or tried to.
fn uses_cuda(directory: &Path, processes: &[Watched]) -> Result<bool, Failure> {
    let files = wire::wire_files(directory).map_err(failure)?;
    let uses = |process: &Watched| process.cupti.is_some() || process.refused.is_some();
    Ok(!files.is_empty() && processes.iter().any(uses))
}

/// Where recording was bounded, and none of the processes that used CUDA did so within the bounds.
fn never_on(args: &RecordArgs, processes: &[Watched]) -> Option<Issue> {
    let is_on = |process: &Watched| process.has_captured || process.refused.is_some();
    if !is_bounded(args) || args.overhead.is_some() || processes.iter().any(is_on) {
        return None;
    }
    let never = Issue::error(IssueCode::RecordNeverOn);
    Some(match (&args.nvtx_range, args.length) {
        (Some(range), _) => never.with("range", range.as_str()),
        (None, Some(_)) => never.with("bound", "for"),
        (None, None) => never.with("bound", "after"),
    })
}

fn is_bounded(args: &RecordArgs) -> bool {
    args.after.is_some() || args.length.is_some() || args.nvtx_range.is_some()
}

/// `runs/record/<name of the program>/<time>`.
fn default_directory(program: &str) -> PathBuf {
    let name = Path::new(program)
        .file_name()
        .map_or_else(|| "command".into(), |name| name.to_string_lossy());
    let time = clock::directory_name();
    free(&Path::new("runs").join("record").join(&*name).join(time))
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}
