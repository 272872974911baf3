//! Runs beside each other: what differs, how sure that is, and why.
//!
//! [`RunFacts`] is what a comparison needs of a run; [`Comparison::of`] compares the runs of two sides. `bootstrap` has the intervals,
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

pub use bootstrap::{Interval, paired, percentile_interval, unpaired, unpaired_medians};
pub use collect::{OTHER_WORK, thinned};
pub use comparability::Difference;
pub use comparison::{
    Comparison, IntervalBasis, MetricComparison, Options, PartComparison, PhaseComparison,
    SideFacts,
};
pub use explanation::{ExplainedPart, Explanation, Source};
pub use facts::{Disturbance, DisturbanceCause, OperatorTime, PhaseFacts, RunFacts, WorkRow};
pub use gate::{Bound, Gate, GateOutcome, GateState, Unevaluated};
pub use mean_pass::MeanPass;
pub use metric::{Metric, Unit};
pub use replaced::{Change, ChangeKind, NamedWork};
pub use rounds::{DISTURBED_SHARE, DisturbedRound, Rounds};
pub use verdict::{Verdict, rounds_needed};
