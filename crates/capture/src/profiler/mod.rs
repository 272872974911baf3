//! Profilers: each turns a [`Launch`](crate::process::Launch) into one that is watched.
//!
//! [`Cupti`] sets the environment by which the CUDA driver and NVTX load our own library into the process and its
//! children. [`Channel`] is where those processes report; [`run_watched`] runs a command to its end and serves the channel.

mod channel;
mod cupti;
pub mod nsight;
mod recording;
mod watch;

pub use channel::{Channel, Watched};
pub use cupti::{Cupti, LibraryMissing, find_library, quarter_of_free};
pub use recording::Recording;
pub use watch::{CommandOutput, Schedule, WatchedEnd, run_watched};
