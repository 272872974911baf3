//! Tables for spreadsheets and pandas.

pub mod counters;
mod field;
pub mod kernel_tables;
pub mod memory;
pub mod ranks;
pub mod tables;

pub use field::{csv_field, csv_lines};

/// A table: the name of its file, and its text.
pub type CsvFile = (String, String);
