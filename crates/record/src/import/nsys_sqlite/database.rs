//! Reading tables whose columns differ between versions of the tool, from a file that may be damaged.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::issue::{Issue, IssueCode};

/// An open export and what went wrong while reading it.
pub(super) struct Database {
    connection: Connection,
    tables: BTreeMap<String, Vec<String>>,
    texts: HashMap<i64, String>,
    losses: BTreeMap<(IssueCode, String), (u64, Issue)>,
    /// More rows than this no table of a file of its size can have, unless its pages are named several times.
    most_rows: u64,
    /// Bytes of text that may still be taken, for the same reason.
    text_left: Cell<u64>,
}

/// The cells of one row, taken in the order in which the columns were asked for.
pub(super) struct Cells<'r> {
    row: &'r Row<'r>,
    next: usize,
    wrong: Option<usize>,
    text_left: &'r Cell<u64>,
}

/// The fewest bytes that a row takes: two of its page's index, and two of its own.
const ROW_BYTES: u64 = 4;
/// Text that may be taken for each byte of the file.
const TEXT_PER_BYTE: u64 = 4;
/// Steps of SQLite's machine that are allowed for each byte of the file, and whatever its size.
const STEPS_PER_BYTE: u64 = 256;
const FREE_STEPS: u64 = 100_000_000;
/// How many steps pass between two looks at the count.
const STEPS_AT_ONCE: i32 = 10_000;

impl Database {
    /// Lists the tables. An error says that the file cannot be read as a database at all. `bytes` is the size of the file:
    /// pages that are named several times can make it a database of any size.
    pub(super) fn open(mut connection: Connection, bytes: u64) -> rusqlite::Result<Self> {
        restrict_connection(&mut connection, bytes)?;
        let mut tables = BTreeMap::new();
        {
            // A table of a module (full text search and others) has no page of its own, and is not looked at.
            let mut list = connection.prepare(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY name",
            )?;
            let names: Vec<String> = list
                .query_map([], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            for name in names {
                let mut columns = connection
                    .prepare(&format!("PRAGMA table_info({})", quote_identifier(&name)))?;
                let columns: Vec<String> = columns
                    .query_map([], |row| row.get(1))?
                    .collect::<Result<_, _>>()?;
                tables.insert(name, columns);
            }
        }
        Ok(Self {
            connection,
            tables,
            texts: HashMap::new(),
            losses: BTreeMap::new(),
            most_rows: bytes / ROW_BYTES + 1,
            text_left: Cell::new(bytes.saturating_mul(TEXT_PER_BYTE)),
        })
    }

    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    pub(super) fn has_column(&self, table: &str, column: &str) -> bool {
        self.tables
            .get(table)
            .is_some_and(|columns| columns.iter().any(|name| name == column))
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.tables
            .iter()
            .map(|(name, columns)| (name.as_str(), columns.as_slice()))
    }

    /// How many rows a table has, as far as that can be counted.
    pub(super) fn rows(&self, table: &str) -> Option<u64> {
        // Not by `COUNT(*)`, which nothing can end.
        let query = format!("SELECT NULL FROM {}", quote_identifier(table));
        let mut statement = self.connection.prepare(&query).ok()?;
        let mut rows = statement.query([]).ok()?;
        let mut count = 0;
        while count < self.most_rows && rows.next().ok()?.is_some() {
            count += 1;
        }
        Some(count)
    }

    /// Calls `each` with every row of a table, and returns how many rows there were. Columns that this version lacks
    /// read as NULL, but for the `required` first ones, without which the table is passed over with an issue. A
    /// table that is not there has no rows. `each` answers `None` for a row that it cannot use.
    pub(super) fn scan(
        &mut self,
        table: &str,
        columns: &[&str],
        required: usize,
        mut each: impl FnMut(&mut Cells<'_>) -> Option<()>,
    ) -> u64 {
        let Some(present) = self.tables.get(table) else {
            return 0;
        };
        let is_present = |column: &str| present.iter().any(|name| name == column);
        if let Some(missing) = columns[..required]
            .iter()
            .find(|column| !is_present(column))
        {
            let rows = self.rows(table).unwrap_or(1);
            let issue = Issue::warning(IssueCode::NsysMissingColumn).with("column", *missing);
            self.lose(issue, table, rows);
            return 0;
        }
        let selected: Vec<String> = columns
            .iter()
            .map(|column| {
                if is_present(column) {
                    quote_identifier(column)
                } else {
                    "NULL".to_owned()
                }
            })
            .collect();
        let query = format!(
            "SELECT {} FROM {}",
            selected.join(", "),
            quote_identifier(table)
        );
        let mut read = 0;
        let mut is_over = false;
        let mut unusable: Option<(u64, u64, usize)> = None;
        let mut walk = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(&query)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if read >= self.most_rows {
                    is_over = true;
                    return Ok(());
                }
                read += 1;
                let mut cells = Cells {
                    row,
                    next: 0,
                    wrong: None,
                    text_left: &self.text_left,
                };
                if each(&mut cells).is_none() {
                    let place = unusable.get_or_insert((0, read, cells.wrong.unwrap_or(0)));
                    place.0 += 1;
                }
            }
            Ok(())
        };
        let ended = walk();
        if let Some((count, first, column)) = unusable {
            let column = columns.get(column).copied().unwrap_or_default();
            let issue = Issue::warning(IssueCode::NsysUnusableRow).with("row", first);
            self.lose(issue.with("column", column), table, count);
        }
        if is_over {
            self.lose(
                Issue::error(IssueCode::NsysTooManyRows).with("row", read),
                table,
                1,
            );
        }
        if let Err(error) = ended {
            let issue = Issue::error(IssueCode::NsysDamagedTable).with("row", read);
            self.lose(issue.with("error", error.to_string()), table, 1);
        }
        read
    }

    pub(super) fn load_texts(&mut self) {
        let mut texts = HashMap::new();
        self.scan("StringIds", &["id", "value"], 2, |cells| {
            texts.insert(cells.int()?, cells.text()?);
            Some(())
        });
        self.texts = texts;
    }

    /// Takes the string table out, so that it can be used while tables are scanned.
    pub(super) fn take_texts(&mut self) -> HashMap<i64, String> {
        std::mem::take(&mut self.texts)
    }

    /// The labels of an enumeration, as newer versions export them.
    pub(super) fn labels(&mut self, table: &str) -> HashMap<i64, String> {
        let mut labels = HashMap::new();
        self.scan(table, &["id", "label"], 2, |cells| {
            let id = cells.int()?;
            if let Some(label) = cells.text() {
                labels.insert(id, label);
            }
            Some(())
        });
        labels
    }

    /// Notes a loss in a table; those of one code and table become one issue that shows the first.
    pub(super) fn lose(&mut self, issue: Issue, table: &str, count: u64) {
        if count > 0 {
            let key = (issue.code.clone(), table.to_owned());
            let issue = issue.with("table", table);
            self.losses.entry(key).or_insert((0, issue)).0 += count;
        }
    }

    pub(super) fn issues(self) -> impl Iterator<Item = Issue> {
        let losses = self.losses.into_values();
        losses.map(|(count, issue)| issue.counting(count))
    }
}

impl Cells<'_> {
    fn take(&mut self) -> Option<ValueRef<'_>> {
        let at = self.next;
        self.next += 1;
        self.row.get_ref(at).ok()
    }

    /// The next cell as a whole number; `None` for NULL and everything else.
    pub(super) fn int(&mut self) -> Option<i64> {
        let at = self.next;
        if let Some(ValueRef::Integer(number)) = self.take() {
            return Some(number);
        }
        self.wrong = Some(at);
        None
    }

    /// The next cell as a number that fits; 0 for NULL and everything else.
    pub(super) fn small(&mut self) -> u32 {
        self.int()
            .and_then(|number| u32::try_from(number).ok())
            .unwrap_or(0)
    }

    /// The next cell as text; `None` for NULL and everything else.
    pub(super) fn text(&mut self) -> Option<String> {
        let at = self.next;
        let text_left = self.text_left;
        if let Some(ValueRef::Text(bytes)) = self.take()
            && let Some(left) = text_left.get().checked_sub(bytes.len() as u64)
        {
            text_left.set(left);
            return Some(String::from_utf8_lossy(bytes).into_owned());
        }
        self.wrong = Some(at);
        None
    }
}

/// Lets SQLite do nothing but read: no function or trigger that the file names, no page written, no end of work.
fn restrict_connection(connection: &mut Connection, bytes: u64) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    let longest = i32::try_from(bytes.max(1 << 20)).unwrap_or(i32::MAX);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest)?;
    let steps = bytes.saturating_mul(STEPS_PER_BYTE).max(FREE_STEPS);
    let mut left = steps / STEPS_AT_ONCE.unsigned_abs() as u64;
    let spent = move || {
        left = left.saturating_sub(1);
        left == 0
    };
    connection.progress_handler(STEPS_AT_ONCE, Some(spent))
}

fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
