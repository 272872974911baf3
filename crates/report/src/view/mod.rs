//! What charts show, as plain data that knows nothing of the analyses it came from.
//!
//! Every number keeps its unit in its type or its field name; how it is drawn is decided in [`chart`](crate::chart).

mod gallery;
mod heat_map;
mod histogram;
mod icicle;
mod paired_bars;
mod roofline;
mod series;
mod step_latency;
mod timeline;
mod unit;
mod waterfall;

pub use gallery::GalleryPage;
pub use heat_map::{Curves, HeatMap, PlottedCurve};
pub use histogram::{Bin, Histogram, ValueMark};
pub use icicle::{Icicle, IciclePart};
pub use paired_bars::{PairedBar, PairedBars};
pub use roofline::{PlottedOperator, Roofline, RooflineCeiling, RooflineTitles};
pub use series::{Band, Series, SeriesLine};
pub use step_latency::{StepLatency, StepLine};
pub(crate) use timeline::{MAX_ROWS_PER_LANE, TimelineLayout, TimelineRow};
pub use timeline::{Timeline, TimelineEvent, TimelineWindow};
pub use unit::Unit;
pub use waterfall::{PartKind, Waterfall, WaterfallPart};
