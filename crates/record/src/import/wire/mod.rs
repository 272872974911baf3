//! Wire files: what llmprof's own library recorded inside a watched process, one file a process.
//!
//! Processes number their calls, contexts, graphs and devices each for itself; in the trace the numbers of later
//! processes begin after those of earlier ones, so that nothing is joined across processes by accident.

mod names;
mod process;
mod ranges;

use std::path::{Path, PathBuf};

use llmprof_wire::{EXTENSION, HeaderError, MAGIC};

use super::{ImportError, Importer, Limits, Profile, Source};
use crate::issue::Issue;
use crate::trace::{Trace, TraceBuilder};

pub(crate) const IMPORTER: Importer = Importer {
    name: "llmprof_wire",
    sniff: |head| head.starts_with(&MAGIC),
    read: |source| {
        let trace = read_sources(std::slice::from_ref(source))?;
        Ok(Profile::Trace(Box::new(trace)))
    },
};

const FORMAT: &str = "a wire file";

/// The wire files of a directory, in the order of their names.
pub fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == EXTENSION) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads the processes of one run into one trace. A file that cannot be read is an issue, unless none can.
pub fn read_files(paths: &[PathBuf], limits: &Limits) -> Result<Trace, ImportError> {
    let mut sources = Vec::new();
    let mut failed = Vec::new();
    for path in paths {
        match Source::open_found(path, limits) {
            Ok(source) => sources.push(source),
            Err(error) => failed.push(error),
        }
    }
    if sources.is_empty() && !failed.is_empty() {
        return Err(failed.remove(0));
    }
    let read = read_sources(&sources);
    for source in &sources {
        source.check_whole()?;
    }
    let mut trace = read?;
    for error in failed {
        trace
            .issues
            .push(Issue::error("wire.unreadable").with("error", error.to_string()));
    }
    Ok(trace)
}

fn read_sources(sources: &[Source]) -> Result<Trace, ImportError> {
    let mut builder = TraceBuilder::default();
    let mut numbers = process::Numbers::default();
    let mut unreadable: Option<(&Source, HeaderError)> = None;
    let mut processes = 0_u64;
    for source in sources {
        builder.issues.extend_from_slice(source.issues());
        match process::read(source.bytes(), &mut builder, &mut numbers) {
            Ok(()) => processes += 1,
            Err(error) => {
                builder
                    .issues
                    .push(Issue::error("wire.unreadable").with("error", error.to_string()));
                unreadable = Some((source, error));
            }
        }
    }
    if let (Some((source, error)), 0) = (unreadable, processes) {
        return Err(source.unusable(FORMAT, error.to_string()));
    }
    let metadata = &mut builder.metadata;
    metadata.insert("tool".to_owned(), "llmprof".to_owned());
    metadata.insert("processes".to_owned(), processes.to_string());
    Ok(builder.finish())
}
