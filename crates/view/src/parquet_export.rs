//! The tables of a query as Parquet files, for DuckDB, pandas, Polars and Spark: `run=NAME/rank=N/TABLE.parquet`.
//!
//! Partitions are in Hive's layout, so a reader gets the columns `run` and `rank` from the folders. The low-level column writer
//! is used: arrow would double the build time.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use llmprof_record::run::rank_of;
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use tempfile::TempDir;

use crate::opened_run::OpenedRun;
use crate::query::tables::{QueryCell, QueryTable, TraceRows};

/// Rows of a row group: the unit that a reader skips or reads, and what the writer holds in memory.
const ROW_GROUP_ROWS: usize = 1 << 18;

/// Why tables could not be written as Parquet.
#[derive(Debug, thiserror::Error)]
pub enum ParquetExportError {
    /// An export never overwrites.
    #[error("{path} exists; remove it or choose another folder")]
    Exists { path: PathBuf },
    #[error("cannot write {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}")]
    Parquet { path: PathBuf, source: ParquetError },
}

/// A run's folder while it is written. It has its name only when [`finish`](Self::finish) was called.
pub struct ParquetFolder {
    partial: TempDir,
    target: PathBuf,
}

impl ParquetFolder {
    /// Begins `root/run=NAME`.
    pub fn create(root: &Path, run_name: &str) -> Result<Self, ParquetExportError> {
        let failed = |source| ParquetExportError::Io {
            path: root.to_owned(),
            source,
        };
        let target = root.join(format!("run={}", partition_value(run_name)));
        if target.exists() {
            return Err(ParquetExportError::Exists { path: target });
        }
        fs::create_dir_all(root).map_err(failed)?;
        let partial = tempfile::Builder::new()
            .prefix(".run.")
            .permissions(Permissions::from_mode(0o777))
            .tempdir_in(root)
            .map_err(failed)?;
        Ok(Self { partial, target })
    }

    /// Writes the tables of every trace of `run`, those of one rank into one folder.
    pub fn write_ranks(&self, run: &OpenedRun) -> Result<(), ParquetExportError> {
        let traces: Vec<(u32, TraceRows<'_>)> = (0..)
            .map_while(|number| TraceRows::for_trace(run, number))
            .map(|rows| (rank_of(rows.trace).unwrap_or(0), rows))
            .collect();
        let mut ranks: Vec<u32> = traces.iter().map(|(rank, _)| *rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        for rank in ranks {
            let folder = self.partial.path().join(format!("rank={rank}"));
            fs::create_dir(&folder).map_err(|source| ParquetExportError::Io {
                path: folder.clone(),
                source,
            })?;
            let of_rank: Vec<TraceRows<'_>> = (traces.iter())
                .filter(|(other, _)| *other == rank)
                .map(|(_, rows)| *rows)
                .collect();
            for table in QueryTable::ALL.into_iter().filter(|t| !t.is_of_run()) {
                write_table(&folder, table, &of_rank)?;
            }
        }
        Ok(())
    }

    /// Writes the tables that belong to the run as a whole: `step` and `finding`.
    pub fn write_run(&self, run: &OpenedRun) -> Result<(), ParquetExportError> {
        let first = TraceRows::for_trace(run, 0);
        for table in QueryTable::ALL.into_iter().filter(|t| t.is_of_run()) {
            write_table(self.partial.path(), table, first.as_slice())?;
        }
        Ok(())
    }

    /// Gives the folder its name, which is returned.
    pub fn finish(self) -> Result<PathBuf, ParquetExportError> {
        let Self { partial, target } = self;
        // A rename replaces an empty folder and fails on any other.
        match fs::rename(partial.path(), &target) {
            Ok(()) => {
                let _ = partial.keep();
                Ok(target)
            }
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Err(ParquetExportError::Exists { path: target })
            }
            Err(source) => Err(ParquetExportError::Io {
                path: target,
                source,
            }),
        }
    }
}

/// A value as the name of a partition: bytes that Hive's layout or a file system gives a meaning are percent-encoded, as readers expect.
fn partition_value(text: &str) -> String {
    let mut value = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            value.push(char::from(byte));
        } else {
            value.push_str(&format!("%{byte:02X}"));
        }
    }
    value
}

fn write_table(
    folder: &Path,
    table: QueryTable,
    traces: &[TraceRows<'_>],
) -> Result<(), ParquetExportError> {
    let path = folder.join(format!("{}.parquet", table.name()));
    let file = File::create_new(&path).map_err(|source| ParquetExportError::Io {
        path: path.clone(),
        source,
    })?;
    fill_file(file, table, traces).map_err(|source| ParquetExportError::Parquet { path, source })
}

fn fill_file(file: File, table: QueryTable, traces: &[TraceRows<'_>]) -> Result<(), ParquetError> {
    let mut writer = SerializedFileWriter::new(file, schema_of(table)?, writer_properties())?;
    let mut rows = (traces.iter())
        .flat_map(|trace| (0..trace.len(table)).map(move |row| (trace, row)))
        .filter(|(trace, row)| trace.is_row(table, *row));
    loop {
        let group: Vec<(&TraceRows<'_>, usize)> = rows.by_ref().take(ROW_GROUP_ROWS).collect();
        if group.is_empty() {
            break;
        }
        let mut row_group = writer.next_row_group()?;
        for column in table.columns() {
            let mut column_writer = row_group
                .next_column()?
                .ok_or_else(|| ParquetError::General(format!("no column {column}")))?;
            let cells = group
                .iter()
                .map(|(trace, row)| trace.cell(table, *row, column));
            write_column(column_writer.untyped(), cells)?;
            column_writer.close()?;
        }
        row_group.close()?;
    }
    writer.close()?;
    Ok(())
}

fn write_column<'a>(
    writer: &mut ColumnWriter<'_>,
    cells: impl Iterator<Item = QueryCell<'a>>,
) -> Result<(), ParquetError> {
    // 1 where a row has a value, 0 where it is null.
    let mut levels = Vec::new();
    match writer {
        ColumnWriter::Int64ColumnWriter(writer) => {
            let mut numbers = Vec::new();
            for cell in cells {
                levels.push(i16::from(!matches!(cell, QueryCell::Null)));
                match cell {
                    QueryCell::Null => {}
                    QueryCell::Integer(number) => numbers.push(number),
                    QueryCell::Real(number) => return Err(not_a_number(&number.to_string())),
                    QueryCell::Text(text) => return Err(not_a_number(text)),
                    QueryCell::Owned(text) => return Err(not_a_number(&text)),
                }
            }
            writer.write_batch(&numbers, Some(&levels), None)?;
        }
        ColumnWriter::DoubleColumnWriter(writer) => {
            let mut numbers = Vec::new();
            for cell in cells {
                levels.push(i16::from(!matches!(cell, QueryCell::Null)));
                match cell {
                    QueryCell::Null => {}
                    QueryCell::Real(number) => numbers.push(number),
                    QueryCell::Integer(number) => numbers.push(number as f64),
                    QueryCell::Text(text) => return Err(not_a_number(text)),
                    QueryCell::Owned(text) => return Err(not_a_number(&text)),
                }
            }
            writer.write_batch(&numbers, Some(&levels), None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let mut texts = Vec::new();
            for cell in cells {
                levels.push(i16::from(!matches!(cell, QueryCell::Null)));
                match cell {
                    QueryCell::Null => {}
                    QueryCell::Integer(number) => texts.push(ByteArray::from(&*number.to_string())),
                    QueryCell::Real(number) => texts.push(ByteArray::from(&*number.to_string())),
                    QueryCell::Text(text) => texts.push(ByteArray::from(text)),
                    QueryCell::Owned(text) => texts.push(ByteArray::from(text.into_bytes())),
                }
            }
            writer.write_batch(&texts, Some(&levels), None)?;
        }
        _ => return Err(ParquetError::General("a column of another type".to_owned())),
    }
    Ok(())
}

fn not_a_number(text: &str) -> ParquetError {
    ParquetError::General(format!("`{text}` in a column of numbers"))
}

fn writer_properties() -> WriterPropertiesPtr {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("llmprof {}", env!("CARGO_PKG_VERSION")));
    Arc::new(properties.build())
}

fn schema_of(table: QueryTable) -> Result<Arc<Type>, ParquetError> {
    let mut fields = Vec::new();
    for column in table.columns() {
        let field = if table.is_text(column) {
            Type::primitive_type_builder(column, PhysicalType::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String))
                .with_converted_type(ConvertedType::UTF8)
        } else if table.is_real(column) {
            Type::primitive_type_builder(column, PhysicalType::DOUBLE)
        } else {
            Type::primitive_type_builder(column, PhysicalType::INT64)
        };
        let field = field.with_repetition(Repetition::OPTIONAL).build()?;
        fields.push(Arc::new(field));
    }
    let schema = Type::group_type_builder(table.name()).with_fields(fields);
    Ok(Arc::new(schema.build()?))
}

#[cfg(test)]
mod tests {
    use super::partition_value;

    #[test]
    fn partition_names_hold_what_readers_decode() {
        assert_eq!(partition_value("llama-8b_v1.2"), "llama-8b_v1.2");
        assert_eq!(partition_value("a=b/c d%"), "a%3Db%2Fc%20d%25");
        assert_eq!(partition_value("ü"), "%C3%BC");
    }
}
