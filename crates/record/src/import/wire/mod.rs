//! Wire files: what llmprof's own library recorded inside a watched process, one file a process.
//!
//! Processes number their calls, contexts, graphs and devices each for itself; in the trace the numbers of later
//! processes begin after those of earlier ones, so that nothing is joined across processes by accident.

mod names;
mod process;
mod ranges;
mod samples;

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use llmprof_wire::{EXTENSION, HeaderError, MAGIC, Reader, Record};

use super::{ImportError, Importer, Limits, Profile, Source};
use crate::issue::{Issue, IssueCode};
use crate::mapped;
use crate::secrets::overwrite_with_stars;
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
pub fn wire_files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == EXTENSION)
        {
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
        match Source::open_regular(path, limits) {
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
            .push(Issue::error(IssueCode::WireUnreadable).with("error", error.to_string()));
    }
    Ok(trace)
}

/// Adds the samples of host threads in `paths`, taken while `trace` was recorded, to it. Without the Unix time of its clock nothing
/// says when they were taken, and it stays as it is.
pub fn add_host_samples(
    trace: Trace,
    paths: &[PathBuf],
    limits: &Limits,
) -> Result<Trace, ImportError> {
    let Some(origin) = trace.clock_origin_ns else {
        return Ok(trace);
    };
    let mut samples = TraceBuilder::default();
    for path in paths {
        let source = Source::open_regular(path, limits)?;
        samples::read(source.bytes(), &mut samples);
        source.check_whole()?;
    }
    let Some(own_origin) = samples.clock_origin_ns else {
        return Ok(trace);
    };
    let shift = own_origin.0.saturating_sub(origin.0);
    for time in samples.host_samples.time.make_mut() {
        *time = time.saturating_add(shift);
    }
    let mut builder = TraceBuilder::reopen(trace);
    builder.absorb(samples);
    samples::leave_out_idle_threads(&mut builder);
    Ok(builder.finish())
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
        let (_, records) = Reader::new(&bytes).map_err(std::io::Error::other)?;
        for chunk in records
            .filter_map(record_text)
            .flat_map(<[u8]>::utf8_chunks)
        {
            let text = chunk.valid();
            let at = text.as_ptr() as usize - bytes.as_ptr() as usize;
            if let Some(clean) = overwrite_with_stars(text) {
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
fn record_text(record: Record<'_>) -> Option<&[u8]> {
    match record {
        Record::Text(record) => Some(record.text),
        Record::Attached(record) => Some(record.text),
        Record::Push(record) => Some(record.text),
        Record::RangeStart(record) => Some(record.text),
        Record::Mark(record) => Some(record.text),
        Record::Domain(record) => Some(record.text),
        Record::ThreadName(record) => Some(record.text),
        Record::GraphNode(record) => Some(record.text),
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
        if samples::read(source.bytes(), &mut builder) {
            continue;
        }
        match process::read(source.bytes(), &mut builder, &mut numbers) {
            Ok(()) => processes += 1,
            Err(error) => {
                builder
                    .issues
                    .push(Issue::error(IssueCode::WireUnreadable).with("error", error.to_string()));
                unreadable = Some((source, error));
            }
        }
    }
    if let (Some((source, error)), 0) = (unreadable, processes) {
        return Err(source.unusable(FORMAT, error.to_string()));
    }
    samples::leave_out_idle_threads(&mut builder);
    let metadata = &mut builder.metadata;
    metadata.insert("tool".to_owned(), "llmprof".to_owned());
    metadata.insert("processes".to_owned(), processes.to_string());
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use llmprof_wire::{Header, Mark};

    use super::*;

    #[test]
    fn credentials_go_from_texts_that_are_not_all_utf_8() {
        let token = b"hf_AbCdEfGhIjKlMnOpQrStUvWxYz12345678";
        let text = [b"\xff step ", token.as_slice(), b"\xfe"].concat();
        let mut bytes = Header {
            process: 1,
            parent: 0,
            time: 0,
            unix_offset: 0,
        }
        .bytes()
        .to_vec();
        Mark {
            time: 0,
            thread: 1,
            domain: 0,
            text: &text,
        }
        .put(&mut bytes);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("1.wire");
        std::fs::write(&file, &bytes).expect("it is written");
        assert_eq!(scrub(&file).ok(), Some(1));
        let clean = std::fs::read(&file).expect("it is there");
        assert_eq!(clean.len(), bytes.len());
        assert!(memchr::memmem::find(&clean, token).is_none());
        assert!(memchr::memmem::find(&clean, b"\xff step ").is_some());
        // Nothing can be said of a file that cannot be read.
        std::fs::write(&file, b"something else").expect("it is written");
        assert!(scrub(&file).is_err());
    }
}
