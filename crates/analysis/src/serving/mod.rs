//! A served load: its numbers, where requests spent their time, and what would make the server faster.

mod analysis;
mod analyze_load;
mod conclusion;
mod findings;
mod gpus;
mod mean_parts;
mod overload;
pub mod parts;
mod self_check;
mod steps;
mod stopped;
mod summary;

pub use self::analysis::{ServerUse, ServingAnalysis, SloOutcome};
pub(crate) use self::analyze_load::analyze_load;
pub use self::conclusion::{QueueLimit, ServingConclusion};
pub use self::gpus::GpuUse;
pub use self::mean_parts::{LatencyPart, MeanPart, MeanParts, NotSplit, PartSource};
pub use self::self_check::SelfCheck;
pub use self::steps::{EngineStepKind, StepKindUse, StepsUse};
pub use self::summary::{in_flight, load_issues, summarize_load};
