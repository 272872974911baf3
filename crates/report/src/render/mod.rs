//! Renderers, one file each.

pub mod html;
pub mod markdown;
pub mod terminal;
