//! `kernels top`: the kernels with the most GPU time.

use std::path::Path;

use llmprof_record::{
    import::{self, Limits, Profile},
    kernel_list,
    run::RunRecord,
    store::{Folder, write_atomically},
    summary::{Summary, TimeRow, kernel_times},
    trace::Trace,
};
use llmprof_units::{Nanos, Share};

use crate::{args_kernels::TopArgs, failure::Failure, output::Output};

/// The table of kernels that a run with Nsight Systems has.
const NSYS: &str = "nsys";
const SUMMARY: &str = "summary_cuda_gpu_kern_sum.csv";

pub(super) fn top(args: &TopArgs, output: &mut Output) -> Result<(), Failure> {
    if args.topk == Some(0) {
        return Err(Failure::new("`--topk 0` leaves no kernel"));
    }
    let mut rows = rows(&args.source)?;
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
    let total: Nanos = rows.iter().map(|row| row.total_ns).sum();
    if total <= Nanos(0) {
        return Err(Failure::new(format!(
            "{} has no GPU time of kernels",
            args.source.display()
        )));
    }
    let all = rows.len();
    rows.truncate(how_many(&rows, total, args.topk, args.coverage));
    let kernels = kernel_list::listed(&rows, total);
    let file = args.source.file_name().unwrap_or_default();
    let text = kernel_list::yaml(&kernels, &file.to_string_lossy());
    let covered: Nanos = rows.iter().map(|row| row.total_ns).sum();
    let line = format!(
        "{} of {all} kernels hold {:.1} % of {} GPU time",
        kernels.len(),
        100.0 * covered.0 as f64 / total.0 as f64,
        total
    );
    Output::stderr().line(&line)?;
    match &args.output {
        Some(path) => {
            write_atomically(path, text.as_bytes())?;
            output.line(&path.display().to_string())
        }
        None => output.text(&text),
    }
}

/// How many of the rows are asked for.
fn how_many(rows: &[TimeRow], total: Nanos, topk: Option<usize>, coverage: Option<Share>) -> usize {
    let most = topk.unwrap_or(rows.len()).min(rows.len());
    let Some(coverage) = coverage else {
        return most;
    };
    let wanted = coverage.fraction() * total.0 as f64;
    let mut sum = 0.0;
    let enough = rows.iter().position(|row| {
        sum += row.total_ns.0 as f64;
        sum >= wanted
    });
    enough.map_or(most, |last| most.min(last + 1))
}

/// Kernels by name, of a run or a profile.
fn rows(source: &Path) -> Result<Vec<TimeRow>, Failure> {
    if let Some(trace) = trace_of_run(source)? {
        return Ok(kernel_times(&trace));
    }
    let absent = || {
        Failure::new(format!("{} has no timeline with kernels", source.display())).hint(
            "a run with pipeline.nsys.enable=true or on a GPU, or a summary of `nsys stats`"
                .to_owned(),
        )
    };
    let (file, read) = if source.is_dir() {
        let file = source.join(NSYS).join(SUMMARY);
        let is_there = Folder::open(source).is_ok_and(|run| {
            // A link in the place of the folder is not one of its files.
            run.has_file(Path::new(NSYS).join(SUMMARY))
        });
        if !is_there {
            return Err(absent());
        }
        let read = import::import_found(&file, &Limits::default());
        (file, read)
    } else if source.exists() {
        let read = import::import(source, &Limits::default());
        (source.to_path_buf(), read)
    } else {
        return Err(absent());
    };
    let (_, profile) = read.map_err(|error| Failure::new(error.to_string()))?;
    match profile {
        Profile::Trace(trace) => Ok(kernel_times(&trace)),
        Profile::Summary(table) => match table.summary {
            Summary::Kernels(rows) | Summary::KernelsBySize(rows) => Ok(by_name(rows)),
            _ => Err(
                Failure::new(format!("{} is not a summary of kernels", file.display()))
                    .hint("nsys stats --report cuda_gpu_kern_sum --format csv REPORT".to_owned()),
            ),
        },
        Profile::Counters(_)
        | Profile::Memory(_)
        | Profile::Communication(_)
        | Profile::Telemetry(_) => Err(Failure::new(format!("{} has no timeline", file.display()))
            .hint("supported: a run, a kernel summary of `nsys stats`, a timeline".to_owned())),
    }
}

/// The trace that explains the time of a run; absent where `source` is no run or has none.
pub(super) fn trace_of_run(source: &Path) -> Result<Option<Trace>, Failure> {
    if !source.is_dir() {
        return Ok(None);
    }
    let record = RunRecord::load(source)?;
    let traces = record.map(|record| record.traces).unwrap_or_default();
    let mut traces = traces.into_iter().map(|recorded| recorded.trace);
    Ok(traces.find(|trace| !trace.kernels.is_empty()))
}

/// Rows of one name become one.
fn by_name(rows: Vec<TimeRow>) -> Vec<TimeRow> {
    let mut found: Vec<TimeRow> = Vec::new();
    for row in rows {
        match found.iter_mut().find(|one| one.name == row.name) {
            Some(one) => {
                one.total_ns += row.total_ns;
                one.times.count += row.times.count;
            }
            None => found.push(row),
        }
    }
    found
}
