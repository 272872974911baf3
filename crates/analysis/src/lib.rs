//! Why what happened differs from what should have. Pure functions: no file is read or written here.
//!
//! [`statics`] is what a model must cost, on paper.

pub mod statics;
