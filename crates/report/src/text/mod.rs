//! Sentences that several sections share, one file per subject; those of one section are in its folder in `compose`.
//!
//! Analyses hand over codes and values; what they mean in words is decided here, in the words of GPU performance engineers.

mod assumptions;
pub(crate) mod bottleneck;
pub mod calibration;
pub(crate) mod causes;
pub mod consumers;
pub(crate) mod copies;
pub mod devices;
pub(crate) mod findings;
pub(crate) mod gallery;
#[cfg(test)]
mod issue_page;
pub mod issue_table;
mod issues;
pub mod program;
pub mod run_weights;
mod runtime;
pub mod slices;
pub mod trace;
pub(crate) mod unmatched;
pub mod waterfall;

pub use assumptions::assumption;
pub(crate) use findings::{
    OVERLAP, abstention, derivation, evidence, figure, is_noticed, no_conclusion, statement, whole,
};
pub use findings::{finding, gain, knob};
pub use issues::{hint, issue, issue_line, warning_lines};

use llmprof_units::Nanos;

/// Stands where a value is not known.
pub(crate) fn dash() -> String {
    "–".to_owned()
}

pub(crate) fn time(ns: f64) -> String {
    Nanos(ns.round() as i64).to_string()
}
