//! Timelines from the SQLite export of Nsight Systems (`nsys export --type sqlite`).
//!
//! Versions add tables and columns, and a table without rows is not exported: everything but the times of an event is
//! optional. The export also holds environment variables, command lines, users and hosts; only columns named here
//! are read, and the string table only where an event refers to it.

mod database;
mod device_events;
mod host_events;
mod ranges;
mod scrub;
mod target;

pub use scrub::scrub;

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::path::Path;

use database::Database;
use rusqlite::{Connection, OpenFlags};

use super::{ImportError, Importer, Profile, Source};
use crate::issue::{Issue, IssueCode};
use crate::trace::{StrId, Trace, TraceBuilder};

/// Reads `.sqlite` exports, packed or not.
pub(crate) const IMPORTER: Importer = Importer {
    name: "nsys_sqlite",
    sniff: |head| head.starts_with(MAGIC),
    read: |source| Ok(Profile::Trace(Box::new(read(source)?))),
};

const FORMAT: &str = "an Nsight Systems export";

/// How every SQLite 3 file begins.
const MAGIC: &[u8] = b"SQLite format 3\0";

pub fn read(source: &Source) -> Result<Trace, ImportError> {
    let unusable = |what: String| source.unusable(FORMAT, what);
    // The file must outlive the connection.
    let (connection, _unpacked) = open(source).map_err(&unusable)?;
    let mut database = Database::open(connection, source.bytes().len() as u64)
        .map_err(|error| unusable(format!("SQLite cannot read its tables: {error}")))?;
    if !is_export(&database) {
        let names: Vec<&str> = database.tables().map(|(name, _)| name).take(5).collect();
        let tables = if names.is_empty() {
            "no tables".to_owned()
        } else {
            names.join(", ")
        };
        return Err(unusable(format!(
            "it is another kind of SQLite file: none of Nsight Systems' tables is there (it has {tables})"
        )));
    }
    database.load_texts();
    let mut reading = Reading {
        texts: database.take_texts(),
        interned: HashMap::new(),
        threads_seen: BTreeSet::new(),
        builder: TraceBuilder::default(),
        correlations: Correlations::scan_processes(&mut database),
        devices: target::DeviceNumbers::scan_devices(&mut database),
    };
    let metadata = &mut reading.builder.metadata;
    metadata.insert("tool".to_owned(), "nsys".to_owned());
    reading.builder.issues.extend_from_slice(source.issues());
    target::read(&mut database, &mut reading);
    host_events::read(&mut database, &mut reading);
    device_events::read(&mut database, &mut reading);
    ranges::read(&mut database, &mut reading);
    host_events::read_thread_names(&mut database, &mut reading);
    note_unread_tables(&mut database);
    let damaged = reading.builder.events_read == 0;
    let mut issues = database.issues().peekable();
    if damaged && let Some(first) = issues.peek() {
        return Err(unusable(format!(
            "no event could be read from it: {}",
            first.message
        )));
    }
    reading.builder.issues.extend(issues);
    Ok(reading.builder.finish())
}

/// What is carried from table to table.
struct Reading {
    builder: TraceBuilder,
    texts: HashMap<i64, String>,
    interned: HashMap<i64, StrId>,
    threads_seen: BTreeSet<(i64, i64)>,
    correlations: Correlations,
    devices: target::DeviceNumbers,
}

impl Reading {
    /// The interned text behind an id of the string table; empty where it has none.
    fn text(&mut self, id: Option<i64>) -> StrId {
        let Some(id) = id else { return StrId::EMPTY };
        if let Some(&known) = self.interned.get(&id) {
            return known;
        }
        let text = self.texts.get(&id).map_or("", String::as_str);
        let interned = self.builder.intern(text);
        self.interned.insert(id, interned);
        interned
    }

    fn thread(&mut self, global: i64) -> crate::trace::ThreadId {
        let (process, thread) = (process_of(global), thread_of(global));
        self.threads_seen.insert((process, thread));
        self.builder.thread(process, thread)
    }
}

/// The process inside a serialized id: bits 24 to 47.
fn process_of(global: i64) -> i64 {
    (global >> 24) & 0xff_ffff
}

/// The thread inside a serialized id: the low 24 bits.
fn thread_of(global: i64) -> i64 {
    global & 0xff_ffff
}

/// Makes correlation ids unique: each process counts its own.
struct Correlations {
    several_processes: bool,
    numbers: HashMap<(i64, i64), u32>,
}

impl Correlations {
    fn scan_processes(database: &mut Database) -> Self {
        let mut processes = BTreeSet::new();
        for (table, column) in [
            ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"),
            ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"),
        ] {
            if database.has_column(table, column) {
                database.scan(table, &[column], 1, |cells| {
                    if let Some(global) = cells.int() {
                        processes.insert(process_of(global));
                    }
                    Some(())
                });
            }
        }
        Self {
            several_processes: processes.len() > 1,
            numbers: HashMap::new(),
        }
    }

    /// The id that both ends of a launch get. 0 stays "none".
    fn unique(&mut self, global: Option<i64>, correlation: Option<i64>) -> u32 {
        let Some(correlation) = correlation.filter(|id| *id != 0) else {
            return 0;
        };
        if self.several_processes {
            let next = self.numbers.len() as u32 + 1;
            let process = global.map_or(-1, process_of);
            return *self.numbers.entry((process, correlation)).or_insert(next);
        }
        // The tool's ids have 32 bits.
        correlation as u32
    }
}

/// Opens the file where it lies, or a temporary copy where it was packed.
fn open(source: &Source) -> Result<(Connection, Option<tempfile::NamedTempFile>), String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    // `immutable` keeps SQLite from looking for a journal and from locking a file that is only read.
    let connect = |path: &Path| {
        let name = path.to_str().ok_or("its path is not UTF-8")?;
        let escaped = name
            .replace('%', "%25")
            .replace('?', "%3f")
            .replace('#', "%23");
        Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)
            .map_err(|error| format!("SQLite cannot open it: {error}"))
    };
    if is_plain(source.path()) {
        return Ok((connect(source.path())?, None));
    }
    let copied = (|| {
        let mut file = tempfile::NamedTempFile::new()?;
        std::io::Write::write_all(&mut file, source.bytes())?;
        Ok::<_, std::io::Error>(file)
    })();
    let file =
        copied.map_err(|error| format!("its unpacked copy could not be written: {error}"))?;
    Ok((connect(file.path())?, Some(file)))
}

fn is_plain(path: &Path) -> bool {
    let mut head = [0; 16];
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut head))
        .is_ok_and(|()| head == MAGIC)
}

fn is_export(database: &Database) -> bool {
    database.has("StringIds")
        && database.tables().any(|(name, _)| {
            name == "META_DATA_EXPORT"
                || name.starts_with("CUPTI_ACTIVITY_KIND_")
                || name.starts_with("TARGET_INFO_")
        })
}

/// Tables with events that nothing here reads, so that no event is lost without a word.
fn note_unread_tables(database: &mut Database) {
    const READ: &[&str] = &[
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        "CUDNN_EVENTS",
        "CUBLAS_EVENTS",
        "NVTX_EVENTS",
        "OSRT_API",
        "PROFILER_OVERHEAD",
        "DIAGNOSTIC_EVENT",
    ];
    let unread: Vec<String> = database
        .tables()
        .filter(|(name, columns)| {
            let is_event = columns
                .iter()
                .any(|column| column == "start" || column == "timestamp");
            is_event && !READ.contains(name)
        })
        .map(|(name, _)| name.to_owned())
        .collect();
    for table in unread {
        let rows = database.rows(&table).unwrap_or(1);
        database.lose(Issue::info(IssueCode::NsysNotRead), &table, rows);
    }
}
