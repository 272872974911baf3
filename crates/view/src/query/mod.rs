//! SQL over a run, read-only and within limits.

mod answer;
mod module;
pub(crate) mod tables;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error};
use serde_json::{Value, json};

pub use self::answer::QueryAnswer;
pub use self::tables::QueryTable;
use crate::opened_run::OpenedRun;

/// Virtual machine steps between two looks at the clock.
const STEPS_BETWEEN_CHECKS: i32 = 10_000;
/// Memory that SQLite may take for sorting and grouping, in the whole process.
const HEAP_BYTES_MAX: i64 = 1 << 30;
const SQL_BYTES_MAX: i32 = 64 * 1024;
const CELL_BYTES_MAX: i32 = 16 << 20;

/// What a query may take.
#[derive(Clone, Copy, Debug)]
pub struct QueryLimits {
    pub time: Duration,
    pub rows: usize,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            rows: 10_000,
        }
    }
}

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The SQL is wrong, or asks for what is not allowed.
    #[error("{0}")]
    Sql(String),
    #[error("the query took longer than {} s", .0.as_secs_f64())]
    Time(Duration),
    #[error("the run has no timeline")]
    NoTimeline,
    #[error("only SELECT is allowed: {0}")]
    NotAllowed(String),
}

/// Answers one SELECT over the tables of [`QueryTable`].
pub fn query(
    run: &Arc<OpenedRun>,
    sql: &str,
    limits: QueryLimits,
) -> Result<QueryAnswer, QueryError> {
    if run.timeline.traces.is_empty() {
        return Err(QueryError::NoTimeline);
    }
    let began = Instant::now();
    let failed = |error: Error| explain(&error, limits, began);
    let mut connection = Connection::open_in_memory().map_err(failed)?;
    module::register(&connection, run).map_err(failed)?;
    connection
        .execute_batch(&format!(
            "PRAGMA temp_store = MEMORY; PRAGMA hard_heap_limit = {HEAP_BYTES_MAX}; PRAGMA trusted_schema = OFF;"
        ))
        .map_err(failed)?;
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX),
        (Limit::SQLITE_LIMIT_LENGTH, CELL_BYTES_MAX),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
    ] {
        connection.set_limit(limit, value).map_err(failed)?;
    }
    connection.authorizer(Some(authorize)).map_err(failed)?;
    let deadline = began + limits.time;
    connection
        .progress_handler(
            STEPS_BETWEEN_CHECKS,
            Some(move || Instant::now() > deadline),
        )
        .map_err(failed)?;
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let columns: Vec<String> = statement.column_names().map(ToOwned::to_owned).collect();
    let mut rows = Vec::new();
    let mut answer = statement.query([]).map_err(failed)?;
    while let Some(row) = answer.next().map_err(failed)? {
        if rows.len() == limits.rows {
            return Ok(QueryAnswer {
                columns,
                rows,
                is_cut: true,
            });
        }
        let cells = (0..columns.len())
            .map(|column| row.get_ref(column).map(cell_json))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        rows.push(cells);
    }
    Ok(QueryAnswer {
        columns,
        rows,
        is_cut: false,
    })
}

fn cell_json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => json!(value),
        ValueRef::Real(value) => json!(value),
        ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => json!(format!("{} bytes", bytes.len())),
    }
}

/// Reading, functions without side effects, and recursion. No PRAGMA, ATTACH, extension, or change of anything.
fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => {
            Authorization::Allow
        }
        AuthAction::Function { function_name }
            if !function_name.eq_ignore_ascii_case("load_extension") =>
        {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

fn explain(error: &Error, limits: QueryLimits, began: Instant) -> QueryError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) if began.elapsed() >= limits.time => {
            QueryError::Time(limits.time)
        }
        Some(rusqlite::ErrorCode::AuthorizationForStatementDenied) => {
            QueryError::NotAllowed(error.to_string())
        }
        _ => QueryError::Sql(error.to_string()),
    }
}
