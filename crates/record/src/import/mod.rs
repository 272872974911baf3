//! Importers of foreign profiles, one file per format, chosen by content.
//!
//! [`import`] opens a file as a [`Source`] (mapped, or unpacked within [`Limits`]), asks each entry of [`IMPORTERS`]
//! whether it knows the beginning of the content, and lets the first that does read it. Names of files play no part.
//! What an importer could not read is an [`Issue`](crate::issue::Issue) in what it returns; it fails only when
//! nothing could be read.

mod csv_text;
pub mod cublas_log;
mod discovery;
pub mod engine;
pub mod flight_recorder;
pub mod gpu_telemetry;
mod gunzip;
pub mod kineto;
pub mod nccl_inspector;
pub mod nccl_log;
pub mod ncu_csv;
pub mod ncu_report;
pub mod nsys_report;
pub mod nsys_sqlite;
pub mod nsys_stats;
mod protobuf;
mod refused;
pub mod rocprof;
mod source;
pub mod torch_memory;
mod torch_names;
pub mod torch_stats;
pub mod trtexec;
pub mod wire;
mod xla;
pub mod xplane;

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use discovery::{FoundFiles, FoundProfile, profiles_beside, profiles_in};
pub use source::{Limits, Source};

use crate::communication::Communication;
use crate::counters::Counters;
use crate::issue::{Issue, Severity};
use crate::memory::MemoryHistory;
use crate::samples::Samples;
use crate::summary::SummaryTable;
use crate::trace::Trace;

/// What a foreign file turned out to hold.
#[derive(Clone, Debug, PartialEq)]
pub enum Profile {
    Trace(Box<Trace>),
    /// Hardware counters of single launches.
    Counters(Box<Counters>),
    /// Sums by name, without the events behind them.
    Summary(Box<SummaryTable>),
    Memory(Box<MemoryHistory>),
    /// What a communication library says of itself.
    Communication(Box<Communication>),
    Telemetry(Box<Samples>),
}

pub struct Importer {
    /// The short name of the format: `kineto`.
    pub name: &'static str,
    /// Whether content that begins with these bytes (up to [`Source::HEAD_BYTES`]) is of this format.
    pub sniff: fn(head: &[u8]) -> bool,
    pub read: fn(source: &Source) -> Result<Profile, ImportError>,
}

/// All formats, in the order in which they are asked.
pub const IMPORTERS: &[Importer] = &[
    kineto::IMPORTER,
    nsys_sqlite::IMPORTER,
    ncu_csv::IMPORTER,
    ncu_report::IMPORTER,
    nsys_stats::IMPORTER,
    wire::IMPORTER,
    engine::IMPORTER,
    torch_memory::IMPORTER,
    flight_recorder::IMPORTER,
    nccl_inspector::IMPORTER,
    nccl_log::IMPORTER,
    torch_stats::IMPORTER,
    rocprof::JSON,
    rocprof::CSV,
    gpu_telemetry::NVML_CSV,
    gpu_telemetry::DMON,
    gpu_telemetry::QUERY,
    cublas_log::IMPORTER,
    xplane::IMPORTER,
];

/// The formats of [`IMPORTERS`] by the names that their tools give them.
const SUPPORTED: &str = "Kineto or Chrome JSON, Ascend trace_view.json, XPlane (.xplane.pb), Nsight Systems (.sqlite, .nsys-rep), nsys stats CSV, Nsight Compute (.ncu-rep, CSV pages), rocprofv3 (JSON, CSV), \
                         llmprof recordings, PyTorch memory snapshots and statistics, flight recorder dumps, NCCL Inspector and NCCL debug logs, GPU samples \
                         (nvml.csv, nvidia-smi dmon, nvidia-smi -q), cuBLAS logs";

/// Why a file could not be imported at all.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file system said no.
    #[error("cannot read {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    /// The path is a directory, or the file is empty.
    #[error("{path} is {what}, not a profile")]
    NotAFile {
        path: PathBuf,
        /// What it is instead: `a directory`, `empty`.
        what: &'static str,
    },
    /// Its files are no wire files of one run and no pages of one report.
    #[error(
        "{path} is a directory, and its files are not one profile: name a file or a run in it (`llmprof kernels analyze DIR` reads reports of Nsight Compute)"
    )]
    Directory { path: PathBuf },
    /// It unpacks to more than the limits allow.
    #[error(
        "{path} unpacks to more than {limit_bytes} bytes, which is past the limit for its size; unpack it by hand if it can be trusted"
    )]
    TooLarge {
        path: PathBuf,
        /// The limit that was passed.
        limit_bytes: u64,
    },
    #[error("{path}: unrecognized format ({begins}); supported: {SUPPORTED}")]
    Unknown {
        path: PathBuf,
        /// The first bytes of its content, printable.
        begins: String,
    },
    /// Its format is known, and another that holds the same is read.
    #[error("{path} is {format}, which is not read; export {instead}")]
    Refused {
        path: PathBuf,
        format: &'static str,
        /// The command or format that gives a readable file.
        instead: &'static str,
    },
    /// It is of a known kind, but nothing in it can be used.
    #[error("{path} looks like {format}, but {what}")]
    Unusable {
        path: PathBuf,
        /// The format that it was taken for.
        format: &'static str,
        /// What is wrong, and where.
        what: String,
    },
    /// Nothing was recorded in it, or nothing of it can be used.
    #[error("{path} looks like {format}, but {what}")]
    NoEvents {
        path: PathBuf,
        format: &'static str,
        what: String,
        /// Why most of its events were dropped.
        worst: Option<Box<Issue>>,
    },
}

impl ImportError {
    /// Whether the file was read and holds no profile that can be used.
    pub fn is_of_content(&self) -> bool {
        matches!(
            self,
            Self::NotAFile { .. }
                | Self::Directory { .. }
                | Self::Unknown { .. }
                | Self::Refused { .. }
                | Self::Unusable { .. }
                | Self::NoEvents { .. }
        )
    }
}

/// The importer that knows content with this beginning.
pub fn sniff(head: &[u8]) -> Option<&'static Importer> {
    IMPORTERS.iter().find(|importer| (importer.sniff)(head))
}

/// Reads a foreign profile of any known format. The answer has the name of the format.
pub fn import(path: &Path, limits: &Limits) -> Result<(&'static str, Profile), ImportError> {
    if path.is_dir() {
        return import_directory(path);
    }
    if let Some(packed) = source::Packed::open(path, limits)
        && let Some(read) = kineto::read_packed(&packed, limits)
    {
        packed.check_whole()?;
        let profile = Profile::Trace(Box::new(read?));
        check_used(path, kineto::IMPORTER.name, &profile)?;
        return Ok((kineto::IMPORTER.name, profile));
    }
    let source = Source::open(path, limits)?;
    let importer = sniff(source.head());
    if importer.is_none() && nsys_report::may_be(path) {
        let profile = nsys_report::read(path, nsys_report::find_tool().as_deref(), limits)?;
        return Ok(("nsys_report", profile));
    }
    if importer.is_none()
        && let Some(refused) = refused::refused_format(source.head())
    {
        return Err(ImportError::Refused {
            path: path.to_owned(),
            format: refused.format,
            instead: refused.instead,
        });
    }
    of_source(&source)
}

/// Reads a foreign profile that was found in a directory and not named by the user: nothing but a regular file is opened, and no
/// link is followed on the last step.
pub fn import_found(path: &Path, limits: &Limits) -> Result<(&'static str, Profile), ImportError> {
    let source = Source::open_regular(path, limits)?;
    of_source(&source)
}

/// The profile in content whose format an importer knows.
fn of_source(source: &Source) -> Result<(&'static str, Profile), ImportError> {
    let importer = sniff(source.head()).ok_or_else(|| ImportError::Unknown {
        path: source.path().to_owned(),
        begins: describe(source.head()),
    })?;
    let read = (importer.read)(source);
    source.check_whole()?;
    let profile = read?;
    check_used(source.path(), importer.name, &profile)?;
    Ok((importer.name, profile))
}

/// An error where a file has no events, or all of them were dropped: an empty report would hide that.
fn check_used(path: &Path, format: &'static str, profile: &Profile) -> Result<(), ImportError> {
    let Profile::Trace(trace) = profile else {
        return Ok(());
    };
    if trace.rows() > 0 {
        return Ok(());
    }
    let issues = trace.issues.iter();
    let dropped = issues.filter(|issue| issue.severity > Severity::Info);
    let worst = dropped.max_by_key(|issue| issue.count);
    Err(ImportError::NoEvents {
        path: path.to_owned(),
        format,
        what: match trace.events_read {
            0 => "nothing was recorded in it".to_owned(),
            events => format!("none of its {events} events can be used"),
        },
        worst: worst.cloned().map(Box::new),
    })
}

/// A directory is the wire files of one run, a set of Nsight Compute pages, or nothing.
fn import_directory(path: &Path) -> Result<(&'static str, Profile), ImportError> {
    let wire_files = wire::wire_files(path).map_err(|source| ImportError::Io {
        path: path.to_owned(),
        source,
    })?;
    if !wire_files.is_empty() {
        let trace = wire::read_files(&wire_files, &Limits::default())?;
        return Ok((wire::IMPORTER.name, Profile::Trace(Box::new(trace))));
    }
    match ncu_csv::read_directory(path) {
        Ok(counters) => Ok((
            ncu_csv::IMPORTER.name,
            Profile::Counters(Box::new(counters)),
        )),
        Err(ncu_csv::NcuError::Io { path, source }) => Err(ImportError::Io { path, source }),
        Err(ncu_csv::NcuError::EmptyDirectory(path)) => Err(ImportError::Directory { path }),
        Err(error) => Err(ImportError::Unusable {
            path: path.to_owned(),
            format: "a directory of Nsight Compute pages",
            what: error.to_string(),
        }),
    }
}

/// The first bytes for a message: as text where they are, else in hexadecimal.
fn describe(head: &[u8]) -> String {
    let first = &head[..head.len().min(16)];
    if first
        .iter()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t'))
    {
        format!("it begins with {:?}", String::from_utf8_lossy(first))
    } else {
        let hex: Vec<_> = first.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("it begins with the bytes {}", hex.join(" "))
    }
}
