//! The ranks of a whole job: each is read once and reduced to a summary, then all summaries are joined.

pub(crate) mod inputs;
mod map;
mod slurm;

use std::path::{Path, PathBuf};

use llmprof_record::{
    issue::{Issue, IssueCode},
    rank_summary::{RANK_FILE_MAX_BYTES, RANK_FILE_SUFFIX, RANK_FOLDER, RankSummary},
    run::RunRecord,
};
use llmprof_units::{
    Bytes, Count,
    bounded_file::{CONFIG_MAX_BYTES, read_bounded, read_text_bounded},
};
use rayon::prelude::*;

pub(crate) use self::map::SummariesMade;
pub(crate) use self::slurm::submit;
use crate::{args::ImportArgs, failure::Failure, output::Output, profiles};

/// Ranks whose timelines a run keeps as a whole; of more, it keeps that of the lowest rank and the summaries of all.
pub(crate) const WHOLE_RANKS_MAX: usize = 16;
/// Beside summaries: the profiles that they should be of, one path a line.
const LIST_FILE: &str = "ranks.list";

/// Ranks that could not be read, as an issue names them.
const NAMED_MAX: usize = 20;

/// `import --summary-only`: reduces ranks into a folder and joins nothing.
pub(crate) fn summarize_only(
    files: &[PathBuf],
    args: &ImportArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let folder = args
        .output
        .as_deref()
        .or(args.summaries.as_deref())
        .ok_or_else(|| {
            Failure::new("--summary-only needs a folder for the summaries")
                .hint("-o DIR".to_owned())
        })?;
    let mapped = map::summarize(files, folder, args.memory)?;
    if args.json {
        output.json(&mapped.as_json())?;
    } else {
        output.line(&format!(
            "{} in {} ({} read, {} kept)",
            Count(mapped.summaries as u64, "rank"),
            folder.display(),
            mapped.read,
            mapped.kept
        ))?;
    }
    mapped.failure().map_or(Ok(()), Err)
}

/// The record of a job: summaries of `files` in a folder, or of what the folder has where there are none.
pub(crate) fn read_job(
    files: &[PathBuf],
    folder: &Path,
    memory: Option<Bytes>,
) -> Result<RunRecord, Failure> {
    let mut record = RunRecord::default();
    if !files.is_empty() {
        let mapped = map::summarize(files, folder, memory)?;
        match mapped.failure() {
            Some(failure) if mapped.summaries < 2 => return Err(failure),
            Some(failure) => failure.warn(),
            None => {}
        }
    }
    let (summaries, unread) = read_summaries(folder)?;
    if summaries.len() < 2 {
        return Err(Failure::new(format!(
            "{} has {}: a job has at least 2",
            folder.display(),
            Count(summaries.len() as u64, "rank summary")
        ))
        .hint("llmprof import --summary-only RANK… -o DIR makes them".to_owned()));
    }
    let mut missing = listed(folder);
    missing.retain(|file| !summaries.iter().any(|summary| summary.source.file == *file));
    missing.extend(unread);
    if !missing.is_empty() {
        record.issues.push(unread_ranks(&missing));
    }
    record.name = title(&summaries);
    record.rank_summaries = summaries;
    add_first_trace(&mut record);
    Ok(record)
}

fn unread_ranks(missing: &[String]) -> Issue {
    let mut named: Vec<&str> = missing.iter().take(NAMED_MAX).map(String::as_str).collect();
    if missing.len() > NAMED_MAX {
        named.push("…");
    }
    Issue::error(IssueCode::RanksUnread)
        .with("files", named.join(", "))
        .counting(missing.len() as u64)
}

fn title(summaries: &[RankSummary]) -> String {
    let first = Path::new(&summaries[0].source.file);
    profiles::files::title(&[first.to_owned()])
        + &format!(" and {} more ranks", summaries.len() - 1)
}

/// The timeline of the lowest rank explains kernels and phases, where its profile is still there as it was.
fn add_first_trace(record: &mut RunRecord) {
    if let Ok(first) = read_rank(&record.rank_summaries[0]) {
        record.traces = first.traces;
    }
}

/// The timeline of a rank, if its profile is still what the summary was made of.
fn read_rank(summary: &RankSummary) -> Result<RunRecord, Failure> {
    let file = PathBuf::from(&summary.source.file);
    let now = map::source_of(&file)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", file.display())))?;
    if now != summary.source {
        return Err(Failure::new(format!(
            "{} changed after it was imported",
            file.display()
        )));
    }
    let mut record = profiles::read(&[file])?;
    for recorded in &mut record.traces {
        let metadata = &mut recorded.trace.metadata;
        metadata
            .entry("distributed_rank".to_owned())
            .or_insert_with(|| summary.rank.to_string());
    }
    Ok(record)
}

/// Hands over the timelines of a job's ranks, one in memory at a time. Ranks whose profiles are gone or changed are named and left out.
pub(crate) fn each_rank(
    summaries: &[RankSummary],
    mut take: impl FnMut(u32, RunRecord) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut unread = Vec::new();
    for summary in summaries {
        match read_rank(summary) {
            Ok(record) => take(summary.rank, record)?,
            Err(why) => unread.push((summary.rank, why)),
        }
    }
    for (_, why) in unread.iter().take(NAMED_MAX) {
        why.warn();
    }
    let (missing, all) = (unread.len(), summaries.len());
    match unread.into_iter().next() {
        Some((_, why)) if missing == all => Err(why),
        Some((rank, _)) => {
            Failure::new(format!(
                "{missing} of {} are left out, the first is rank {rank}",
                Count(all as u64, "rank")
            ))
            .hint(
                "a run of many ranks reads their profiles where they were imported from".to_owned(),
            )
            .warn();
            Ok(())
        }
        None => Ok(()),
    }
}

/// Profiles that summaries in a folder should be of.
fn listed(folder: &Path) -> Vec<String> {
    let text = read_text_bounded(&folder.join(LIST_FILE), CONFIG_MAX_BYTES).unwrap_or_default();
    text.lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The summaries of a folder by rank, and files that are damaged.
fn read_summaries(folder: &Path) -> Result<(Vec<RankSummary>, Vec<String>), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(format!("cannot read {}: {error}", folder.display()))
            .hint("--join takes the folder that --summary-only wrote".to_owned())
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.to_string_lossy().ends_with(RANK_FILE_SUFFIX) {
            paths.push(path);
        }
    }
    paths.sort();
    let read: Vec<Result<RankSummary, String>> = paths
        .par_iter()
        .map(|path| read_summary(path).map_err(|why| format!("{} ({why})", path.display())))
        .collect();
    let (mut summaries, mut unread) = (Vec::new(), Vec::new());
    for one in read {
        match one {
            Ok(summary) => summaries.push(summary),
            Err(why) => unread.push(why),
        }
    }
    summaries.sort_by_key(|summary| summary.rank);
    summaries.dedup_by_key(|summary| summary.rank);
    Ok((summaries, unread))
}

fn read_summary(path: &Path) -> Result<RankSummary, String> {
    let bytes = read_bounded(path, RANK_FILE_MAX_BYTES).map_err(|error| error.to_string())?;
    RankSummary::from_bytes(&bytes).map_err(|error| error.to_string())
}

/// Whether a run has summaries of a job, which are of 2 ranks or more, so that a later import goes on with them.
pub(crate) fn has_summaries(run: &Path) -> bool {
    read_summaries(&folder_of(run)).is_ok_and(|(summaries, _)| summaries.len() >= 2)
}

/// Where a run keeps the summaries of its ranks.
pub(crate) fn folder_of(run: &Path) -> PathBuf {
    run.join(RANK_FOLDER)
}
