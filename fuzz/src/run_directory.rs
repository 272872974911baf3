//! A run directory one of whose files has the bytes.

use std::fs;
use std::path::Path;

use llmprof_record::run::RunRecord;
use llmprof_record::store::StoredRun;

/// The files that are read again.
pub const FILES: [&str; 7] = [
    "run.json",
    "record.json",
    "trace.llmprof",
    "samples.json",
    "counters.json",
    "memory.json",
    "communication.json",
];

/// The seeds of importers that a run is made of.
pub const PROFILES: [&str; 4] = [
    "kineto/small.json",
    "torch_memory/protocol4.pickle",
    "ncu_csv/decode_raw.csv",
    "flight_recorder/protocol2.pickle",
];

/// Reads the run; true where it could be.
pub fn read(folder: &Path, file: &str, bytes: &[u8]) -> bool {
    if fs::write(folder.join(file), bytes).is_err() {
        return false;
    }
    let stored = StoredRun::open(folder);
    let record = RunRecord::load(folder);
    stored.is_ok() && record.is_ok_and(|record| record.is_some())
}
