//! A served load: its numbers, where requests spent their time, and what would make the server faster.

mod finding;
mod findings;
pub mod parts;
mod self_check;
mod stopped;
mod summary;

/// The rates that a load was sent at, with the numbers of each.
pub type Sweep = llmprof_traffic::sweep::Sweep<Summary>;

pub use self::finding::{
    Finding, FindingKind, LatencyPart, MeanPart, MeanParts, NoFindings, NotSplit, PartSource,
    QueueLimit,
};
pub use self::findings::{Evidence, findings};
pub use self::self_check::SelfCheck;
pub use self::summary::{Concurrency, SteadyState, Summary, in_flight};
