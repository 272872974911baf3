//! The jobs of a sweep on one page.

mod page;
mod sentences;
mod table;

pub use page::document;
pub use table::{SweepFigures, SweepRow, csv, summary, table, warnings};
