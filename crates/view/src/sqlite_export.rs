//! The tables of a query in a SQLite file, beside those of the trace: a statement has the same answer in both.
//!
//! A table is a view over rows whose texts are numbers into `strings`: names repeat in millions of rows.

use std::path::Path;

use llmprof_record::run::rank_of;
use llmprof_record::trace::SqliteExportError;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use rustc_hash::FxHashMap;

use crate::opened_run::OpenedRun;
use crate::query::tables::{QueryCell, QueryTable, TraceRows};

impl OpenedRun {
    /// Writes the traces of a rank (of all, without one) to a new SQLite file; phases and findings are those of `run`.
    pub fn write_sqlite(
        &self,
        run: &Self,
        rank: Option<u32>,
        path: &Path,
    ) -> Result<(), SqliteExportError> {
        let traces = (0..).map_while(|number| TraceRows::for_trace(self, number));
        let traces: Vec<TraceRows<'_>> = traces
            .filter(|rows| rank.is_none() || rank_of(rows.trace) == rank)
            .collect();
        let Some(first) = traces.first() else {
            return Ok(());
        };
        first.trace.write_sqlite(path, |connection| {
            let strings = first.trace.strings.iter().enumerate();
            let mut texts = Texts {
                ids: strings.map(|(id, text)| (text.into(), id as i64)).collect(),
                known: first.trace.strings.len(),
            };
            for table in QueryTable::ALL {
                if table.is_of_run() {
                    fill_table(
                        connection,
                        table,
                        TraceRows::for_trace(run, 0).as_slice(),
                        &mut texts,
                    )?;
                } else {
                    fill_table(connection, table, &traces, &mut texts)?;
                }
            }
            texts.insert_new(connection)
        })
    }
}

/// Numbers of texts in `strings`, which has the first `known` already.
struct Texts {
    ids: FxHashMap<Box<str>, i64>,
    known: usize,
}

impl Texts {
    fn id_of(&mut self, text: &str) -> i64 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.ids.len() as i64;
        self.ids.insert(text.into(), id);
        id
    }

    fn insert_new(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut insert = connection.prepare("INSERT INTO strings VALUES (?, ?)")?;
        for (text, id) in &self.ids {
            if *id >= self.known as i64 {
                insert.execute((id, &**text))?;
            }
        }
        Ok(())
    }
}

/// Processes and threads are numbers or texts, so they are kept as they are.
fn is_interned(table: QueryTable, column: &str) -> bool {
    table.is_text(column) && !matches!(column, "process" | "thread")
}

fn fill_table(
    connection: &Connection,
    table: QueryTable,
    traces: &[TraceRows<'_>],
    texts: &mut Texts,
) -> rusqlite::Result<()> {
    let (name, columns) = (table.name(), table.columns());
    let shown: Vec<String> = (columns.iter())
        .map(|column| {
            if is_interned(table, column) {
                format!("(SELECT text FROM strings WHERE strings.id = t.{column}) AS {column}")
            } else {
                format!("t.{column}")
            }
        })
        .collect();
    connection.execute_batch(&format!(
        "CREATE TABLE {name}_rows ({});
         CREATE VIEW {name} AS SELECT {} FROM {name}_rows t;",
        columns.join(", "),
        shown.join(", ")
    ))?;
    let places = vec!["?"; columns.len()].join(", ");
    let mut insert = connection.prepare(&format!("INSERT INTO {name}_rows VALUES ({places})"))?;
    for rows in traces {
        for row in (0..rows.len(table)).filter(|row| rows.is_row(table, *row)) {
            let values = columns.iter().map(|column| {
                let mut text_value = |text: &str| {
                    if is_interned(table, column) {
                        Value::Integer(texts.id_of(text))
                    } else {
                        Value::Text(text.to_owned())
                    }
                };
                match rows.cell(table, row, column) {
                    QueryCell::Null => Value::Null,
                    QueryCell::Integer(value) => Value::Integer(value),
                    QueryCell::Real(value) => Value::Real(value),
                    QueryCell::Text(text) => text_value(text),
                    QueryCell::Owned(text) => text_value(&text),
                }
            });
            insert.execute(params_from_iter(values))?;
        }
    }
    Ok(())
}
