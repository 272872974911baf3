//! Renderers, one file each.

pub mod markdown;
pub mod terminal;
