//! `kernels top`: the kernels with the most GPU time.

use std::{collections::BTreeSet, path::Path};

use llmprof_record::{
    import::{self, Limits, Profile},
    kernel_list,
    run::RunRecord,
    store::{Folder, write_atomically},
    summary::{Summary, TimeRow, kernel_times},
    trace::{Kernels, Trace},
};
use llmprof_report::compose::listings::kernels_by_phase;
use llmprof_units::{Nanos, Share};

use crate::{args_kernels::TopArgs, failure::Failure, output::Output};

/// The table of kernels that a run with Nsight Systems has.
const NSYS: &str = "nsys";
const SUMMARY: &str = "summary_cuda_gpu_kern_sum.csv";

/// Ranges of phases, as workers and step labels name them.
const PHASES: [&str; 4] = ["vision", "encoder", "prefill", "decode"];

/// A kernel and the phase that launched it; no phase where the source has none.
struct PhaseRow {
    phase: Option<&'static str>,
    row: TimeRow,
}

pub(super) fn top(args: &TopArgs, output: &mut Output) -> Result<(), Failure> {
    if args.topk == Some(0) {
        return Err(Failure::new("`--topk 0` leaves no kernel"));
    }
    let mut rows = phase_rows(args)?;
    rows.sort_by_key(|one| std::cmp::Reverse(one.row.total_ns));
    let total: Nanos = rows.iter().map(|one| one.row.total_ns).sum();
    if total <= Nanos(0) {
        return Err(Failure::new(format!(
            "{} has no GPU time of kernels",
            args.source.display()
        )));
    }
    let Some(path) = &args.output else {
        let all = rows.len();
        rows.truncate(how_many(times(&rows), total, args.topk, args.coverage));
        tell(times(&rows), all, total)?;
        // `-o FILE` has whole names.
        let rows = rows.iter().map(|one| (one.phase, &one.row));
        return output.table(&kernels_by_phase(rows, total));
    };
    // One pattern stands for a kernel in all phases.
    let mut merged = by_name(rows.into_iter().map(|one| one.row).collect());
    merged.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
    let all = merged.len();
    let count = how_many(
        merged.iter().map(|row| row.total_ns),
        total,
        args.topk,
        args.coverage,
    );
    merged.truncate(count);
    tell(merged.iter().map(|row| row.total_ns), all, total)?;
    let kernels = kernel_list::listed(&merged, total);
    let file = args.source.file_name().unwrap_or_default();
    let text = kernel_list::yaml(&kernels, &file.to_string_lossy());
    if path.as_os_str() == "-" {
        return output.text(&text);
    }
    write_atomically(path, text.as_bytes())?;
    output.line(&path.display().to_string())
}

fn times(rows: &[PhaseRow]) -> impl Iterator<Item = Nanos> {
    rows.iter().map(|one| one.row.total_ns)
}

fn tell(listed: impl Iterator<Item = Nanos>, all: usize, total: Nanos) -> Result<(), Failure> {
    let (mut count, mut covered) = (0, Nanos(0));
    for time in listed {
        count += 1;
        covered += time;
    }
    Output::stderr().prose(&format!(
        "{count} of {all} kernels hold {:.1} % of {total} GPU time",
        100.0 * covered.0 as f64 / total.0 as f64
    ))
}

/// Kernels of each phase. Where the timeline has phases, what was launched outside of them (set-up, warm-up) is left out, and so are first
/// uses, as in reports.
fn phase_rows(args: &TopArgs) -> Result<Vec<PhaseRow>, Failure> {
    let whole = |rows: Vec<TimeRow>| {
        let rows = rows.into_iter();
        rows.map(|row| PhaseRow { phase: None, row })
            .collect::<Vec<_>>()
    };
    let found = match source(&args.source)? {
        Source::Table(rows) => whole(rows),
        Source::Trace(trace) => {
            let mut found = Vec::new();
            let mut known_first_uses = None;
            for phase in PHASES {
                let label = format!("llmprof.step {phase} ");
                let inside =
                    trace.launched_inside(|name| name == phase || name.starts_with(&label));
                if inside.kernels.is_empty() {
                    continue;
                }
                let known = match &mut known_first_uses {
                    Some(known) => known,
                    unknown => unknown.insert(first_uses(&trace)?),
                };
                let left_out = known.iter().filter(|(name, _)| name == phase);
                let left_out: Vec<(i64, i64)> = left_out.map(|(_, window)| *window).collect();
                let inside = started_outside(inside, &left_out);
                if !left_out.is_empty() {
                    Output::stderr().line(&format!(
                        "the first {phase} took longer than the others and is left out, as in the report"
                    ))?;
                }
                let rows = kernel_times(&inside).into_iter();
                found.extend(rows.map(|row| PhaseRow {
                    phase: Some(phase),
                    row,
                }));
            }
            if found.is_empty() {
                found = whole(kernel_times(&trace));
            }
            found
        }
    };
    let Some(wanted) = &args.phase else {
        return Ok(found);
    };
    let known: BTreeSet<&str> = found.iter().filter_map(|one| one.phase).collect();
    if !known.contains(wanted.as_str()) {
        let known: Vec<&str> = known.into_iter().collect();
        let hint = if known.is_empty() {
            "the source has no ranges named prefill or decode".to_owned()
        } else {
            format!("it has {}", known.join(", "))
        };
        return Err(Failure::new(format!("no kernel was launched in phase `{wanted}`")).hint(hint));
    }
    let of_phase = found.into_iter().filter(|one| one.phase == Some(wanted));
    Ok(of_phase.collect())
}

/// How many of the rows are asked for.
/// The trace without the kernels that started in a window.
fn started_outside(mut trace: Trace, windows: &[(i64, i64)]) -> Trace {
    if windows.is_empty() {
        return trace;
    }
    let mut kept = Kernels::default();
    for kernel in trace.kernels.rows() {
        let mut windows = windows.iter();
        if !windows.any(|(start, end)| (*start..*end).contains(&kernel.start)) {
            kept.push(kernel);
        }
    }
    trace.kernels = kept;
    trace
}

/// A phase's name, and when it begins and ends.
type NamedInterval = (String, (i64, i64));

/// The intervals that the analysis of the trace leaves out of their phases: what is paid once.
fn first_uses(trace: &Trace) -> Result<Vec<NamedInterval>, Failure> {
    let mut record = RunRecord::default();
    let cannot = |why: String| Failure::new(format!("cannot analyze the timeline: {why}"));
    record
        .add_profile("", Profile::Trace(Box::new(trace.clone())))
        .map_err(|second| cannot(second.hint().to_owned()))?;
    let analysis =
        llmprof_analysis::analyze(&record, None).map_err(|error| cannot(error.to_string()))?;
    let mut windows = Vec::new();
    for phase in &analysis.phases {
        let instances = phase.traced.iter().flat_map(|traced| &traced.instances);
        for instance in instances.filter(|instance| instance.left_out) {
            let start = instance.start_ns.0;
            let window = (start, start.saturating_add(instance.wall_ns.0));
            windows.push((phase.name().to_owned(), window));
        }
    }
    Ok(windows)
}

fn how_many(
    mut times: impl Iterator<Item = Nanos>,
    total: Nanos,
    topk: Option<usize>,
    coverage: Option<Share>,
) -> usize {
    let most = topk.unwrap_or(usize::MAX);
    let Some(coverage) = coverage else {
        return most;
    };
    let wanted = coverage.fraction() * total.0 as f64;
    let mut sum = 0.0;
    let enough = times.position(|time| {
        sum += time.0 as f64;
        sum >= wanted
    });
    enough.map_or(most, |last| most.min(last + 1))
}

/// Where kernels are from.
enum Source {
    Trace(Box<Trace>),
    Table(Vec<TimeRow>),
}

/// The timeline or the table of a run or a profile.
fn source(source: &Path) -> Result<Source, Failure> {
    if let Some(trace) = trace_of_run(source)? {
        return Ok(Source::Trace(Box::new(trace)));
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
        Profile::Trace(trace) => Ok(Source::Trace(trace)),
        Profile::Summary(table) => match table.summary {
            Summary::Kernels(rows) | Summary::KernelsBySize(rows) => {
                Ok(Source::Table(by_name(rows)))
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
