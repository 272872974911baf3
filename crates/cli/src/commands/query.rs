//! `query`: SQL over a run.

use std::{path::Path, sync::Arc};

use llmprof_config::near_names::nearest_name;
use llmprof_view::query::{QueryAnswer, QueryLimits, QueryTable, query as ask};

use crate::{
    args_view::{QueryArgs, QueryFormat},
    failure::Failure,
    output::Output,
    profiles::files::missing_run,
    progress::with_spinner,
    viewing,
};

pub(crate) fn query(args: &QueryArgs, output: &mut Output) -> Result<(), Failure> {
    // The newest run is asked where the only word is a statement.
    let (given, sql) = match (&args.run, &args.sql) {
        (Some(word), None) if is_statement(word) => {
            (None, Some(word.to_string_lossy().into_owned()))
        }
        (given, sql) => (given.as_deref(), sql.clone()),
    };
    let run = viewing::given_or_newest(given)?;
    let answer = match &sql {
        None if !run.exists() => return Err(missing_run(&run)),
        None => QueryAnswer::of_tables(),
        Some(sql) => {
            let run = Arc::new(with_spinner("reading", || viewing::open(&run))?);
            let limits = QueryLimits {
                time: args.timeout,
                rows: args.limit,
            };
            ask(&run, sql, limits).map_err(|error| {
                let error = error.to_string();
                let hint = hint_for(&error);
                Failure::new(error).hint(hint)
            })?
        }
    };
    let format = if args.json {
        QueryFormat::Json
    } else {
        args.format
    };
    match format {
        // Lists of columns are longer than the cells of a table.
        QueryFormat::Table if sql.is_none() => {
            for table in QueryTable::ALL {
                output.prose(&format!("{}: {}", table.name(), table.columns().join(", ")))?;
            }
        }
        QueryFormat::Table => output.table(&answer.table())?,
        QueryFormat::Csv => output.text(&answer.csv())?,
        QueryFormat::Json => output.json(&answer.objects())?,
    }
    if answer.is_cut {
        Failure::new(format!("there are more rows than {}", args.limit))
            .hint("--limit N prints more".to_owned())
            .warn();
    }
    Ok(())
}

/// Whether a word is SQL, not a run: `select 1`.
fn is_statement(word: &Path) -> bool {
    let text = word.to_string_lossy().to_ascii_lowercase();
    let mut words = text.split_whitespace();
    matches!(words.next(), Some("select" | "with")) && words.next().is_some() && !word.exists()
}

/// What would fix a statement: the table that may be meant, or the list of tables.
fn hint_for(error: &str) -> String {
    let tables = "`llmprof query RUN` lists the tables and their columns";
    let wanted = error.strip_prefix("no such table: ");
    let wanted = wanted.and_then(|rest| rest.split_whitespace().next());
    let near = wanted.and_then(|name| {
        let names = QueryTable::ALL.iter().map(|table| table.name());
        nearest_name(name, names)
    });
    match near {
        Some(near) => format!("did you mean `{near}`? {tables}"),
        None => tables.to_owned(),
    }
}
