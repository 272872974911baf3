//! Charts as SVG, drawn from the plain data of [`view`](crate::view).
//!
//! Each chart is a pure function to an [`Svg`], which prints itself as part of a page or as a file of its own. The same input gives
//! the same bytes.

mod axis;
mod curves;
mod heat_map;
mod histogram;
mod icicle;
mod layout;
mod paired_bars;
mod roofline;
mod series;
mod step_latency;
mod svg;
mod theme;
mod timeline;
mod waterfall;

pub use curves::curves;
pub use heat_map::heat_map;
pub use histogram::histogram;
pub use icicle::icicle;
pub use layout::ChartWidth;
pub use paired_bars::paired_bars;
pub use roofline::roofline;
pub use series::series;
pub use step_latency::step_latency;
pub use svg::Svg;
pub use timeline::timeline;
pub use waterfall::waterfall;

pub(crate) use layout::{distinct, shortened, text_width, wrapped};
pub(crate) use svg::escaped;
pub(crate) use theme::{CATEGORIES, page_theme};
