//! Continuous batching, simulated: requests in, latencies out.
//!
//! [`engine`] schedules steps as vLLM does (first come first served, chunked prefill, KV blocks, preemption by recomputation, prefix
//! cache); a [`StepTimer`] says how long each step takes: [`predicted`] from a model and a device, [`calibrated`] from the engine steps
//! of a recorded server; [`shift`] corrects predicted ones by benches. Pure: no clock, no threads, and the same seed gives the same numbers.

pub mod calibrated;
pub mod disaggregated;
pub mod engine;
pub mod gaps;
mod kv;
mod longest;
pub mod memory;
pub mod plan;
pub mod predicted;
pub mod request;
pub mod scenario;
pub mod search;
pub mod settings;
pub mod shift;
pub mod simulated_load;
pub mod stability;
pub mod step;

pub use engine::{LoadOutcome, simulate_load};
pub use request::{FrontEnd, PrefixContent, RequestLoad, SimulatedRequest};
pub use settings::Settings;
pub use simulated_load::{LoadLevel, SimulatedLoad};
pub use step::StepTimer;
