//! What people read: a [`Document`] is made once from numbers, and every renderer prints the same one.
//!
//! [`text`] has the sentences, [`compose`] puts documents together, [`render`] and [`plots`] print them. A renderer decides how things
//! look and never what they say, so Markdown, HTML and terminal agree.

mod analyzed;
pub mod chart;
pub mod compose;
pub mod csv;
mod document;
mod kernel_label;
mod plots;
pub mod render;
pub mod text;
pub mod view;
mod vllm_bench;

pub use compose::{Report, statics};
pub use csv::{csv_field, csv_lines};
pub use document::{
    Align, Block, Cell, Chart, Column, Document, Drawing, FindingItem, Link, ReportTarget, Section,
    Table, TableRow, key,
};
pub use kernel_label::kernel_label;
pub use plots::plots;
pub use vllm_bench::vllm_bench;
