//! `export`: the timeline of a run for other tools.

mod parquet;
mod sqlite;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::ValueEnum as _;
use flate2::{Compression, write::GzEncoder};
use llmprof_analysis::host_stacks::flame_stacks;
use llmprof_record::{
    flame::{self, FlameStack},
    run::{RunRecord, TRACE_FILE},
    store::{LockedRun, StoredRun, write_output},
    trace::Trace,
};
use llmprof_report::compose::listings::flat_row;

use crate::{
    args::{ExportArgs, ExportFormat},
    failure::Failure,
    job_ranks,
    output::Output,
    outputs,
    profiles::{self, files::open_run},
    run_files::{listed_run, run_files},
    viewing,
};

const FLAT_FILE: &str = "flat.json";

pub(crate) fn export(args: &ExportArgs, output: &mut Output) -> Result<(), Failure> {
    let run = open_run(&viewing::given_or_newest(args.run.as_deref())?)?;
    if matches!(args.to, ExportFormat::FlatJson) {
        return export_flat(run, args.output.as_deref(), output);
    }
    if !run.folder()?.has_file(TRACE_FILE) {
        return Err(Failure::new(format!(
            "{} has no timeline to export",
            run.path.display()
        )));
    }
    let name = match args.to {
        ExportFormat::Pftrace => "trace.pftrace",
        ExportFormat::Chrome => "trace.json",
        ExportFormat::Sqlite => "trace.sqlite",
        ExportFormat::Folded => "host_idle.folded",
        ExportFormat::Speedscope => "host.speedscope.json",
        ExportFormat::Parquet => "parquet",
        ExportFormat::FlatJson => FLAT_FILE,
    };
    let target = args.output.clone().unwrap_or_else(|| run.path.join(name));
    if is_stream(&target) && matches!(args.to, ExportFormat::Parquet | ExportFormat::Sqlite) {
        let kind = args.to.to_possible_value();
        let kind = kind.as_ref().map_or("this", |value| value.get_name());
        return Err(
            Failure::new(format!("{kind} cannot be written to a stream"))
                .hint(format!("-o {name}")),
        );
    }
    if matches!(args.to, ExportFormat::Parquet) {
        return parquet::export_parquet(run, &target, output);
    }
    if matches!(args.to, ExportFormat::Sqlite) {
        return sqlite::export_sqlite(run, &target, output);
    }
    let within = target.starts_with(&run.path);
    let run_path = &run.path.clone();
    let record = profiles::load(run_path)?;
    // A file of the run is written by whoever holds the run.
    let locked = within.then(|| run.lock()).transpose()?;
    let mut files = TimelineFiles {
        format: args.to,
        target: &target,
        run: run_path,
        locked: locked.as_ref().filter(|_| args.output.is_none()),
        output,
    };
    if record.rank_summaries.is_empty() {
        files.write_traces(&record)?;
    } else {
        job_ranks::each_rank(&record.rank_summaries, |rank, record| {
            files.write_rank(rank, record)
        })?;
    }
    if let Some(locked) = locked {
        locked.finish()?;
    }
    Ok(())
}

/// Files of timelines: one of the run, or one of each rank.
struct TimelineFiles<'a> {
    format: ExportFormat,
    target: &'a Path,
    run: &'a Path,
    /// The run, where files get their usual names in it.
    locked: Option<&'a LockedRun>,
    output: &'a mut Output,
}

impl TimelineFiles<'_> {
    /// Perfetto's format has room for all ranks; of the others each rank has a file.
    fn write_traces(&mut self, record: &RunRecord) -> Result<(), Failure> {
        if matches!(self.format, ExportFormat::Pftrace) {
            let bytes = viewing::pftrace(&viewing::open(self.run)?)?;
            return self.write(self.target, &bytes);
        }
        let ranks = record.ranks();
        let timelines: Vec<(Option<u32>, &Trace)> = match (&ranks[..], record.trace()) {
            ([_, ..], _) => ranks
                .iter()
                .map(|(rank, trace)| (Some(*rank), *trace))
                .collect(),
            (_, Some(trace)) => vec![(None, trace)],
            _ => Vec::new(),
        };
        if timelines.len() > 1 {
            self.expect_files()?;
        }
        for (rank, trace) in timelines {
            let rank = rank.filter(|_| !is_stream(self.target));
            let target = of_rank(self.target, rank);
            let bytes = contents(self.format, trace, self.run, &target)?;
            self.write(&target, &bytes)?;
        }
        Ok(())
    }

    /// A rank of a job, whose timelines do not fit into memory together.
    fn write_rank(&mut self, rank: u32, record: RunRecord) -> Result<(), Failure> {
        self.expect_files()?;
        let target = of_rank(self.target, Some(rank));
        let bytes = if matches!(self.format, ExportFormat::Pftrace) {
            viewing::pftrace(&viewing::open_record(record)?)?
        } else {
            match record.trace() {
                Some(trace) => contents(self.format, trace, self.run, &target)?,
                None => return Ok(()),
            }
        };
        self.write(&target, &bytes)
    }

    /// Refuses a stream for the timelines of several ranks.
    fn expect_files(&self) -> Result<(), Failure> {
        if !is_stream(self.target) {
            return Ok(());
        }
        Err(
            Failure::new("each rank has a timeline, and a stream takes one")
                .hint("-o FILE writes a file for each rank".to_owned()),
        )
    }

    fn write(&mut self, target: &Path, bytes: &[u8]) -> Result<(), Failure> {
        if is_stream(self.target) {
            return Output::bytes(bytes);
        }
        match self.locked {
            Some(locked) => {
                let name = target.file_name().unwrap_or_default().to_string_lossy();
                locked.write(&name, bytes)?;
            }
            None => write_file(target, bytes)?,
        }
        self.output.line(&target.display().to_string())
    }
}

/// One row of figures, for MLflow or W&B; `-` prints it.
fn export_flat(run: StoredRun, to: Option<&Path>, output: &mut Output) -> Result<(), Failure> {
    let row = flat_row(&(listed_run(&run), run_files(&run)));
    let target = match to {
        Some(to) if is_stream(to) => return output.json(&row),
        Some(to) => to.to_owned(),
        None => run.path.join(FLAT_FILE),
    };
    let text = outputs::text(&row)?;
    if to.is_none() {
        let locked = run.lock()?;
        locked.write(FLAT_FILE, text.as_bytes())?;
        locked.finish()?;
    } else {
        write_file(&target, text.as_bytes())?;
    }
    output.line(&target.display().to_string())
}

/// Whether a file that `-o` names is standard output.
fn is_stream(target: &Path) -> bool {
    target == Path::new("-")
}

fn is_gzip(target: &Path) -> bool {
    target
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

/// Writes a file, compressed where its name ends with `.gz`.
fn write_file(target: &Path, text: &[u8]) -> Result<(), Failure> {
    if !is_gzip(target) {
        return Ok(write_output(target, text)?);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let packed = encoder.write_all(text).and_then(|()| encoder.finish());
    let packed = packed
        .map_err(|error| Failure::new(format!("cannot compress {}: {error}", target.display())))?;
    Ok(write_output(target, &packed)?)
}

/// `trace.json` of rank 3 is `trace.rank3.json`.
fn of_rank(target: &Path, rank: Option<u32>) -> PathBuf {
    let Some(rank) = rank else {
        return target.to_owned();
    };
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let name = match name.split_once('.') {
        Some((stem, rest)) => format!("{stem}.rank{rank}.{rest}"),
        None => format!("{name}.rank{rank}"),
    };
    target.with_file_name(name)
}

/// One timeline as a file.
fn contents(
    format: ExportFormat,
    trace: &Trace,
    run: &Path,
    target: &Path,
) -> Result<Vec<u8>, Failure> {
    Ok(match format {
        ExportFormat::Chrome => {
            let mut text = Vec::new();
            trace
                .write_chrome(&mut text)
                .and_then(|()| text.flush())
                .map_err(|error| {
                    Failure::new(format!("cannot write {}: {error}", target.display()))
                })?;
            text
        }
        ExportFormat::Folded => flame::write_folded(&host_stacks(trace, true, run)?).into(),
        ExportFormat::Speedscope => {
            let profiles = [
                ("while no GPU was busy", host_stacks(trace, true, run)?),
                ("all the time", host_stacks(trace, false, run)?),
            ];
            flame::write_speedscope(&profiles).into()
        }
        ExportFormat::FlatJson
        | ExportFormat::Parquet
        | ExportFormat::Pftrace
        | ExportFormat::Sqlite => unreachable!("these are not of one timeline alone"),
    })
}

/// The stacks of a trace that has some.
fn host_stacks(trace: &Trace, only_idle: bool, run: &Path) -> Result<Vec<FlameStack>, Failure> {
    let stacks = flame_stacks(trace, only_idle);
    if stacks.is_empty() && flame_stacks(trace, false).is_empty() {
        return Err(
            Failure::new(format!("{} has no host stacks to export", run.display())).hint(
                "`llmprof record` samples them; torch.profiler records them with with_stack=True"
                    .to_owned(),
            ),
        );
    }
    Ok(stacks)
}
