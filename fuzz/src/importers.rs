//! What is done with the bytes of a foreign profile.

use std::path::Path;

use llmprof_record::import::{IMPORTERS, Limits, Profile, Source, trtexec};
use llmprof_record::trace::Trace;

/// Every format; each has a folder of seeds in `fuzz/corpus` and a target in `fuzz/fuzz_targets`.
pub fn formats() -> Vec<&'static str> {
    let importers = IMPORTERS.iter().map(|importer| importer.name);
    importers.chain(["trtexec"]).collect()
}

/// Reads bytes as the given format; true if something could be read. A timeline is exported, and the
/// export must be JSON, whatever numbers it has.
pub fn import(format: &str, bytes: &[u8]) -> bool {
    if format == "trtexec" {
        let text = String::from_utf8_lossy(bytes);
        return trtexec::read(&text).is_some();
    }
    let limits = Limits {
        unpacked_bytes: 1 << 24,
        ..Limits::default()
    };
    let importer = IMPORTERS.iter().find(|importer| importer.name == format);
    let importer = importer.expect("a format that is listed");
    let Ok(source) = Source::from_bytes(Path::new("input"), bytes.to_vec(), &limits) else {
        return false;
    };
    match (importer.read)(&source) {
        Ok(Profile::Trace(trace)) => {
            export_trace(&trace);
            true
        }
        Ok(_) => true,
        Err(_) => false,
    }
}

fn export_trace(trace: &Trace) {
    let mut text = Vec::new();
    trace.write_chrome(&mut text).expect("memory takes it");
    let read: Result<serde::de::IgnoredAny, _> = serde_json::from_slice(&text);
    read.expect("an export is valid JSON");
}
