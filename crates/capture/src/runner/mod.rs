//! Workers: processes that run a model and report when each token was there.
//!
//! llmprof starts a worker with the path of a socket and speaks the [`protocol`] with it: [`Client`] is our side,
//! [`serve_requests`] the side of a worker written in Rust. A worker's standard output and error are logs, since profilers and
//! libraries print there too.

mod check;
mod client;
mod connection;
mod conversation;
mod error;
mod limits;
pub mod protocol;
mod worker;

pub use client::Client;
pub use error::{Problem, WorkerError, WorkerStep};
pub use limits::Limits;
pub use worker::{Backend, ServeError, serve_requests};
