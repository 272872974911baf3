//! What every importer of traces goes through, fixture by fixture.

#![allow(dead_code, reason = "each test program uses its part of this")]

use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use llmprof_record::import::{self, ImportError, Limits, Profile, Source};
use llmprof_record::trace::{HostKind, RangeKind, Trace};

/// The path of a file under `fixtures/`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

/// The unpacked content of a fixture.
pub(crate) fn unpacked(name: &str) -> Vec<u8> {
    let bytes = fs::read(fixture(name)).expect("the fixture is there");
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut content = Vec::new();
    MultiGzDecoder::new(&bytes[..])
        .read_to_end(&mut content)
        .expect("the fixture is whole");
    content
}

/// Imports content that has no name to go by.
pub(crate) fn import_bytes(content: &[u8]) -> Result<Trace, ImportError> {
    let source = Source::from_bytes(Path::new("content"), content.to_vec(), &Limits::default())?;
    let importer = import::sniff(source.head())
        .ok_or_else(|| source.unusable("nothing known", "no importer knows it"))?;
    match (importer.read)(&source)? {
        Profile::Trace(trace) => Ok(*trace),
        other => panic!("a timeline was expected, not {other:?}"),
    }
}

/// A fixture of a timeline: sniffed without its name, equal after save and load, robust against truncation.
/// The answer is a digest to take a snapshot of.
pub(crate) fn check_timeline(name: &str, format: &str) -> (Trace, String) {
    let content = unpacked(name);
    let importer = import::sniff(&content[..content.len().min(Source::HEAD_BYTES)])
        .expect("known by its content");
    assert_eq!(importer.name, format);
    let trace = import_bytes(&content).expect("the fixture can be read");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let saved = folder.path().join("trace.llmprof");
    trace.save(&saved).expect("it can be saved");
    let loaded = Trace::load(&saved).expect("it can be loaded");
    assert_same(&loaded, &trace);

    check_truncation(&content, 48);
    let digest = digest(&trace);
    (trace, digest)
}

/// Fails unless the two are equal, with digests rather than a million rows.
pub(crate) fn assert_same(left: &Trace, right: &Trace) {
    assert!(
        left == right,
        "left:\n{}\nright:\n{}",
        digest(left),
        digest(right)
    );
}

/// Cuts the content at many places: each gives an error, or a trace that says what it lost.
pub(crate) fn check_truncation(content: &[u8], cuts: usize) {
    let reach = content.len().min(200_000);
    for cut in (0..cuts).map(|cut| cut * reach / cuts) {
        if let Ok(trace) = import_bytes(&content[..cut]) {
            assert!(
                !trace.issues.is_empty(),
                "cut at byte {cut}, nothing is said of it"
            );
        }
    }
}

/// A trace in words and sums, small enough to read and sensitive to every column.
pub(crate) fn digest(trace: &Trace) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "events {} rows {}", trace.events_read, trace.rows());
    let _ = writeln!(
        out,
        "strings {} inputs {}",
        trace.strings.len(),
        trace.inputs.len()
    );
    for kind in HostKind::ALL {
        let rows: Vec<_> = trace
            .hosts
            .rows()
            .filter(|host| host.kind == *kind)
            .collect();
        if !rows.is_empty() {
            let total: i64 = rows.iter().map(|host| host.duration).sum();
            let _ = writeln!(out, "hosts {kind}: {} rows, {total} ns", rows.len());
        }
    }
    for kind in RangeKind::ALL {
        let rows: Vec<_> = trace
            .ranges
            .rows()
            .filter(|range| range.kind == *kind)
            .collect();
        if !rows.is_empty() {
            let total: i64 = rows.iter().map(|range| range.duration).sum();
            let _ = writeln!(out, "ranges {kind}: {} rows, {total} ns", rows.len());
        }
    }
    let _ = writeln!(
        out,
        "kernels {} rows, {} ns",
        trace.kernels.len(),
        trace.kernels.duration.iter().sum::<i64>()
    );
    let _ = writeln!(
        out,
        "copies {} rows, {} bytes",
        trace.copies.len(),
        trace.copies.bytes.iter().sum::<u64>()
    );
    let _ = writeln!(
        out,
        "memsets {} rows, {} bytes",
        trace.memsets.len(),
        trace.memsets.bytes.iter().sum::<u64>()
    );
    let _ = writeln!(
        out,
        "memory {} rows, {} bytes",
        trace.memory.len(),
        trace.memory.bytes.iter().sum::<i64>()
    );
    let _ = writeln!(out, "syncs {} rows", trace.syncs.len());
    for thread in trace.threads.rows() {
        let text = |id| trace.text(id);
        let _ = writeln!(
            out,
            "thread {} {} {:?} {:?} {:?} {:?}",
            thread.process,
            thread.thread,
            text(thread.process_label),
            text(thread.label),
            text(thread.process_name),
            text(thread.name)
        );
    }
    for device in &trace.devices {
        let _ = writeln!(
            out,
            "device {} {} {:?} SMs",
            device.id, device.name, device.sm_count
        );
    }
    for (key, value) in &trace.metadata {
        let _ = writeln!(out, "{key} = {value}");
    }
    if let Some(first) = trace.hosts.rows().next() {
        let _ = writeln!(out, "first host: {} {first:?}", trace.text(first.name));
    }
    if let Some(first) = trace.kernels.rows().next() {
        let _ = writeln!(out, "first kernel: {} {first:?}", trace.text(first.name));
    }
    for issue in &trace.issues {
        let _ = writeln!(out, "{issue}");
    }
    out
}
