//! Tables for spreadsheets and pandas.

mod field;
pub mod tables;
pub mod token_times;

pub use field::{csv_field, csv_lines, json_cell};

/// A table: the name of its file, and its text.
pub type CsvFile = (String, String);
