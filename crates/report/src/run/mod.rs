//! A measured run as people read it: `report.md`, `stakeholder_summary.md`, `report.html`.
//!
//! All are made from one [`RunAnalysis`](llmprof_analysis::run::RunAnalysis), so that their numbers agree.

mod full;
mod page;
mod stakeholder;
mod words;

pub use full::{document, operators};
pub use page::{Extras, view};
pub use stakeholder::stakeholder;
pub use words::conclusion;
