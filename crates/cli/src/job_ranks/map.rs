//! Ranks read one by one within a limit of memory, each reduced to a summary that is a file of its own.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use llmprof_analysis::ranks::summarize as summarize_trace;
use llmprof_record::{
    import::{self, Limits, Profile},
    rank_summary::{RankSummary, SummarySource},
    run::{rank_of, rank_of_file},
    store::{Durability, Folder},
};
use llmprof_units::{Bytes, Count};
use schemars::JsonSchema;
use serde::Serialize;

use super::{LIST_FILE, read_summaries};
use crate::{
    failure::Failure,
    progress::{Show, Stage},
};

/// Bytes of memory that reading takes for each byte of a plain timeline, with the analysis: measured 1.1 to 2.0.
const MEMORY_PER_BYTE: u64 = 3;
/// How far packed timelines unpack: 8 to 15 times.
const UNPACKED_PER_BYTE: u64 = 15;
/// What reading takes beside that.
const MEMORY_BASE_BYTES: u64 = 16 << 20;
/// Files read before the others where no name has a rank: a folder of a job has ranks among so many, and reading as many takes seconds.
const PROBED_FILES_MAX: usize = 8;

/// What became of the ranks.
pub(super) struct MappedRanks {
    /// Summaries of the ranks that were asked for.
    pub(super) summaries: usize,
    /// Those that were made now, and those that were there.
    pub(super) read: usize,
    pub(super) kept: usize,
    pub(super) failures: Vec<Failure>,
    /// Files that were not read, since none of the first [`PROBED_FILES_MAX`] is the timeline of a rank.
    unread: usize,
}

/// What `import --summary-only` made of the profiles of ranks.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SummariesMade {
    /// Ranks that have a summary.
    ranks: usize,
    /// Summaries that were made now.
    read: usize,
    /// Summaries that were there.
    kept: usize,
    /// Profiles that could not be read, with the reason.
    failed: Vec<String>,
}

impl MappedRanks {
    /// What kept files from being read, as one failure: a folder may have thousands that are no timelines of ranks.
    pub(super) fn failure(&self) -> Option<Failure> {
        let first = self.failures.first()?.in_a_line();
        Some(match self.failures.len() as u64 {
            1 => Failure::new(first),
            count if self.unread > 0 => Failure::new(format!(
                "{} are not the ranks of one job; the first: {first}",
                Count(count + self.unread as u64, "file")
            ))
            .hint(format!(
                "{} were read and none is the timeline of a rank; `llmprof import FILE` imports one profile",
                Count(count, "file")
            )),
            count => Failure::new(format!(
                "{} could not be read, the first: {first}",
                Count(count, "file")
            )),
        })
    }

    pub(super) fn as_json(&self) -> SummariesMade {
        SummariesMade {
            ranks: self.summaries,
            read: self.read,
            kept: self.kept,
            failed: self.failures.iter().map(Failure::in_a_line).collect(),
        }
    }
}

/// What a summary says of the file that it was made of.
pub(super) fn source_of(file: &Path) -> std::io::Result<SummarySource> {
    let metadata = fs::metadata(file)?;
    let seconds = metadata.mtime().saturating_mul(1_000_000_000);
    Ok(SummarySource {
        file: fs::canonicalize(file)?.to_string_lossy().into_owned(),
        bytes: metadata.len(),
        modified_ns: seconds.saturating_add(metadata.mtime_nsec()),
    })
}

/// Reduces each file to a summary in a folder. Files that a summary there is of, unchanged, are not read.
pub(super) fn summarize(
    files: &[PathBuf],
    folder: &Path,
    memory: Option<Bytes>,
) -> Result<MappedRanks, Failure> {
    fs::create_dir_all(folder)
        .map_err(|error| Failure::new(format!("cannot create {}: {error}", folder.display())))?;
    let target = Folder::open(folder)
        .map_err(|error| Failure::new(format!("cannot use {}: {error}", folder.display())))?;
    let (known, _) = read_summaries(folder)?;
    let mut ranks: HashMap<u32, String> = known
        .iter()
        .map(|summary| (summary.rank, summary.source.file.clone()))
        .collect();
    let known: HashSet<SummarySource> = known.into_iter().map(|summary| summary.source).collect();
    let mut mapped = MappedRanks {
        summaries: 0,
        read: 0,
        kept: 0,
        failures: Vec::new(),
        unread: 0,
    };
    let mut to_read = Vec::new();
    for file in files {
        match source_of(file) {
            Ok(source) if known.contains(&source) => mapped.kept += 1,
            Ok(source) => to_read.push((file, source)),
            Err(error) => mapped.failures.push(Failure::new(format!(
                "cannot read {}: {error}",
                file.display()
            ))),
        }
    }
    let limit = memory.map_or_else(half_of_memory, |memory| memory.0);
    let mut fitting = Vec::new();
    for (file, source) in to_read {
        let need = memory_for(file, source.bytes);
        if need > limit {
            let what = format!(
                "{} needs about {}, more than --memory {}",
                file.display(),
                Bytes(need),
                Bytes(limit)
            );
            mapped.failures.push(Failure::new(what));
        } else {
            fitting.push((file, source, need));
        }
    }
    list_sources(folder, files)?;
    // Files that name a rank are read first: where none does, a few show whether the others are ranks.
    fitting.sort_by_key(|(file, ..)| rank_in_name(file).is_none());
    let probed = match fitting.first() {
        Some((file, ..)) if rank_in_name(file).is_none() && known.is_empty() => {
            PROBED_FILES_MAX.min(fitting.len())
        }
        _ => fitting.len(),
    };
    let largest = fitting.iter().map(|(.., need)| *need).max().unwrap_or(1);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let at_once = usize::try_from(limit / largest.max(1)).unwrap_or(cores);
    let done = AtomicUsize::new(0);
    let results: Mutex<Vec<Result<(), Failure>>> = Mutex::default();
    let taken = Mutex::new(&mut ranks);
    let stage = (fitting.len() > 1)
        .then(|| Stage::start(Show::detect(), "reading ranks", fitting.len() as u64));
    let (first, others) = fitting.split_at(probed);
    for part in [first, others] {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..at_once.clamp(1, cores).min(part.len()) {
                scope.spawn(|| {
                    while let Some((file, source, _)) =
                        part.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let result = reduce(file, source.clone())
                            .and_then(|summary| keep(&summary, &target, &taken));
                        let result = result.map_err(|why| of_file(file, &why));
                        results
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(result);
                        if let Some(stage) = &stage {
                            stage.reached(done.fetch_add(1, Ordering::Relaxed) as u64 + 1);
                        }
                    }
                });
            }
        });
        let results = std::mem::take(&mut *results.lock().unwrap_or_else(PoisonError::into_inner));
        for result in results {
            match result {
                Ok(()) => mapped.read += 1,
                Err(failure) => mapped.failures.push(failure),
            }
        }
        if mapped.read == 0 {
            mapped.unread = others.len();
            break;
        }
    }
    // Which thread was the first is chance.
    mapped.failures.sort_by_key(Failure::in_a_line);
    mapped.summaries = mapped.read + mapped.kept;
    if let Some(stage) = stage {
        stage.finish(&Count(mapped.summaries as u64, "summary").to_string());
    }
    Ok(mapped)
}

/// Why a file was not reduced, with its name once.
fn of_file(file: &Path, why: &str) -> Failure {
    let name = file.display().to_string();
    if why.starts_with(&name) {
        Failure::new(why)
    } else {
        Failure::new(format!("{name}: {why}"))
    }
}

/// Adds files to the list of those that the folder should have summaries of.
fn list_sources(folder: &Path, files: &[PathBuf]) -> Result<(), Failure> {
    let path = |file: &PathBuf| {
        let whole = fs::canonicalize(file).unwrap_or_else(|_| file.clone());
        whole.to_string_lossy().into_owned()
    };
    let mut all: Vec<String> = super::listed(folder);
    let known: HashSet<String> = all.iter().cloned().collect();
    let new: Vec<String> = files
        .iter()
        .map(path)
        .filter(|file| !known.contains(file))
        .collect();
    if new.is_empty() {
        return Ok(());
    }
    all.extend(new);
    let text = all.join("\n") + "\n";
    let written = Folder::open(folder)
        .and_then(|folder| folder.replace_as(Durability::Derived, LIST_FILE, text.as_bytes()));
    written.map_err(|error| Failure::cannot_write(&folder.join(LIST_FILE), &error))
}

fn memory_for(file: &Path, bytes: u64) -> u64 {
    let name = file.to_string_lossy();
    let is_packed = name.ends_with(".gz") || name.ends_with(".zst");
    let unpacked = if is_packed { UNPACKED_PER_BYTE } else { 1 };
    bytes
        .saturating_mul(unpacked)
        .saturating_mul(MEMORY_PER_BYTE)
        .saturating_add(MEMORY_BASE_BYTES)
}

/// Half of what the system says is free.
fn half_of_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kilobytes.map_or(2 << 30, |kilobytes| kilobytes * 512)
}

fn rank_in_name(file: &Path) -> Option<u32> {
    rank_of_file(&file.file_name().unwrap_or_default().to_string_lossy())
}

fn reduce(file: &Path, source: SummarySource) -> Result<RankSummary, String> {
    let (_, profile) =
        import::import(file, &Limits::default()).map_err(|error| error.to_string())?;
    let Profile::Trace(trace) = profile else {
        return Err("not a timeline: a job is made of the timelines of its ranks".to_owned());
    };
    let rank = rank_of(&trace).or_else(|| rank_in_name(file));
    let rank = rank.ok_or(
        "names no rank, neither recorded (`distributedInfo`) nor in the file name (rank0.json)",
    )?;
    Ok(summarize_trace(&trace, rank, source))
}

/// Writes a summary unless another file is of the same rank.
fn keep(
    summary: &RankSummary,
    folder: &Folder,
    taken: &Mutex<&mut HashMap<u32, String>>,
) -> Result<(), String> {
    {
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = &summary.source.file;
        let holder = taken.entry(summary.rank).or_insert_with(|| own.clone());
        if holder != own {
            return Err(format!("rank {} is that of {holder} too", summary.rank));
        }
    }
    // It can be made again, and a rename leaves no half of it.
    let name = RankSummary::file_name(summary.rank);
    folder
        .replace_as(Durability::Derived, &name, &summary.to_bytes())
        .map_err(|error| Failure::cannot_write(&folder.path().join(&name), &error).in_a_line())
}
