//! Takes out of an export what says who ran what where: command lines, environment, other processes, hosts, users, paths,
//! and what the program printed. Timelines need none of it.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::process_of;
use crate::secrets::redact;

/// Names in the tables of metadata whose values go: arguments, variables, users, hosts, directories.
const PRIVATE: [&str; 11] = [
    "COMMAND",
    "ARGUMENT",
    "ENV",
    "USER",
    "HOST",
    "PATH",
    "FILE",
    "DIR",
    "DISPLAY_NAME",
    "SESSION",
    "UUID",
];

/// Tables of names and values.
const METADATA: [&str; 3] = [
    "META_DATA_CAPTURE",
    "META_DATA_EXPORT",
    "TARGET_INFO_SYSTEM_ENV",
];

/// Tables whose events say which processes were profiled.
const EVENTS: [(&str, &str); 4] = [
    ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"),
    ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"),
    ("NVTX_EVENTS", "globalTid"),
    ("OSRT_API", "globalTid"),
];

/// Rewrites an export of ours in place, pages of deleted text included.
pub fn scrub(path: &Path) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "secure_delete", true)?;
    let change = connection.transaction()?;
    for table in METADATA {
        private_values(&change, table)?;
    }
    clear_printed(&change)?;
    clear_environments(&change)?;
    other_processes(&change)?;
    change.commit()?;
    connection.execute_batch("VACUUM")
}

fn has_columns(connection: &Connection, table: &str, columns: &[&str]) -> rusqlite::Result<bool> {
    for column in columns {
        let row = connection
            .query_row(
                "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2",
                params![table, column],
                |_| Ok(()),
            )
            .optional()?;
        if row.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn private_values(connection: &Connection, table: &str) -> rusqlite::Result<()> {
    if !has_columns(connection, table, &["name", "value"])? {
        return Ok(());
    }
    let is_private = PRIVATE.map(|part| format!("upper(name) LIKE '%{part}%'"));
    let sql = format!(
        "UPDATE {table} SET value = '' WHERE {}",
        is_private.join(" OR ")
    );
    connection.execute(&sql, [])?;
    Ok(())
}

/// What the program wrote to its standard streams, and other files that the tool took along.
fn clear_printed(connection: &Connection) -> rusqlite::Result<()> {
    for table in ["ProcessStreams", "ANALYSIS_FILE"] {
        for column in ["contentId", "filenameId"] {
            if has_columns(connection, table, &[column])?
                && has_columns(connection, "StringIds", &["id"])?
            {
                let sql = format!(
                    "UPDATE StringIds SET value = '' WHERE id IN (SELECT {column} FROM {table})"
                );
                connection.execute(&sql, [])?;
            }
        }
    }
    if has_columns(connection, "ANALYSIS_FILE", &["filename"])? {
        connection.execute("UPDATE ANALYSIS_FILE SET filename = ''", [])?;
    }
    Ok(())
}

/// Strings that are an environment, and credentials in any string.
fn clear_environments(connection: &Connection) -> rusqlite::Result<()> {
    if !has_columns(connection, "StringIds", &["id", "value"])? {
        return Ok(());
    }
    let mut changed = Vec::new();
    let mut all = connection.prepare("SELECT id, value FROM StringIds")?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let Ok(text) = row.get::<_, String>(1) else {
            continue;
        };
        let clean = if is_environment(&text) {
            String::new()
        } else {
            redact(&text).into_owned()
        };
        if clean != text {
            changed.push((row.get::<_, i64>(0)?, clean));
        }
    }
    for (id, clean) in changed {
        connection.execute(
            "UPDATE StringIds SET value = ?2 WHERE id = ?1",
            params![id, clean],
        )?;
    }
    Ok(())
}

/// `PATH=…`, alone or among others.
fn is_environment(text: &str) -> bool {
    let mut lines = text.split(['\n', '\0', ';']);
    lines.any(|line| {
        let mut known = ["PATH=", "HOME=", "LD_LIBRARY_PATH=", "USER=", "PWD="].iter();
        known.any(|name| line.trim_start().starts_with(name))
    })
}

/// Names of processes and threads other than the profiled ones; of those, the directories of the program.
fn other_processes(connection: &Connection) -> rusqlite::Result<()> {
    let mut profiled = BTreeSet::new();
    for (table, column) in EVENTS {
        if has_columns(connection, table, &[column])? {
            let mut all = connection.prepare(&format!("SELECT DISTINCT {column} FROM {table}"))?;
            let ids = all.query_map([], |row| row.get::<_, Option<i64>>(0))?;
            for global in ids {
                profiled.extend(global?.map(process_of));
            }
        }
    }
    let mut names = BTreeSet::new();
    for (table, column, name) in [
        ("PROCESSES", "globalPid", "name"),
        ("ThreadNames", "globalTid", "nameId"),
    ] {
        if !has_columns(connection, table, &[column, name])? {
            continue;
        }
        let sql = format!("SELECT rowid, {column}, {name} FROM {table}");
        let mut all = connection.prepare(&sql)?;
        let mut rows = all.query([])?;
        let mut others = Vec::new();
        while let Some(row) = rows.next()? {
            let global: Option<i64> = row.get(1)?;
            if global.is_none_or(|global| !profiled.contains(&process_of(global))) {
                others.push(row.get::<_, i64>(0)?);
                names.extend(row.get::<_, i64>(2).ok());
            }
        }
        for row in others {
            connection.execute(&format!("DELETE FROM {table} WHERE rowid = ?1"), [row])?;
        }
    }
    if has_columns(connection, "PROCESSES", &["name"])? {
        // `/home/user/env/bin/python3` is `python3`.
        connection.execute(
            "UPDATE PROCESSES SET name = replace(name, rtrim(name, replace(name, '/', '')), '')",
            [],
        )?;
    }
    clear_unused_strings(connection, names)
}

/// Names of threads that are gone, where nothing else has them.
fn clear_unused_strings(connection: &Connection, mut names: BTreeSet<i64>) -> rusqlite::Result<()> {
    if names.is_empty() || !has_columns(connection, "StringIds", &["id", "value"])? {
        return Ok(());
    }
    let mut columns = connection.prepare(
        "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c \
         WHERE m.type = 'table' AND m.name <> 'StringIds' AND m.rootpage > 0 AND \
         (c.name LIKE '%nameId' OR c.name LIKE '%textId' OR c.name LIKE '%Name' OR \
         c.name IN ('contentId', 'symbol', 'module', 'text', 'typeId'))",
    )?;
    let columns: Vec<(String, String)> = columns
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (table, column) in columns {
        let sql = format!(
            "SELECT DISTINCT \"{column}\" FROM \"{table}\" WHERE typeof(\"{column}\") = 'integer'"
        );
        let mut used = connection.prepare(&sql)?;
        let used = used.query_map([], |row| row.get::<_, i64>(0))?;
        for id in used {
            names.remove(&id?);
        }
    }
    for id in names {
        connection.execute("UPDATE StringIds SET value = '' WHERE id = ?1", [id])?;
    }
    Ok(())
}
