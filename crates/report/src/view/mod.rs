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
pub use heat_map::{Curve, Curves, HeatMap};
pub use histogram::{Bin, Histogram, Mark};
pub use icicle::{Icicle, IciclePart};
pub use paired_bars::{PairedBar, PairedBars};
pub use roofline::{Roof, Roofline, RooflinePoint, RooflineTitles};
pub use series::{Band, Line, Series};
pub use step_latency::{StepLatency, StepLine};
pub use timeline::{Event, Timeline, Window};
pub(crate) use timeline::{Layout, MAX_ROWS_PER_LANE, Row};
pub use unit::Unit;
pub use waterfall::{PartKind, Waterfall, WaterfallPart};
