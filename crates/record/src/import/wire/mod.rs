//! Wire files: what llmprof's own library recorded inside a watched process, one file a process.
//!
//! Processes number their calls, contexts, graphs and devices each for itself; in the trace the numbers of later
//! processes begin after those of earlier ones, so that nothing is joined across processes by accident.

mod names;
mod process;
mod ranges;

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use llmprof_wire::{EXTENSION, HeaderError, MAGIC, Reader, Record};

use super::{ImportError, Importer, Limits, Profile, Source};
use crate::issue::Issue;
use crate::mapped;
use crate::secrets::starred;
use crate::store::Folder;
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

/// Overwrites what looks like a credential in the texts of a wire file (names of ranges, threads and processes), byte for byte. The
/// number of texts.
pub fn scrub(path: &Path) -> std::io::Result<usize> {
    let folder = Folder::open(path.parent().unwrap_or(Path::new("")))?;
    let file = folder.open_file_to_change(path.file_name().unwrap_or_default())?;
    if file.metadata()?.len() == 0 {
        return Ok(0);
    }
    let mut changes = Vec::new();
    {
        let bytes = mapped::map(&file)?;
        let Ok((_, records)) = Reader::new(&bytes) else {
            return Ok(0);
        };
        for text in records.filter_map(text) {
            let at = text.as_ptr() as usize - bytes.as_ptr() as usize;
            if let Some(clean) = std::str::from_utf8(text).ok().and_then(starred) {
                changes.push((at as u64, clean));
            }
        }
    }
    for (at, clean) in &changes {
        file.write_all_at(clean, *at)?;
    }
    Ok(changes.len())
}

/// The text of a record that has one.
fn text(record: Record<'_>) -> Option<&[u8]> {
    match record {
        Record::Text(found) => Some(found.text),
        Record::Attached(found) => Some(found.text),
        Record::Push(found) => Some(found.text),
        Record::RangeStart(found) => Some(found.text),
        Record::Mark(found) => Some(found.text),
        Record::Domain(found) => Some(found.text),
        Record::ThreadName(found) => Some(found.text),
        Record::GraphNode(found) => Some(found.text),
        _ => None,
    }
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
