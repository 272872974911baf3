//! Grounded text: models that read pages say what stands where, as `<|ref|>label<|/ref|><|det|>[[x1,y1,x2,y2]]<|/det|>` with
//! coordinates from 0 to 999 across and down the page. This crate reads such text and draws it. Bytes in, bytes out.

mod glyphs;
mod markdown;
pub mod page;
mod paint;
mod parse;
mod visual;

pub use parse::{Box999, Grounded, Malformed, Region, is_grounded, parse};
pub use visual::{Info, PageCounts, PixelBox, Visual, visual};
