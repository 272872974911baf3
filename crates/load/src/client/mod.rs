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

pub use calls::{CallError, EndpointCalls};
pub use drive::{ReadyLoad, drive_load};
pub use reading::AnswerReading;

pub use shared::{CountTokens, LoadProgress, Recent};

pub use probe::{ProbeError, Probed, probe_server};
