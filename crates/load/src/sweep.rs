//! The highest rate of a real load that meets the objectives.

pub use llmprof_traffic::sweep::{Bounds, sweep};

use crate::summary::Summary;

pub type Sweep = llmprof_traffic::sweep::Sweep<Summary>;
pub type Point = llmprof_traffic::sweep::Point<Summary>;
