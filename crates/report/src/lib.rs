//! What people read: a [`Document`] is made once from numbers, and every renderer prints the same one.
//!
//! A renderer decides how things look and never what they say, so the Markdown, the HTML and the terminal agree.

mod document;
pub mod render;
pub mod statics;

pub use document::{Align, Block, Column, Document, Table};
