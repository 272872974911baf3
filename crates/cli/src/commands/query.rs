//! `query`: SQL over a run.

use std::sync::Arc;

use llmprof_report::Table;
use llmprof_view::query::{QueryAnswer, QueryLimits, QueryTable, query as ask};
use serde_json::{Map, Value};

use crate::{
    args_view::{QueryArgs, QueryFormat},
    failure::Failure,
    output::Output,
    progress::with_spinner,
    viewing,
};

pub(crate) fn query(args: &QueryArgs, output: &mut Output) -> Result<(), Failure> {
    let answer = match &args.sql {
        None => tables(),
        Some(sql) => {
            let run = Arc::new(with_spinner("reading", || viewing::open(&args.run))?);
            let limits = QueryLimits {
                time: args.timeout,
                rows: args.limit,
            };
            ask(&run, sql, limits).map_err(|error| {
                Failure::new(error.to_string())
                    .hint("`llmprof query RUN` lists the tables and their columns".to_owned())
            })?
        }
    };
    match args.format {
        QueryFormat::Table => print_table(&answer, output)?,
        QueryFormat::Csv => output.text(&csv_text(&answer))?,
        QueryFormat::Json => output.json(&objects(&answer))?,
    }
    if answer.is_cut {
        Failure::new(format!("there are more rows than {}", args.limit))
            .hint("--limit N prints more".to_owned())
            .warn();
    }
    Ok(())
}

fn tables() -> QueryAnswer {
    let row = |table: &QueryTable| {
        vec![
            Value::from(table.name()),
            Value::from(table.columns().join(", ")),
        ]
    };
    QueryAnswer {
        columns: vec!["table".to_owned(), "columns".to_owned()],
        rows: QueryTable::ALL.iter().map(row).collect(),
        is_cut: false,
    }
}

fn cell_text(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn print_table(answer: &QueryAnswer, output: &mut Output) -> Result<(), Failure> {
    let heads: Vec<&str> = answer.columns.iter().map(String::as_str).collect();
    let words: Vec<&str> = (heads.iter().enumerate())
        .filter(|(column, _)| answer.rows.iter().any(|row| row[*column].is_string()))
        .map(|(_, head)| *head)
        .collect();
    let mut table = Table::new(&heads, 0).with_words(&words);
    for row in &answer.rows {
        table.row(row.iter().map(cell_text));
    }
    output.table(&table)
}

fn csv_text(answer: &QueryAnswer) -> String {
    let rows = answer.rows.iter();
    let rows = rows.map(|row| row.iter().map(cell_text).collect());
    let lines: Vec<Vec<String>> = std::iter::once(answer.columns.clone())
        .chain(rows)
        .collect();
    llmprof_report::csv_lines(&lines)
}

fn objects(answer: &QueryAnswer) -> Vec<Map<String, Value>> {
    let object = |row: &Vec<Value>| {
        let columns = answer.columns.iter().cloned();
        columns.zip(row.iter().cloned()).collect()
    };
    answer.rows.iter().map(object).collect()
}
