//! Renderers, one file each.

mod flat;
pub mod gallery;
pub mod html;
pub mod markdown;
pub mod terminal;
pub mod terminal_width;
