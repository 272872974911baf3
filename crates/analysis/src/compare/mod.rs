//! Comparison of runs: what differs, how sure that is, and why.
//!
//! [`RunFacts`] is what a comparison needs of a run; [`Comparison::between`] compares the runs of two sides. `bootstrap` has the intervals,
//! `verdict` what they mean, `rounds` which rounds count, `replaced` which kernels stand for which, `explanation` the parts that sum to
//! a difference, `gate` the thresholds of a user.

mod bootstrap;
mod collect;
mod comparability;
mod comparison;
mod explanation;
mod facts;
mod gate;
mod mean_pass;
mod metric;
mod replaced;
mod rounds;
mod served;
mod verdict;
mod work;

pub use bootstrap::{
    RatioInterval, paired_interval, percentile_interval, unpaired_interval, unpaired_medians,
};
pub use collect::{OTHER_WORK, thin_gaps, thin_to};
pub use comparability::TraitDifference;
pub use comparison::{
    CompareOptions, Comparison, IntervalBasis, MetricComparison, PartComparison, PhaseComparison,
    SideFacts,
};
pub use explanation::{ExplainedPart, ExplainedSource, Explanation};
pub use facts::{Disturbance, DisturbanceCause, OperatorTime, PhaseFacts, RunFacts, WorkRow};
pub use gate::{Gate, GateBound, GateOutcome, GateState, Unevaluated};
pub use mean_pass::MeanPass;
pub use metric::{ComparedMetric, MetricUnit};
pub use replaced::{ChangeKind, NamedWork, WorkChange};
pub use rounds::{DisturbedRound, Rounds};

pub use crate::thresholds::DISTURBED_SHARE;
pub use verdict::{Verdict, rounds_needed};
