//! The load itself: workers that send, a scheduler that wakes them in time.

mod calls;
mod connection;
mod drive;
mod exchange;
mod probe;
mod reading;
mod schedule;
mod shared;
mod worker;

pub use calls::{CallError, Calls};
pub use drive::{Load, drive};
pub use reading::Reading;
pub(crate) use worker::run_until;

pub use shared::{CountTokens, Progress, Recent};

pub use probe::{ProbeError, Probed, probe};
