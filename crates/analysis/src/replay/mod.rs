//! What-if replay of a recorded timeline.
//!
//! A [`Graph`] holds a trace as flat arrays: the segments of every host thread (time in which one recorded event, or none, is
//! the innermost), the device work that each segment launches, and what synchronizing calls wait for. [`Graph::replay`] walks
//! the segments in recorded order and computes when everything would happen:
//!
//! - a segment begins when the one before it on its thread ends;
//! - device work begins at the later of `begin of its launch call + launch latency` and `end of its predecessor on the stream +
//!   gap`, plus the delay that other streams cause;
//! - a synchronizing call ends when what it waits for has ended, plus the time that returning takes.
//!
//! Of a long recording the graph holds parts, which are replayed each from the state in which the recording had threads and streams.
//!
//! An [`Edit`] drops or shortens segments and device work. The cost of recording is subtracted per host event, never scaled: a
//! pause of 12 ms is as long unrecorded.

mod api;
mod build;
mod edit;
mod fidelity;
mod graph;
mod nodes;
mod parts;
mod residual;
mod run;
mod segments;
#[cfg(test)]
mod tests;
mod time_slices;
mod windows;

pub(crate) use self::api::CallEffect;
pub use self::edit::Edit;
pub use self::graph::Graph;
pub(crate) use self::graph::{CallWait, DeviceRow, DeviceWork};
pub(crate) use self::run::Replay;
pub use self::run::ReplayModel;
pub(crate) use self::segments::is_op_or_call;
pub use self::windows::{HostWindow, PhaseWindows};
