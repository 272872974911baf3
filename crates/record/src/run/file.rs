//! A record in its run directory: `record.json`, a trace file per trace, and a file for each other large part.
//!
//! Each file is replaced whole, so that a run that is killed keeps what it saved last.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use llmprof_theory::{Workload, device::Device};
use llmprof_units::schema::schema_of;
use rayon::prelude::*;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    HostFacts, MeasuredPass, RecordedModel, RecordedTrace, RecordedWeights, Request, RunRecord,
    Summary,
};
use crate::issue::Issue;
use crate::plan::Plan;
use crate::rank_summary::{RANK_FILE_MAX_BYTES, RANK_FILE_SUFFIX, RANK_FOLDER, RankSummary};
use crate::serving::{RequestRecord, ServedLoad};
use crate::store::{Durability, Folder, JSON_MAX_BYTES, StoreError, StoredRun, no_room_hint};
use crate::trace::{Trace, TraceFileError};

/// The facts of a run beside its traces, counters and samples.
pub const RECORD_FILE: &str = "record.json";
/// The trace that explains the time.
pub const TRACE_FILE: &str = "trace.llmprof";
const COUNTERS_FILE: &str = "counters.json";
const MEMORY_FILE: &str = "memory.json";
const COMMUNICATION_FILE: &str = "communication.json";
const SAMPLES_FILE: &str = "samples.json";
const SUMMARIES_FILE: &str = "summaries.json";
/// A served load without its requests.
const LOAD_FILE: &str = "load.json";
/// Its requests, a line each.
const REQUESTS_FILE: &str = "requests.jsonl";
/// The layout before this one, whose facts were in another file.
const OLD_FILE: &str = "recorded.json";

/// Version of `record.json`; a reader takes its own version only.
pub(super) const SCHEMA_VERSION: u32 = 2;

/// Why a record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Trace(#[from] TraceFileError),
    #[error("cannot read {path}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} is damaged: {reason}")]
    Damaged { path: PathBuf, reason: String },
    #[error("{path} has layout version {version}, and this llmprof reads version {SCHEMA_VERSION}")]
    Version { path: PathBuf, version: u32 },
    #[error("cannot write JSON: {0}")]
    Write(serde_json::Error),
}

impl RecordError {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Trace(TraceFileError::Io { path, source, .. }) => no_room_hint(source, path),
            Self::Version { .. } => Some(
                "run it again, or import its raw files (torch_profiler/, cupti/) anew".to_owned(),
            ),
            _ => None,
        }
    }
}

/// Measured facts of a run, without its large parts.
#[derive(Serialize, JsonSchema, Deserialize)]
#[schemars(rename = "Record")]
struct StoredRecord {
    /// Version of the layout of this file.
    schema_version: u32,
    /// Name of the model or of the file.
    name: String,
    /// The plan of the run; absent for an imported profile.
    plan: Option<Plan>,
    /// The machine that the run was made on; absent if it is not known.
    host: Option<HostFacts>,
    /// The device with its peaks; absent if it is not known.
    device: Option<Device>,
    /// The model as its config has it.
    model: Option<RecordedModel>,
    /// Which weights the run had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weights: Option<RecordedWeights>,
    /// Batch, prompt and output of the requests; absent if they are not known.
    workload: Option<Workload>,
    /// Keys of the workload that the user stated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    workload_keys: Vec<String>,
    /// The passes of the run, in order.
    passes: Vec<MeasuredPass>,
    /// The requests of all passes.
    requests: Vec<Request>,
    /// Whether the KV cache has its final size from the start.
    fixed_cache: bool,
    /// For each trace file, the pass it was recorded in.
    traces: Vec<Option<usize>>,
    /// What was dropped or should not be trusted.
    issues: Vec<Issue>,
}

/// The file of the trace with this number.
fn trace_file(number: usize) -> String {
    match number {
        0 => TRACE_FILE.to_owned(),
        _ => format!("trace.{number}.llmprof"),
    }
}

impl RunRecord {
    pub const SCHEMA_VERSION: u32 = SCHEMA_VERSION;

    /// The JSON Schema of `record.json`.
    pub fn schema(id: &str) -> Schema {
        schema_of::<StoredRecord>(id)
    }

    /// Writes every part of the record into a run directory.
    pub fn save(&self, run: &Path) -> Result<(), RecordError> {
        let folder = &open_folder(run)?;
        for (number, recorded) in self.traces.iter().enumerate() {
            // Further timelines that somebody else recorded can be imported again: ranks cost one sync, not one each.
            let is_imported = number > 0 && recorded.pass.is_none();
            let durability = if is_imported {
                Durability::Derived
            } else {
                Durability::Content
            };
            let name = trace_file(number);
            recorded.trace.save_in(folder, name, durability)?;
        }
        if let Some(counters) = &self.counters {
            write_json(folder, COUNTERS_FILE, counters)?;
        }
        if let Some(communication) = &self.communication {
            write_json(folder, COMMUNICATION_FILE, communication)?;
        }
        if let Some(memory) = &self.memory {
            write_json(folder, MEMORY_FILE, memory)?;
        }
        if let Some(samples) = &self.samples {
            write_json(folder, SAMPLES_FILE, samples)?;
        }
        if let Some(load) = &self.load {
            write_requests(folder, &load.load.requests)?;
            write_json(folder, LOAD_FILE, load)?;
        }
        if !self.summaries.is_empty() {
            write_json(folder, SUMMARIES_FILE, &self.summaries)?;
        }
        write_ranks(folder, &self.rank_summaries)?;
        self.save_facts_in(folder)
    }

    /// Writes `record.json` alone: what changes with every pass, without the large parts.
    pub fn save_facts(&self, run: &Path) -> Result<(), RecordError> {
        self.save_facts_in(&open_folder(run)?)
    }

    fn save_facts_in(&self, folder: &Folder) -> Result<(), RecordError> {
        let saved = |number: &usize| folder.has_file(trace_file(*number));
        let stored = StoredRecord {
            schema_version: SCHEMA_VERSION,
            name: self.name.clone(),
            plan: self.plan.clone(),
            host: self.host.clone(),
            device: self.device.clone(),
            model: self.model.clone(),
            weights: self.weights.clone(),
            workload: self.workload,
            workload_keys: self.workload_keys.clone(),
            passes: self.passes.clone(),
            requests: self.requests.clone(),
            fixed_cache: self.fixed_cache,
            traces: (0..self.traces.len())
                .filter(saved)
                .map(|number| self.traces[number].pass)
                .collect(),
            issues: self.issues.clone(),
        };
        write_json(folder, RECORD_FILE, &stored)
    }

    /// Reads the record of a run directory; `None` where the run ended before it measured anything.
    pub fn load(run: &Path) -> Result<Option<Self>, RecordError> {
        let folder = &open_folder(run)?;
        let file = run.join(RECORD_FILE);
        let Some(stored) = read_stored(folder)? else {
            if folder.has_file(OLD_FILE) {
                return Err(RecordError::Version {
                    path: run.to_owned(),
                    version: 1,
                });
            }
            return Ok(None);
        };
        let mut traces = Vec::new();
        for (number, pass) in stored.traces.into_iter().enumerate() {
            let trace = Trace::load_in(folder, trace_file(number))?;
            traces.push(RecordedTrace { pass, trace });
        }
        let known = |pass: usize| pass < stored.passes.len();
        let dangling = stored.requests.iter().any(|request| !known(request.pass))
            || traces
                .iter()
                .any(|trace| trace.pass.is_some_and(|pass| !known(pass)));
        if dangling {
            return Err(RecordError::Damaged {
                path: file,
                reason: "it names a pass that it does not list".to_owned(),
            });
        }
        let artifacts = StoredRun::open(run).map(|run| run.manifest.artifacts);
        Ok(Some(Self {
            name: stored.name,
            plan: stored.plan,
            host: stored.host,
            device: stored.device,
            model: stored.model,
            weights: stored.weights,
            workload: stored.workload,
            workload_keys: stored.workload_keys,
            passes: stored.passes,
            requests: stored.requests,
            fixed_cache: stored.fixed_cache,
            samples: read_json(folder, SAMPLES_FILE)?,
            traces,
            rank_summaries: read_ranks(folder)?,
            counters: read_json(folder, COUNTERS_FILE)?,
            summaries: read_json::<Vec<Summary>>(folder, SUMMARIES_FILE)?.unwrap_or_default(),
            communication: read_json(folder, COMMUNICATION_FILE)?,
            memory: read_json(folder, MEMORY_FILE)?,
            load: read_load(folder)?,
            issues: stored.issues,
            artifacts: artifacts.unwrap_or_default(),
        }))
    }
}

fn open_folder(run: &Path) -> Result<Folder, RecordError> {
    Folder::open(run).map_err(|source| RecordError::Read {
        path: run.to_owned(),
        source,
    })
}

fn read_stored(folder: &Folder) -> Result<Option<StoredRecord>, RecordError> {
    /// The version alone, so that another layout is refused for its version and not for a detail.
    #[derive(Deserialize)]
    struct Version {
        schema_version: u32,
    }
    let Some(version) = read_json::<Version>(folder, RECORD_FILE)? else {
        return Ok(None);
    };
    if version.schema_version != SCHEMA_VERSION {
        return Err(RecordError::Version {
            path: folder.path().join(RECORD_FILE),
            version: version.schema_version,
        });
    }
    read_json(folder, RECORD_FILE)
}

fn write_json<T: Serialize>(folder: &Folder, name: &str, value: &T) -> Result<(), RecordError> {
    let mut text = serde_json::to_vec(value).map_err(RecordError::Write)?;
    text.push(b'\n');
    write_bytes(folder, name, &text)
}

fn write_bytes(folder: &Folder, name: &str, bytes: &[u8]) -> Result<(), RecordError> {
    // The record itself is saved last, and syncs the names of the others.
    let durability = match name {
        RECORD_FILE => Durability::Whole,
        _ => Durability::Content,
    };
    folder
        .replace_as(durability, name, bytes)
        .map_err(|source| {
            RecordError::Store(StoreError::Io {
                action: "write",
                path: folder.path().join(name),
                source,
            })
        })
}

/// Ranks that were written when they were read are not written again.
fn write_ranks(folder: &Folder, ranks: &[RankSummary]) -> Result<(), RecordError> {
    for summary in ranks {
        let name = format!("{RANK_FOLDER}/{}", RankSummary::file_name(summary.rank));
        if !folder.has_file(&name) {
            folder
                .replace_as(Durability::Derived, &name, &summary.to_bytes())
                .map_err(|source| {
                    RecordError::Store(StoreError::Io {
                        action: "write",
                        path: folder.path().join(&name),
                        source,
                    })
                })?;
        }
    }
    Ok(())
}

/// The ranks of a job, the lowest first.
fn read_ranks(folder: &Folder) -> Result<Vec<RankSummary>, RecordError> {
    let path = folder.path().join(RANK_FOLDER);
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    let entries = std::fs::read_dir(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    for entry in entries.map_err(|source| RecordError::Read {
        path: path.clone(),
        source,
    })? {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(RANK_FILE_SUFFIX) {
            names.push(name);
        }
    }
    names.sort_unstable();
    let summaries: Vec<RankSummary> = names
        .par_iter()
        .map(|name| {
            let name = format!("{RANK_FOLDER}/{name}");
            let path = folder.path().join(&name);
            let bytes = folder.read(&name, RANK_FILE_MAX_BYTES);
            let bytes = bytes.map_err(|source| RecordError::Read {
                path: path.clone(),
                source,
            })?;
            RankSummary::from_bytes(&bytes).map_err(|error| RecordError::Damaged {
                path,
                reason: error.to_string(),
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(summaries)
}

fn write_requests(folder: &Folder, requests: &[RequestRecord]) -> Result<(), RecordError> {
    let mut lines = Vec::new();
    for request in requests {
        serde_json::to_writer(&mut lines, request).map_err(RecordError::Write)?;
        lines.push(b'\n');
    }
    write_bytes(folder, REQUESTS_FILE, &lines)
}

/// Tokens of an answer beyond which a file is not believed: gaps between tokens are kept one by one.
const ANSWER_TOKENS_MAX: u32 = 1 << 24;

fn read_load(folder: &Folder) -> Result<Option<ServedLoad>, RecordError> {
    let Some(mut load) = read_json::<ServedLoad>(folder, LOAD_FILE)? else {
        return Ok(None);
    };
    let path = folder.path().join(REQUESTS_FILE);
    let read_error = |source| RecordError::Read {
        path: path.clone(),
        source,
    };
    let damaged = |number: usize, reason: String| RecordError::Damaged {
        path: path.clone(),
        reason: format!("line {}: {reason}", number + 1),
    };
    let file = folder.open_file(REQUESTS_FILE).map_err(read_error)?;
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(read_error)?;
        let request: RequestRecord =
            serde_json::from_str(&line).map_err(|error| damaged(number, error.to_string()))?;
        let mut counts = request.arrivals.iter().filter_map(|arrival| arrival.tokens);
        if let Some(tokens) = counts.find(|tokens| *tokens > ANSWER_TOKENS_MAX) {
            return Err(damaged(number, format!("an answer of {tokens} tokens")));
        }
        load.load.requests.push(request);
    }
    Ok(Some(load))
}

/// The contents of a JSON file; `None` where there is no such file.
fn read_json<T: DeserializeOwned>(folder: &Folder, name: &str) -> Result<Option<T>, RecordError> {
    let path = folder.path().join(name);
    match folder.read(name, JSON_MAX_BYTES) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| RecordError::Damaged {
                    path,
                    reason: error.to_string(),
                })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RecordError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use llmprof_theory::device::Catalog;
    use llmprof_traffic::arrivals::Arrivals;
    use llmprof_units::{Joules, Nanos};
    use serde_json::json;

    use super::*;
    use crate::issue::{IssueCode, Severity};
    use crate::run::{PassKind, PhaseSpan, RunPhase};
    use crate::samples::{Sample, Samples};
    use crate::serving::{AskedLoad, AskedSource, EngineStep, LoadRecord};
    use crate::trace::{Range, TraceBuilder};

    fn record() -> RunRecord {
        let mut builder = TraceBuilder::default();
        let name = builder.intern("decode");
        builder.ranges.push(Range {
            duration: 5,
            name,
            ..Range::default()
        });
        let design = json!({
            "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 4, "vocab_size": 256,
        });
        RunRecord {
            name: "tiny".to_owned(),
            device: Some(Catalog::embedded().by_name("h200").unwrap()),
            model: Some(RecordedModel {
                model: llmprof_theory::Model::from_config(&design, None).ok(),
                design: design.as_object().unwrap().clone(),
            }),
            workload: Some(Workload::default()),
            passes: vec![MeasuredPass {
                kind: PassKind::Captured,
                phases: vec![PhaseSpan {
                    phase: RunPhase::Decode,
                    start_ns: Nanos(0),
                    end_ns: Nanos(5),
                    passes: Vec::new(),
                }],
                ..MeasuredPass::default()
            }],
            requests: vec![Request {
                id: "0".to_owned(),
                token_ns: vec![Nanos(5)],
                ..Request::default()
            }],
            samples: Some(Samples {
                rows: vec![Sample {
                    package_energy_j: Some(Joules(0.1)),
                    ..Sample::default()
                }],
                ..Samples::default()
            }),
            traces: vec![RecordedTrace {
                pass: Some(0),
                trace: builder.finish(),
            }],
            issues: vec![Issue::new(
                Severity::Info,
                IssueCode::from("a.code"),
                "text",
            )],
            ..RunRecord::default()
        }
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(RunRecord::load(folder.path()).unwrap(), None);
        let record = record();
        record.save(folder.path()).unwrap();
        assert_eq!(RunRecord::load(folder.path()).unwrap(), Some(record));
    }

    /// The device of a run is its own: another calibration does not change what the run is judged by.
    #[test]
    fn peaks_are_stored_with_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = record();
        let device = record.device.as_mut().unwrap();
        device.memory.bandwidth_bytes_per_s.value.0 = 1.0;
        record.save(folder.path()).unwrap();
        let back = RunRecord::load(folder.path()).unwrap().unwrap();
        assert_eq!(back.device.unwrap().memory_bandwidth().0, 1.0);
    }

    #[test]
    fn other_layouts_are_refused_by_version() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(OLD_FILE), "{}").unwrap();
        let error = RunRecord::load(folder.path()).unwrap_err().to_string();
        assert!(error.contains("layout version 1"), "{error}");
        std::fs::write(folder.path().join(RECORD_FILE), r#"{"schema_version": 9}"#).unwrap();
        let error = RunRecord::load(folder.path()).unwrap_err().to_string();
        assert!(error.contains("layout version 9"), "{error}");
    }

    #[test]
    fn a_load_is_read_as_it_was_saved_and_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut request = RequestRecord::due(0, Nanos(100), 16);
        request.arrivals = vec![(Nanos(300), Some(1)).into(), (Nanos(500), None).into()];
        let record = RunRecord {
            load: Some(ServedLoad {
                asked: AskedLoad {
                    endpoint: "http://127.0.0.1:8000".to_owned(),
                    arrivals: Arrivals::Poisson { rate: 4.0 },
                    source: AskedSource::Dataset { conversations: 3 },
                    requests: 2,
                    shared_prefix_share: 0.25,
                    slos: vec!["ttft:p99<500ms".parse().unwrap()],
                },
                load: LoadRecord {
                    requests: vec![request.clone(), request],
                    ..LoadRecord::default()
                },
                server: None,
                exporters: Vec::new(),
                steps: vec![EngineStep::default()],
                sweep: None,
            }),
            ..RunRecord::default()
        };
        record.save(folder.path()).unwrap();
        assert_eq!(
            RunRecord::load(folder.path()).unwrap().unwrap().load,
            record.load
        );
        let file = folder.path().join(REQUESTS_FILE);
        let text = std::fs::read_to_string(&file).unwrap();
        let many = text.replacen("[300,1]", "[300,4294967295]", 1);
        for (damaged, line) in [(&text[..text.len() / 2 + 9], "line 2"), (&many, "line 1")] {
            std::fs::write(&file, damaged).unwrap();
            let error = RunRecord::load(folder.path()).unwrap_err();
            assert!(error.to_string().contains(line), "{error}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(RunRecord::load(folder.path()).is_err());
    }

    #[test]
    fn a_request_of_an_unknown_pass_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = record();
        record.requests[0].pass = 7;
        record.save(folder.path()).unwrap();
        let error = RunRecord::load(folder.path()).unwrap_err();
        assert!(matches!(error, RecordError::Damaged { .. }), "{error}");
    }
}
