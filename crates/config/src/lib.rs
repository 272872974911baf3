//! Hydra 1.3 and OmegaConf 2.3 configuration semantics; knows nothing of GPUs.

pub mod context;
mod convert;
pub mod emit;
pub mod error;
pub mod grammar;
pub mod hydra;
pub mod int;
mod interpolate;
pub mod key;
pub mod keypath;
pub mod merge;
pub mod near_names;
pub mod node;
mod place;
pub mod python;
pub mod resolve;
pub mod source;
pub mod typed;
pub mod update;
mod warnings;
pub mod yaml;
