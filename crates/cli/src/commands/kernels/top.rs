//! `kernels top`: the kernels with the most GPU time.

use std::{collections::BTreeSet, path::Path};

use llmprof_analysis::kernel_ranking::{
    PhaseRow, count_covering, kernels_by_phase, merge_by_name, without_phases,
};
use llmprof_record::{
    import::{self, Limits, Profile},
    kernel_list,
    run::RunRecord,
    store::{Folder, write_output},
    summary::{Summary, TimeRow},
    trace::Trace,
};
use llmprof_report::compose::listings;
use llmprof_units::Nanos;

use crate::{args_kernels::TopArgs, failure::Failure, output::Output};

/// The table of kernels that a run with Nsight Systems has.
const NSYS: &str = "nsys";
const SUMMARY: &str = "summary_cuda_gpu_kern_sum.csv";

pub(super) fn top(args: &TopArgs, output: &mut Output) -> Result<(), Failure> {
    if args.topk == Some(0) {
        return Err(Failure::new("`--topk 0` leaves no kernel"));
    }
    let mut rows = phase_rows(args)?;
    // One pattern stands for a kernel in all phases.
    if args.output.is_some() {
        rows = without_phases(merge_by_name(rows.into_iter().map(|(_, row)| row)));
    }
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.total_ns));
    let total: Nanos = rows.iter().map(|(_, row)| row.total_ns).sum();
    if total <= Nanos(0) {
        return Err(Failure::new(format!(
            "{} has no GPU time of kernels",
            args.source.display()
        )));
    }
    let (listed, _) = rows.split_at(how_many(&rows, total, args));
    Output::stderr().prose(&listings::kernel_coverage(listed, &rows))?;
    let Some(path) = &args.output else {
        // `-o FILE` has whole names.
        return output.table(&listings::kernels_by_phase(listed, total));
    };
    let listed: Vec<TimeRow> = listed.iter().map(|(_, row)| row.clone()).collect();
    let kernels = kernel_list::list_kernels(&listed, total);
    let file = args.source.file_name().unwrap_or_default();
    let text = kernel_list::format_yaml(&kernels, &file.to_string_lossy());
    if path.as_os_str() == "-" {
        return output.text(&text);
    }
    write_output(path, text.as_bytes())?;
    output.line(&path.display().to_string())
}

/// Kernels of the phase that is asked for, or of each.
fn phase_rows(args: &TopArgs) -> Result<Vec<PhaseRow>, Failure> {
    let rows = match source(&args.source)? {
        KernelSource::Table(rows) => without_phases(rows),
        KernelSource::Trace(trace) => {
            let ranked = kernels_by_phase(&trace)
                .map_err(|error| Failure::new(format!("cannot analyze the timeline: {error}")))?;
            for phase in ranked.shortened {
                Output::stderr().line(&listings::first_uses_left_out(phase))?;
            }
            ranked.rows
        }
    };
    let Some(wanted) = &args.phase else {
        return Ok(rows);
    };
    let known: BTreeSet<&str> = rows.iter().filter_map(|(phase, _)| *phase).collect();
    if !known.contains(wanted.as_str()) {
        let known: Vec<&str> = known.into_iter().collect();
        let hint = if known.is_empty() {
            "the source has no ranges named prefill or decode".to_owned()
        } else {
            format!("it has {}", known.join(", "))
        };
        return Err(Failure::new(format!("no kernel was launched in phase `{wanted}`")).hint(hint));
    }
    let of_phase = rows.into_iter().filter(|(phase, _)| *phase == Some(wanted));
    Ok(of_phase.collect())
}

/// How many of the rows `--topk` and `--coverage` ask for.
fn how_many(rows: &[PhaseRow], total: Nanos, args: &TopArgs) -> usize {
    let most = args.topk.map_or(rows.len(), |topk| topk.min(rows.len()));
    let enough = args
        .coverage
        .map_or(most, |coverage| count_covering(rows, total, coverage));
    most.min(enough)
}

enum KernelSource {
    Trace(Box<Trace>),
    Table(Vec<TimeRow>),
}

/// The timeline or the table of a run or a profile.
fn source(source: &Path) -> Result<KernelSource, Failure> {
    if let Some(trace) = trace_of_run(source)? {
        return Ok(KernelSource::Trace(Box::new(trace)));
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
        Profile::Trace(trace) => Ok(KernelSource::Trace(trace)),
        Profile::Summary(table) => match table.summary {
            Summary::Kernels(rows) | Summary::KernelsBySize(rows) => {
                Ok(KernelSource::Table(merge_by_name(rows)))
            }
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
