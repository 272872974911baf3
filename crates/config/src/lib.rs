//! Hydra 1.3 and OmegaConf 2.3 configuration semantics; knows nothing of GPUs.

pub mod emit;
pub mod error;
pub mod grammar;
pub mod hint;
pub mod int;
pub mod key;
pub mod node;
pub mod python;
pub mod source;
pub mod typed;
pub mod yaml;
