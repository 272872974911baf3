//! What a report shows, as plain data: charts and tables that know nothing of the analyses they came from.
//!
//! A [`ReportView`] is to the HTML page what a [`Document`](crate::Document) is to Markdown, and may hold documents. Every
//! number keeps its unit in its type or its field name; how it is drawn is decided in [`chart`](crate::chart) and
//! [`render`](crate::render).

mod document;
mod histogram;
mod operators;
mod roofline;
mod series;
mod timeline;
mod unit;
mod waterfall;

pub use histogram::{Bin, Histogram, Mark};
pub use operators::{Cell, OperatorTable};
pub use roofline::{Roof, Roofline, RooflinePoint};
pub use series::{Band, Line, Series};
pub use timeline::{Event, Timeline};
pub(crate) use timeline::{Layout, MAX_ROWS_PER_LANE, Row};
pub use unit::Unit;
pub use waterfall::{PartKind, Waterfall, WaterfallPart};

use llmprof_record::issue::Issue;

use crate::Document;

/// A whole report: what it concludes, what should not be trusted, then sections in reading order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportView {
    /// What was profiled.
    pub title: String,
    /// One line under the title: device, date, workload.
    pub subtitle: String,
    /// The conclusion, the most important sentence first.
    pub conclusion: Vec<String>,
    /// Losses and reasons for distrust; they stand above every chart.
    pub issues: Vec<Issue>,
    /// The sections.
    pub sections: Vec<Section>,
}

/// A titled part of a [`ReportView`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// What it shows, in order.
    pub parts: Vec<Part>,
}

/// One thing that a [`Section`] shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text, lists and plain tables. The document's own title is not printed: the section has one.
    Document(Document),
    /// Where a phase's time went.
    Waterfall(Waterfall),
    /// Operators under the device's limits.
    Roofline(Roofline),
    /// Events over time.
    Timeline(Timeline),
    /// How a quantity is distributed.
    Histogram(Histogram),
    /// Sampled values over time.
    Series(Series),
    /// A table to sort and filter.
    Operators(OperatorTable),
}

impl Section {
    /// A section with its parts.
    pub fn new(title: impl Into<String>, parts: Vec<Part>) -> Self {
        Self {
            title: title.into(),
            parts,
        }
    }
}
