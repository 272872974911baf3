//! Which operator of the model each event of a run belongs to.
//!
//! [`lanes`](self::lanes) lists the events, [`script`] what theory counts in the order of execution, [`units`] joins the two: by the
//! identity of the call where the recorder knows it, by the ranges of modules, or by the names of kernels.

mod exact;
pub(crate) mod expected;
pub(crate) mod groups;
pub(crate) mod host_operators;
pub(crate) mod kernel_table;
pub(crate) mod lanes;
pub(crate) mod module_ranges;
pub(crate) mod modules;
pub(crate) mod operator_category;
pub(crate) mod places;
pub(crate) mod script;
pub(crate) mod units;
pub(crate) mod unmatched;

pub use groups::OperatorGroup;
pub use unmatched::{MissingOperator, UnmatchedOperator, UnmatchedReason};
