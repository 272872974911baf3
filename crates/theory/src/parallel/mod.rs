//! A model over several devices of one node: what a rank holds and computes, and what ranks send each other.
//!
//! A rank runs a model of its own: the same layers with a share of the heads, widths and experts ([`rank_model`]).

mod communication;
mod rank;

pub use crate::ranks::Parallel;
pub use communication::{Exchange, Operation, list_exchanges, step_exchanges};
pub use rank::{rank_model, stored_model};
