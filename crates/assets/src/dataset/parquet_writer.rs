//! Samples as a Parquet table: `id`, and `text`, `image` or `tokens`.

use std::{fs::File, io, sync::Arc};

use parquet::{
    basic::{Compression, ZstdLevel},
    data_type::{ByteArray, ByteArrayType, Int32Type},
    errors::ParquetError,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::{parser::parse_message_type, types::TypePtr},
};

use super::sample_row::{SampleRow, SampleValue};

/// Rows held in memory before they are written.
const ROW_GROUP_ROWS: usize = 1_000;
const TOKENS: &str = "tokens";

pub(super) struct ParquetWriter {
    file: Option<File>,
    table: Option<SerializedFileWriter<File>>,
    column: Option<&'static str>,
    ids: Vec<ByteArray>,
    values: Vec<SampleValue>,
}

impl ParquetWriter {
    pub(super) fn new(file: File) -> Self {
        Self {
            file: Some(file),
            table: None,
            column: None,
            ids: Vec::new(),
            values: Vec::new(),
        }
    }

    pub(super) fn write_row(&mut self, row: SampleRow) -> io::Result<()> {
        self.column = Some(row.value.key());
        self.ids.push(ByteArray::from(row.id.into_bytes()));
        self.values.push(row.value);
        if self.ids.len() == ROW_GROUP_ROWS {
            self.write_group()?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.write_group()?;
        if let Some(table) = self.table {
            table.close()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let Some(column) = self.column.filter(|_| !self.ids.is_empty()) else {
            return Ok(());
        };
        if let Some(file) = self.file.take() {
            self.table = Some(SerializedFileWriter::new(
                file,
                schema_with(column)?,
                Arc::new(properties()),
            )?);
        }
        let Some(table) = &mut self.table else {
            return Ok(());
        };
        let mut group = table.next_row_group()?;
        let absent = || ParquetError::General(format!("no column {column}"));
        let mut ids = group.next_column()?.ok_or_else(absent)?;
        ids.typed::<ByteArrayType>()
            .write_batch(&self.ids, None, None)?;
        ids.close()?;
        let mut values = group.next_column()?.ok_or_else(absent)?;
        let (mut texts, mut tokens, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        for value in &self.values {
            match value {
                SampleValue::Text(text) | SampleValue::Image(text) => {
                    texts.push(ByteArray::from(text.as_str()));
                }
                SampleValue::Tokens(ids) => {
                    let ids = ids.iter().map(|id| *id as i32);
                    // 0 begins a row.
                    repetitions.extend(ids.clone().enumerate().map(|(at, _)| i16::from(at > 0)));
                    tokens.extend(ids);
                }
            }
        }
        if column == TOKENS {
            let defined = vec![1; tokens.len()];
            values
                .typed::<Int32Type>()
                .write_batch(&tokens, Some(&defined), Some(&repetitions))?;
        } else {
            values
                .typed::<ByteArrayType>()
                .write_batch(&texts, None, None)?;
        }
        values.close()?;
        group.close()?;
        self.ids.clear();
        self.values.clear();
        Ok(())
    }
}

fn schema_with(column: &str) -> Result<TypePtr, ParquetError> {
    let value = if column == TOKENS {
        // The unsigned ids have the bits of an i32.
        "required group tokens (LIST) { repeated group list { required int32 element (INTEGER(32,false)); } }".to_owned()
    } else {
        format!("required binary {column} (UTF8);")
    };
    let schema = format!("message samples {{ required binary id (UTF8); {value} }}");
    Ok(Arc::new(parse_message_type(&schema)?))
}

fn properties() -> WriterProperties {
    let compression = Compression::ZSTD(ZstdLevel::default());
    WriterProperties::builder()
        .set_compression(compression)
        .build()
}
