//! A measured run as people read it: `report.md`, `stakeholder_summary.md`, `report.html`.
//!
//! All are made from one [`Analysis`](llmprof_analysis::Analysis), so that their numbers agree.

mod full;
mod kernels;
mod limits;
mod page;
mod slices;
mod stakeholder;
mod steps;
mod telemetry;
mod trace_timeline;
mod traced;
mod words;

pub use full::{document, operators};
pub use kernels::kernels;
pub use page::{Extras, view};
pub use stakeholder::stakeholder;
pub use trace_timeline::{MOST_EVENTS, TraceTimeline, trace_timeline};
pub use words::conclusion;
