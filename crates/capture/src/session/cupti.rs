//! The stage of our own CUPTI library: one more worker, which is recorded while it runs one batch.
//!
//! It is a process of its own, since CUPTI serves one tool at a time and torch's profiler is another.

use std::path::{Path, PathBuf};

use llmprof_record::{
    import::{Limits, wire},
    issue::{Issue, IssueCode},
    plan::Plan,
    run::{RecordedTrace, RunRecord},
    store::{Pass, RunDir, RunStatus},
    trace::{RangeKind, Ranges, Trace},
};
use llmprof_units::{Nanos, Share};
use llmprof_wire::Options;

use super::{
    Halt, Session, Sliced,
    passes::{Passes, Patience, Start},
    slices,
    worker_files::not_started,
};
use crate::{
    host_stacks::HostSampler,
    process::Launch,
    profiler::{Cupti, Recording, find_library, quarter_of_free},
    runner::protocol::{Generate, Instruments, Load},
};

/// Where wire files and the worker's logs are.
const FOLDER: &str = "cupti";

/// Marks the stage as one that did not come to its end; the issue says what is left of it.
pub(super) fn broken_off(halt: &Halt, store: &mut RunDir) -> Result<Issue, Halt> {
    let why = halt.first_line();
    let status = match halt {
        Halt::Failed { .. } => RunStatus::Failed,
        Halt::Interrupted => RunStatus::Interrupted,
    };
    store.set_pass(Pass {
        name: FOLDER.to_owned(),
        status,
        duration_ns: None,
        exit_code: None,
    })?;
    let issue = Issue::error(IssueCode::CuptiBrokenOff).with("why", why.to_string());
    let files = wire::wire_files(&store.path().join(FOLDER)).unwrap_or_default();
    if files.is_empty() {
        return Ok(issue);
    }
    Ok(issue.with("folder", FOLDER))
}

fn options_of_plan(plan: &Plan) -> Options {
    let settings = &plan.pipeline.cupti;
    Options {
        overhead_ppm: settings.overhead.map_or(0, Share::ppm),
        // Without a budget the worker ends when recording does.
        detach: settings.detach && settings.overhead.is_some(),
        all_calls: settings.all_calls,
        ..Options::default()
    }
}

/// The worker as the stage would start it, but for the channel over which recording begins; `None` without our library.
pub(super) fn recorded_worker(plan: &Plan, worker: &Launch, run: &Path) -> Option<Launch> {
    let cupti = Cupti {
        library: find_library().ok()?,
        directory: run.join(FOLDER),
        control: None,
        options: Options {
            begin: false,
            ..options_of_plan(plan)
        },
        range: None,
    };
    Some(cupti.apply_to(worker.clone()))
}

/// Runs the stage. Where CUDA cannot be recorded there are issues and nothing else: torch's profiler may still do.
pub(super) fn run_stage(
    session: &mut Session<'_>,
    launch: &Launch,
    request: &Load,
    record: &mut RunRecord,
) -> Result<(), Halt> {
    let unavailable = |why: String| Issue::warning(IssueCode::CuptiUnavailable).with("why", why);
    let library = match find_library() {
        Ok(library) => library,
        Err(missing) => {
            let issue = unavailable(missing.to_string()).with("missing", "library");
            record.issues.push(issue);
            return Ok(());
        }
    };
    let batches = session.feed.batches();
    let Some(batch) = batches.first() else {
        return Err(Halt::failed("the dataset has no batch"));
    };
    let directory = session.store.path().join(FOLDER);
    let failed = |error: std::io::Error| {
        Halt::failed(format!(
            "cannot record into {}: {error}",
            directory.display()
        ))
    };
    let folder = session.store.folder().create_folder(FOLDER);
    folder.map_err(failed)?;
    let settings = &session.plan.pipeline.cupti;
    let options = Options {
        most_bytes: quarter_of_free(&directory).map_or(0, |most| most.0),
        ..options_of_plan(session.plan)
    };
    let mut recording = Recording::prepare(library, &directory, options).map_err(failed)?;
    let launch = recording.apply_to(launch.clone());
    let command = format!("{FOLDER}/cmd.txt");
    session.store.write(&command, format!("{launch}\n"))?;
    let asked = Generate {
        instruments: Instruments {
            module_ranges: session.plan.runtime.module_ranges,
            ..Instruments::default()
        },
        ..batch.clone()
    };
    let start = Start {
        launch: &launch,
        folder: FOLDER,
        request,
        is_measured: false,
        patience: Patience::Usual,
    };
    let kind = session.plan.runtime.kind;
    let (mut passes, _) = Passes::start(session, &start, record)
        .map_err(|error| not_started(error, &launch, kind))?;
    // With the same ranges, so that graphs that carry them are captured before anything counts.
    for number in 0..passes.session.plan.runtime.warmup.max(1) {
        passes.run_rehearsal(&format!("cupti warm-up {}", number + 1), &asked)?;
    }
    if let Err(why) = recording.start() {
        passes.end_worker(Ok(()))?;
        record.issues.push(unavailable(why));
        return Ok(());
    }
    let sampler = HostSampler::start(&directory, settings.overhead).map_err(failed)?;
    for process in recording.processes() {
        sampler.add_process(process);
    }
    let (pass, answer) = passes.captured_batch(FOLDER, &asked, true)?;
    recording.stop();
    let host_issues = sampler.stop();
    passes.end_worker(Ok(()))?;
    record.issues.extend(recording.take_issues());
    record.issues.extend(host_issues);
    if batches.len() > 1 {
        record
            .issues
            .push(Issue::info(IssueCode::CuptiFirstBatch).with("batches", batches.len()));
    }
    let files = wire::wire_files(&directory).map_err(failed)?;
    record.issues.extend(scrub_wire_files(&files));
    let trace = wire::read_files(&files, &Limits::default())
        .map_err(|error| Halt::failed(error.to_string()))?;
    keep_recording(
        session,
        RecordedTrace { pass, trace },
        answer.start_ns,
        record,
    )
}

/// Takes what looks like a credential out of wire files; an issue for each that it could not be taken out of.
pub fn scrub_wire_files(files: &[PathBuf]) -> Vec<Issue> {
    let mut issues = Vec::new();
    for file in files {
        if let Err(error) = wire::scrub(file) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            issues.push(
                Issue::warning(IssueCode::WireNotScrubbed)
                    .with("file", name.into_owned())
                    .with("why", error.to_string()),
            );
        }
    }
    issues
}

/// Puts the recording of the batch that began then into the record. Within a budget it may hold no slice, and is left out.
fn keep_recording(
    session: &Session<'_>,
    mut recorded: RecordedTrace,
    begin: Nanos,
    record: &mut RunRecord,
) -> Result<(), Halt> {
    let settings = &session.plan.pipeline.cupti;
    if let Some(share) = settings.overhead {
        let trace = &mut recorded.trace;
        let sliced = Sliced {
            share,
            is_bounded: false,
        };
        leave_out_warm_up(trace, begin);
        let mut kinds = trace.ranges.kind.iter();
        let has_slices = kinds.any(|kind| *kind == RangeKind::CAPTURE);
        record
            .issues
            .extend(sliced.into_issues(has_slices, &trace.issues));
        if !has_slices {
            record.issues.append(&mut trace.issues);
            return Ok(());
        }
        record.issues.push(Issue::info(IssueCode::CuptiSlices));
        // Where it was to detach and did not, the files say so.
        record
            .issues
            .extend((!settings.detach).then(slices::cupti_stays));
    }
    // The cheaper recording explains the time; torch's operators stand beside it.
    record.traces.insert(0, recorded);
    Ok(record.save(session.store.path())?)
}

/// Leaves out what ended before the recorded batch began: ranges are recorded between slices too, those of warm-ups as well.
fn leave_out_warm_up(trace: &mut Trace, begin: Nanos) {
    let mut ranges = Ranges::default();
    for range in trace.ranges.rows() {
        if range.start.saturating_add(range.duration) >= begin.0 {
            ranges.push(range);
        }
    }
    trace.ranges = ranges;
}
