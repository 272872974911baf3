//! Why what happened differs from what should have happened. Pure: no file is read or written here.
//!
//! [`analyze`] takes a [`RunRecord`](llmprof_record::run::RunRecord), whatever ran it, and gives an [`Analysis`]. Modules
//! are ordered by what they need: [`stats`] → [`timeline`] (what a device did when, why it was idle) → [`attribution`]
//! (which operator launched it) → [`steps`] (launch patterns) → [`phases`] → [`trace`] (all that a trace says by itself) →
//! [`matching`] (which operator of the model each event is) → [`waterfall`], [`roofline`], [`latency`], [`telemetry`],
//! [`counters`], [`gemms`] (calls of a cuBLAS log with the times of their kernels) → [`findings`] → [`analyze`]. [`statics`] is what a model should cost.

mod analysis;
mod analyze;
pub mod assumption;
pub mod attribution;
pub mod bottleneck;
mod capture_cost;
pub mod causes;
pub mod compare;
pub mod counters;
pub(crate) mod engine_label;
mod engine_steps;
mod event_origins;
pub mod evidence;
pub mod findings;
pub mod framework;
pub mod gemms;
pub mod graphs;
pub mod host_stacks;
pub mod kernel_ranking;
mod labels;
pub mod latency;
pub mod matching;
pub(crate) mod phase_analysis;
pub mod phase_facts;
pub mod phases;
pub mod program;
pub mod ranks;
pub mod replay;
pub mod roofline;
mod row_order;
pub mod run_metrics;
pub mod serving;
pub mod statics;
pub mod stats;
pub mod steps;
pub mod telemetry;
mod thresholds;
pub mod timeline;
pub mod trace;
pub mod trtexec;
pub mod waterfall;

pub use analysis::{Analysis, AnalysisError};
pub use analyze::{JudgedDevice, analyze, judged_device};
pub use capture_cost::CaptureCost;
pub use engine_steps::{NoClock, Served, engine_steps};
pub use event_origins::{EventOrigin, EventOrigins, IdleGap};
pub use phase_analysis::PhaseAnalysis;
pub use trace::TraceAnalysis;
