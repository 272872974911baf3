//! What people read: a [`Document`] is made once from numbers, and every renderer prints the same one.
//!
//! A renderer decides how things look and never what they say, so the Markdown, the HTML and the terminal agree. Charts and the
//! sections of a page are plain data too: [`view`].

pub mod chart;
pub mod counters;
mod document;
pub mod memory;
pub mod render;
pub mod run;
pub mod statics;
pub mod sums;
pub mod view;

pub use document::{Align, Block, Column, Document, Table};
