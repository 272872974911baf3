//! The stage of our own library: one more worker, which is recorded while it runs one batch.
//!
//! It is a process of its own, since CUPTI serves one tool at a time and torch's profiler is another.

use llmprof_analysis::run::{MeasuredPass, PassKind};
use llmprof_capture::{
    process::Launch,
    profiler::{Recording, find_library},
    runner::protocol::{Generate, Generated, Instruments, Load},
};
use llmprof_record::{
    import::{Limits, wire},
    issue::{Issue, Severity},
    store::{Pass, RunDir, RunStatus},
    trace::{RangeKind, Ranges, Trace},
};
use llmprof_units::{Nanos, Share};
use llmprof_wire::Options;

use super::{
    halt::Halt,
    job::Run,
    passes::{Passes, limits},
    pytorch::not_started,
};
use crate::slices::{self, Sliced};

/// Where wire files and the worker's logs are.
const FOLDER: &str = "cupti";

/// What the stage gave.
pub(super) struct Recorded {
    /// Everything that was recorded.
    pub(super) trace: Trace,
    /// The pass that was recorded.
    pub(super) pass: MeasuredPass,
    /// What the worker answered in it.
    pub(super) answer: Generated,
    /// What was lost.
    pub(super) issues: Vec<Issue>,
}

/// Marks the stage as one that did not come to its end; the issue says what is left of it.
pub(super) fn broken_off(halt: &Halt, store: &mut RunDir) -> Result<Issue, Halt> {
    let (status, why) = match halt {
        Halt::Failed(why) => (RunStatus::Failed, why.lines().next().unwrap_or_default()),
        Halt::Interrupted => (RunStatus::Interrupted, "it was interrupted"),
    };
    store.set_pass(Pass {
        name: FOLDER.to_owned(),
        status,
        duration_ns: None,
        exit_code: None,
    })?;
    let message = format!("recording CUDA did not come to its end: {why}");
    let issue = Issue::new(Severity::Error, "cupti.broken_off", message);
    let files = wire::files(&store.path().join(FOLDER)).unwrap_or_default();
    if files.is_empty() {
        return Ok(issue);
    }
    Ok(issue.with_hint(format!(
        "`llmprof import` reads what was recorded up to then from the folder {FOLDER}"
    )))
}

/// Runs the stage. Where CUDA cannot be recorded there are issues and nothing else: torch's profiler may still tell.
pub(super) fn capture(
    run: &mut Run<'_>,
    launch: &Launch,
    request: &Load,
) -> Result<Result<Recorded, Vec<Issue>>, Halt> {
    let Run {
        plan,
        feed,
        store,
        interrupt,
        show,
        ..
    } = run;
    let unavailable = |why: String| {
        Issue::new(
            Severity::Warning,
            "cupti.unavailable",
            format!("CUDA was not recorded: {why}"),
        )
    };
    let library = match find_library() {
        Ok(library) => library,
        Err(missing) => {
            let hint = missing.hint();
            return Ok(Err(vec![unavailable(missing.to_string()).with_hint(hint)]));
        }
    };
    let Some(batch) = feed.batches().first() else {
        return Err(Halt::Failed("the dataset has no batch".to_owned()));
    };
    let directory = store.path().join(FOLDER);
    let failed = |error: std::io::Error| {
        Halt::Failed(format!(
            "cannot record into {}: {error}",
            directory.display()
        ))
    };
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let settings = &plan.pipeline.cupti;
    let options = Options {
        overhead_ppm: settings.overhead.map_or(0, Share::ppm),
        // Without a budget the worker ends when recording does.
        detach: settings.detach && settings.overhead.is_some(),
        all_calls: settings.all_calls,
        ..Options::default()
    };
    let mut recording = Recording::prepare(library, &directory, options).map_err(failed)?;
    let launch = recording.apply(launch.clone());
    store.write(&format!("{FOLDER}/cmd.txt"), format!("{launch}\n"))?;
    let (mut passes, _) = Passes::start(
        &launch,
        &directory,
        limits(plan),
        request,
        feed,
        interrupt,
        *show,
    )
    .map_err(|error| not_started(error, &launch))?;
    let asked = Generate {
        instruments: Instruments {
            module_ranges: plan.runtime.module_ranges,
            ..Instruments::default()
        },
        ..batch.clone()
    };
    // With the same ranges, so that graphs that carry them are captured before anything counts.
    for number in 0..plan.runtime.warmup.max(1) {
        passes.rehearse(&format!("cupti warm-up {}", number + 1), &asked)?;
    }
    if let Err(why) = recording.start() {
        passes.finish()?;
        return Ok(Err(vec![unavailable(why)]));
    }
    let answer = passes.captured_batch(FOLDER, store, &asked, true)?;
    recording.stop();
    let mut measured = passes.finish()?;
    let mut issues = recording.issues();
    if feed.batches().len() > 1 {
        issues.push(Issue::new(
            Severity::Info,
            "cupti.first_batch",
            format!(
                "CUDA was recorded in the first of {} batches",
                feed.batches().len()
            ),
        ));
    }
    let files = wire::files(&directory).map_err(failed)?;
    let mut trace = wire::read_files(&files, &Limits::default())
        .map_err(|error| Halt::Failed(error.to_string()))?;
    if let Some(share) = settings.overhead {
        let sliced = Sliced {
            share,
            is_bounded: false,
        };
        leave_out_warm_up(&mut trace, answer.start_ns);
        let mut kinds = trace.ranges.kind.iter();
        let has_slices = kinds.any(|kind| *kind == RangeKind::CAPTURE);
        issues.extend(sliced.issues(has_slices, &trace.issues));
        if !has_slices {
            issues.append(&mut trace.issues);
            return Ok(Err(issues));
        }
        issues.push(Issue::new(
            Severity::Info,
            "cupti.slices",
            "CUDA was recorded now and then, to keep within pipeline.cupti.overhead: phases are the steps that were recorded whole",
        ));
        // Where it was to leave and did not, the files say so.
        issues.extend((!settings.detach).then(slices::cupti_stays));
    }
    let pass = measured
        .passes
        .pop()
        .filter(|pass| pass.kind == PassKind::Captured);
    let pass = pass.ok_or_else(|| Halt::Failed("no batch was recorded".to_owned()))?;
    issues.extend(measured.issues);
    Ok(Ok(Recorded {
        trace,
        pass,
        answer,
        issues,
    }))
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
