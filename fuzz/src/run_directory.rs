//! A run directory one of whose files has the bytes.

use std::error::Error;
use std::fs;
use std::path::Path;

use llmprof_record::import::{Limits, import};
use llmprof_record::predictions::PredictionLog;
use llmprof_record::run::RunRecord;
use llmprof_record::store::{RunDir, StoredRun};

/// The files that are read again.
pub const FILES: [&str; 8] = [
    "run.json",
    "record.json",
    "trace.llmprof",
    "samples.json",
    "counters.json",
    "memory.json",
    "communication.json",
    "predictions/predictions.jsonl",
];

const PREDICTION: &str = r#"{"index": 0, "id": "a", "name": "a", "text": "b", "finish": "stop", "prompt_tokens": 3,
    "output_tokens": 2, "ttft_ns": 5, "tpot_ns": 2, "duration_ns": 7, "segment": 0, "batch": 0, "batch_size": 1, "phases": [],
    "start_ns": 10, "token_ns": [15, 17], "tokens": [1, 2]}"#;

/// The seeds of importers that a run is made of.
const PROFILES: [&str; 4] = [
    "kineto/small.json",
    "torch_memory/protocol4.pickle",
    "ncu_csv/decode_raw.csv",
    "flight_recorder/protocol2.pickle",
];

/// Makes a whole run in a new folder, with every file that these seeds fill; `fuzz` is the folder of the targets.
pub fn make(run: &Path, fuzz: &Path) -> Result<(), Box<dyn Error>> {
    let mut record = RunRecord::default();
    for profile in PROFILES {
        let path = fuzz.join("corpus").join(profile);
        let (_, profile) = import(&path, &Limits::default())?;
        if record.add_profile("profile", profile).is_err() {
            return Err("a seed has no place in a run".into());
        }
    }
    let store = RunDir::create(run, "2026-01-01T00:00:00Z".into(), "0.0.0")?;
    record.save(run)?;
    drop(store);
    let mut log = PredictionLog::open(run)?;
    log.append(vec![serde_json::from_str(PREDICTION)?; 2])?;
    Ok(())
}

/// Reads the run; true where it could be.
pub fn read(folder: &Path, file: &str, bytes: &[u8]) -> bool {
    if fs::write(folder.join(file), bytes).is_err() {
        return false;
    }
    let stored = StoredRun::open(folder);
    let record = RunRecord::load(folder);
    let log = PredictionLog::open(folder);
    let is_log_read = log.is_ok_and(|log| {
        // A process that goes on counts from these.
        let next = (log.next_segment(), log.next_batch());
        next.0 > 0 && next.1 > 0 && !log.done().is_empty()
    });
    is_log_read && stored.is_ok() && record.is_ok_and(|record| record.is_some())
}
