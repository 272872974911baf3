use llmprof_report::{
    Table,
    csv::{csv_lines, json_cell},
};
use serde_json::{Map, Value, json};

use super::QueryTable;

/// Rows in the order of the query.
#[derive(Debug, PartialEq)]
pub struct QueryAnswer {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    /// Whether there are more rows than the limit.
    pub is_cut: bool,
}

impl QueryAnswer {
    /// The tables that can be asked, with their columns.
    pub fn of_tables() -> Self {
        let row = |table: &QueryTable| vec![table.name().into(), table.columns().join(", ").into()];
        Self {
            columns: vec!["table".to_owned(), "columns".to_owned()],
            rows: QueryTable::ALL.iter().map(row).collect(),
            is_cut: false,
        }
    }

    pub fn json(&self) -> Value {
        json!({"columns": self.columns, "rows": self.rows, "is_cut": self.is_cut})
    }

    /// A row as an object by the names of its columns.
    pub fn objects(&self) -> Vec<Map<String, Value>> {
        let object = |row: &Vec<Value>| {
            let columns = self.columns.iter().cloned();
            columns.zip(row.iter().cloned()).collect()
        };
        self.rows.iter().map(object).collect()
    }

    pub fn csv(&self) -> String {
        let rows = self.rows.iter();
        let rows = rows.map(|row| row.iter().map(json_cell).collect());
        let lines: Vec<Vec<String>> = [self.columns.clone()].into_iter().chain(rows).collect();
        csv_lines(&lines)
    }

    pub fn table(&self) -> Table {
        let heads: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let words: Vec<&str> = (heads.iter().enumerate())
            .filter(|(column, _)| self.rows.iter().any(|row| row[*column].is_string()))
            .map(|(_, head)| *head)
            .collect();
        let mut table = Table::new(&heads, 0).with_words(&words);
        for row in &self.rows {
            table.row(row.iter().map(json_cell));
        }
        table
    }
}
