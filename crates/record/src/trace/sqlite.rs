//! Export to SQLite.
//!
//! One table per table of the trace, with the same columns; `docs/trace-format.md` lists them. Names are numbers into
//! `strings`, and for each event table a view (`kernels_view`, …) has the texts in their place. `memory` is a table of queries,
//! which has other columns; the events of the trace are `memory_events` here.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use thiserror::Error;

use super::column::ColumnBytes;
use super::{
    Collecting, CopyKind, CpuState, HostKind, HostWait, Inputs, InputsId, MemoryEvents, MemoryKind,
    MemoryPlace, RangeKind, Strings, SyncKind, Threads, Trace,
};

/// Why a trace could not be written as SQLite.
#[derive(Debug, Error)]
pub enum SqliteExportError {
    /// A file is in the way: an export never overwrites.
    #[error("{path} exists; remove it or choose another name")]
    Exists { path: PathBuf },
    #[error("cannot write {path}: {source}")]
    Sqlite {
        path: PathBuf,
        source: rusqlite::Error,
    },
    /// The file system said no.
    #[error("cannot write {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

impl SqliteExportError {
    pub fn is_full_disk(&self) -> bool {
        match self {
            Self::Exists { .. } => false,
            Self::Sqlite { source, .. } => {
                source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
            }
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
        }
    }
}

impl Trace {
    /// Writes the trace and what `add_tables` adds to a new SQLite file at `path`. The file appears there whole or not at all.
    pub fn write_sqlite(
        &self,
        path: &Path,
        add_tables: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), SqliteExportError> {
        if path.exists() {
            return Err(SqliteExportError::Exists {
                path: path.to_owned(),
            });
        }
        let io = |source| SqliteExportError::Io {
            path: path.to_owned(),
            source,
        };
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let partial = tempfile::Builder::new()
            .prefix(".trace.sqlite.")
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(folder.unwrap_or(Path::new(".")))
            .map_err(io)?;
        Connection::open(partial.path())
            .and_then(|connection| self.fill(connection, add_tables))
            .map_err(|source| SqliteExportError::Sqlite {
                path: path.to_owned(),
                source,
            })?;
        match partial.persist_noclobber(path) {
            Ok(_) => Ok(()),
            Err(error) => Err(io(error.error)),
        }
    }

    fn fill(
        &self,
        mut connection: Connection,
        add_tables: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        // The file is new and nobody else's until it is renamed: a journal would protect nothing.
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        let transaction = connection.transaction()?;
        transaction.execute_batch(
            "CREATE TABLE strings (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
             CREATE TABLE inputs (id INTEGER NOT NULL, argument INTEGER NOT NULL, dtype TEXT NOT NULL,
                                  value TEXT NOT NULL, tensor INTEGER, dims TEXT, strides TEXT);
             CREATE INDEX inputs_id ON inputs (id);
             CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT NOT NULL);
             CREATE TABLE devices (id INTEGER NOT NULL, properties TEXT NOT NULL);
             CREATE TABLE issues (severity TEXT NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL, count INTEGER NOT NULL);",
        )?;
        {
            let mut insert = transaction.prepare("INSERT INTO strings VALUES (?, ?)")?;
            for (id, text) in self.strings.iter().enumerate() {
                insert.execute((id as i64, text))?;
            }
            let mut insert = transaction.prepare("INSERT INTO metadata VALUES (?, ?)")?;
            for (key, value) in &self.metadata {
                insert.execute((key, value))?;
            }
            if let Some(origin) = self.clock_origin_ns {
                insert.execute(("clock_origin_ns", origin.0.to_string()))?;
            }
            insert.execute(("events_read", self.events_read.to_string()))?;
            let mut insert = transaction.prepare("INSERT INTO devices VALUES (?, ?)")?;
            for device in &self.devices {
                let properties = serde_json::to_string(device).unwrap_or_default();
                insert.execute((device.id, properties))?;
            }
            let mut insert = transaction.prepare("INSERT INTO issues VALUES (?, ?, ?, ?)")?;
            for issue in &self.issues {
                insert.execute((
                    issue.severity.to_string(),
                    issue.code.as_str(),
                    issue.message_or_values(),
                    issue.count as i64,
                ))?;
            }
            self.fill_inputs(&transaction)?;
        }
        for (table, columns) in self.tables() {
            match table {
                Strings::NAME | Inputs::NAME => {}
                MemoryEvents::NAME => fill_table(&transaction, "memory_events", &columns)?,
                table => fill_table(&transaction, table, &columns)?,
            }
        }
        add_tables(&transaction)?;
        transaction.commit()
    }

    fn fill_inputs(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut insert = connection.prepare("INSERT INTO inputs VALUES (?, ?, ?, ?, ?, ?, ?)")?;
        let list = |numbers: &[i64]| serde_json::to_string(numbers).unwrap_or_default();
        for id in 0..self.inputs.len() as u32 {
            for (index, argument) in self.inputs.arguments(InputsId(id)).enumerate() {
                let (dtype, value) = (self.text(argument.dtype()), self.text(argument.value()));
                let tensors = argument.tensors();
                if tensors.len() == 0 {
                    insert.execute((
                        id,
                        index as i64,
                        dtype,
                        value,
                        None::<i64>,
                        None::<String>,
                        None::<String>,
                    ))?;
                }
                for (place, tensor) in tensors.enumerate() {
                    let (dims, strides) = (list(tensor.dims), list(tensor.strides));
                    insert.execute((
                        id,
                        index as i64,
                        dtype,
                        value,
                        place as i64,
                        dims,
                        strides,
                    ))?;
                }
            }
        }
        Ok(())
    }
}

fn fill_table(
    connection: &Connection,
    table: &str,
    columns: &[ColumnBytes<'_>],
) -> rusqlite::Result<()> {
    let mut names = Vec::new();
    let mut shown = Vec::new();
    let mut joins = String::new();
    for column in columns {
        let name = column.name;
        match column.element {
            "[u32;3]" => {
                for axis in ["x", "y", "z"] {
                    names.push(format!("{name}_{axis} INTEGER"));
                    shown.push(format!("t.{name}_{axis}"));
                }
            }
            "string:u32" => {
                names.push(format!("{name} INTEGER"));
                shown.push(format!("s_{name}.text AS {name}"));
                joins.push_str(&format!(" JOIN strings s_{name} ON s_{name}.id = t.{name}"));
            }
            "f32" => {
                names.push(format!("{name} REAL"));
                shown.push(format!("t.{name}"));
            }
            element if element.ends_with(":u8") => {
                names.push(format!("{name} TEXT"));
                shown.push(format!("t.{name}"));
            }
            _ => {
                names.push(format!("{name} INTEGER"));
                shown.push(format!("t.{name}"));
            }
        }
    }
    let (list, view) = (names.join(", "), shown.join(", "));
    connection.execute_batch(&format!(
        "CREATE TABLE {table} (id INTEGER PRIMARY KEY, {list});
         CREATE VIEW {table}_view AS SELECT t.id, {view} FROM {table} t{joins};"
    ))?;
    let places = vec!["?"; names.len() + 1].join(", ");
    let mut insert = connection.prepare(&format!("INSERT INTO {table} VALUES ({places})"))?;
    let rows = columns
        .first()
        .map_or(0, |column| column.bytes.len() / value_width(column.element));
    let mut values = Vec::with_capacity(names.len() + 1);
    for row in 0..rows {
        values.clear();
        values.push(Value::Integer(row as i64));
        for column in columns {
            push_values(column, row, &mut values);
        }
        insert.execute(params_from_iter(values.iter()))?;
    }
    // Where an event began is what most questions are about; threads have no start.
    if table != Threads::NAME {
        let time = columns.first().map_or("start", |column| column.name);
        connection.execute_batch(&format!("CREATE INDEX {table}_{time} ON {table} ({time});"))?;
    }
    Ok(())
}

fn value_width(element: &str) -> usize {
    match element.rsplit(':').next() {
        Some("u8") => 1,
        Some("u32" | "f32") => 4,
        Some("[u32;3]") => 12,
        _ => 8,
    }
}

fn push_values(column: &ColumnBytes<'_>, row: usize, values: &mut Vec<Value>) {
    let width = value_width(column.element);
    let bytes = &column.bytes[row * width..(row + 1) * width];
    let long = || i64::from_le_bytes(bytes.try_into().expect("a column of 8-byte values"));
    let short =
        |part: &[u8]| u32::from_le_bytes(part.try_into().expect("a column of 4-byte values"));
    match column.element {
        "[u32;3]" => values.extend(
            bytes
                .chunks_exact(4)
                .map(|part| Value::Integer(i64::from(short(part)))),
        ),
        "f32" => {
            let value = f32::from_bits(short(bytes));
            values.push(if value.is_nan() {
                Value::Null
            } else {
                Value::Real(f64::from(value))
            });
        }
        // SQLite has no unsigned integers; ids and addresses stay below 2^63, and beyond would show as negative.
        "i64" | "u64" => values.push(Value::Integer(long())),
        element if element.ends_with(":u8") => {
            values.push(Value::Text(code_name(element, bytes[0]).to_owned()));
        }
        _ => values.push(Value::Integer(i64::from(short(bytes)))),
    }
}

fn code_name(element: &str, code: u8) -> &'static str {
    match element {
        "HostKind:u8" => HostKind(code).name(),
        "CopyKind:u8" => CopyKind(code).name(),
        "MemoryKind:u8" => MemoryKind(code).name(),
        "RangeKind:u8" => RangeKind(code).name(),
        "MemoryPlace:u8" => MemoryPlace(code).name(),
        "SyncKind:u8" => SyncKind(code).name(),
        "CpuState:u8" => CpuState(code).name(),
        "HostWait:u8" => HostWait(code).name(),
        "Collecting:u8" => Collecting(code).name(),
        _ => "unknown",
    }
}
