//! Predictions beside measurements: how far off they are, and what is fitted to what.
//!
//! `cargo run -p xtask -- grade` prints it; `grade table` writes `crates/predict/data/errors.json`, which `llmprof predict` reads its
//! known errors from.

mod alike;
mod captured;
mod check;
mod grade;
mod pairs;
mod spreads;
mod table;

pub use alike::random_routing;
pub use captured::{CapturedGrades, captured_grades};
pub use check::{ErrorSummary, TimeComparison, error_summary, fixture_comparison};
pub use grade::{DataSplit, Grade, GradeSummary, blind_grades, grades, grades_on, summarize};
pub use pairs::{Pair, design_pairs, pairs, pairs_on};
pub use spreads::{ByKey, Ratio, ratios, spreads};
pub use table::known_errors;
