//! Tables of a run as virtual tables of SQLite, which reads the columns where they are.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::sync::Arc;

use rusqlite::vtab::{
    Context, Filters, IndexInfo, Module, VTab, VTabConfig, VTabConnection, VTabCursor,
    sqlite3_vtab, sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Error, Result};

use super::tables::{QueryCell, QueryTable, TraceRows};
use crate::opened_run::OpenedRun;

pub(super) fn register(connection: &Connection, run: &Arc<OpenedRun>) -> Result<()> {
    const MODULE: Module<'_, RunTable> = Module::eponymous_only_module();
    for table in QueryTable::ALL {
        connection.create_module(table.name(), &MODULE, Some((Arc::clone(run), table)))?;
    }
    Ok(())
}

#[repr(C)]
struct RunTable {
    /// SQLite's part comes first.
    base: sqlite3_vtab,
    run: Arc<OpenedRun>,
    table: QueryTable,
}

#[expect(
    unsafe_code,
    reason = "virtual tables of SQLite begin with a struct of C"
)]
// SAFETY: the struct is `repr(C)` and begins with SQLite's own, as the trait demands.
unsafe impl<'vtab> VTab<'vtab> for RunTable {
    type Aux = (Arc<OpenedRun>, QueryTable);
    type Cursor = RunCursor<'vtab>;

    fn connect(
        db: &mut VTabConnection,
        aux: Option<&Self::Aux>,
        _module_name: &[u8],
        _database_name: &[u8],
        _table_name: &[u8],
        _args: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let (run, table) = aux.ok_or_else(|| Error::ModuleError("no run".to_owned()))?;
        db.config(VTabConfig::DirectOnly)?;
        let sql = format!("CREATE TABLE x({})", table.columns().join(", "));
        let sql = CString::new(sql).map_err(|error| Error::ModuleError(error.to_string()))?;
        let table = Self {
            base: sqlite3_vtab::default(),
            run: Arc::clone(run),
            table: *table,
        };
        Ok((Cow::Owned(sql), table))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let rows = TraceRows::for_trace(&self.run, 0).map_or(0, |rows| rows.len(self.table));
        info.set_estimated_cost(rows as f64);
        info.set_estimated_rows(rows as i64);
        Ok(true)
    }

    fn open(&mut self) -> Result<RunCursor<'_>> {
        Ok(RunCursor {
            base: sqlite3_vtab_cursor::default(),
            run: Arc::clone(&self.run),
            table: self.table,
            trace: 0,
            row: 0,
            passed: 0,
            of_table: PhantomData,
        })
    }
}

#[repr(C)]
struct RunCursor<'vtab> {
    /// SQLite's part comes first.
    base: sqlite3_vtab_cursor,
    run: Arc<OpenedRun>,
    table: QueryTable,
    trace: usize,
    row: usize,
    /// Rows of the traces before.
    passed: usize,
    of_table: PhantomData<&'vtab RunTable>,
}

impl RunCursor<'_> {
    /// Moves on to a row of the table, if this is none.
    fn settle(&mut self) {
        while let Some(rows) = TraceRows::for_trace(&self.run, self.trace) {
            let length = rows.len(self.table);
            while self.row < length && !rows.is_row(self.table, self.row) {
                self.row += 1;
            }
            if self.row < length {
                return;
            }
            self.passed += length;
            self.row = 0;
            self.trace = if self.table.is_of_run() {
                usize::MAX
            } else {
                self.trace + 1
            };
        }
    }
}

#[expect(
    unsafe_code,
    reason = "virtual tables of SQLite begin with a struct of C"
)]
// SAFETY: as above.
unsafe impl VTabCursor for RunCursor<'_> {
    fn filter(&mut self, _number: c_int, _text: Option<&str>, _args: &Filters<'_>) -> Result<()> {
        (self.trace, self.row, self.passed) = (0, 0, 0);
        self.settle();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.row += 1;
        self.settle();
        Ok(())
    }

    fn eof(&self) -> bool {
        TraceRows::for_trace(&self.run, self.trace).is_none()
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let column = self.table.columns().get(column as usize);
        let rows = TraceRows::for_trace(&self.run, self.trace);
        let (Some(rows), Some(column)) = (rows, column) else {
            return context.set_result(rusqlite::types::Null);
        };
        match rows.cell(self.table, self.row, column) {
            QueryCell::Null => context.set_result(rusqlite::types::Null),
            QueryCell::Integer(value) => context.set_result(value),
            QueryCell::Real(value) => context.set_result(value),
            QueryCell::Text(text) => context.set_result(text),
            QueryCell::Owned(text) => context.set_result(text),
        }
    }

    fn rowid(&self) -> Result<i64> {
        Ok((self.passed + self.row) as i64)
    }
}
