//! Work that ran and belongs to no operator of the model, and operators that did not run.

use std::borrow::Cow;
use std::fmt;

use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::waterfall::EventClass;

/// Why an operator that ran is not matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnmatchedReason {
    /// Theory counts no operator of that path in the step.
    NotInTheory,
    /// The step has had its operator of that path already: this one is not needed.
    RanAgain,
    /// The operator of that path has another kind.
    KindDiffers,
    /// The operator of that path has another shape.
    ShapeDiffers,
    /// The operator of that path multiplies another format.
    DtypeDiffers,
    /// The event names an operator that the run does not list.
    UnknownOperator,
    /// Theory counts no operators in this phase.
    PhaseNotCounted,
    /// No operator of its module is done by such a kernel: a cast, a concatenation, a mask, index work.
    NotNeeded,
    /// No model says what is needed, and such work is rarely a model's own: a cast, a concatenation, a mask, a choice.
    RarelyNeeded,
    /// It was launched outside every module.
    OutsideModules,
    /// Its name does not say what it does.
    UnknownPurpose,
    /// It is a whole graph, recorded without its kernels.
    WholeGraph,
}

impl fmt::Display for UnmatchedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl UnmatchedReason {
    fn text(self) -> &'static str {
        match self {
            Self::NotInTheory => "theory counts no operator of that path",
            Self::RanAgain => "ran more often than theory counts",
            Self::KindDiffers => "theory counts another kind",
            Self::ShapeDiffers => "theory counts another shape",
            Self::DtypeDiffers => "theory counts another dtype",
            Self::UnknownOperator => "the run does not list the operator",
            Self::PhaseNotCounted => "theory counts no operators in the phase",
            Self::NotNeeded => "no operator needs it",
            Self::RarelyNeeded => "moves, fills, arranges or picks values, by its name",
            Self::OutsideModules => "launched outside every module",
            Self::UnknownPurpose => "the name does not say what it does",
            Self::WholeGraph => "a graph was recorded as one event, without its kernels",
        }
    }

    /// The part of the waterfall that such time belongs to.
    pub(crate) fn class(self) -> EventClass {
        match self {
            Self::RanAgain | Self::NotNeeded | Self::RarelyNeeded => EventClass::Extra,
            _ => EventClass::Unattributed(Cow::Borrowed(self.text())),
        }
    }
}

/// Calls of one operator that ran and are not matched for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmatchedOperator {
    /// Its path.
    pub path: String,
    /// Why.
    pub reason: UnmatchedReason,
    /// What ran, of the first such call.
    pub found: String,
    /// What theory counts there, where it counts something.
    pub expected: Option<String>,
    /// Calls.
    pub calls: u64,
    /// Their time.
    pub time_ns: Nanos,
}

/// An operator that theory counts and that did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingOperator {
    /// Its path.
    pub path: String,
    /// How often it was missed.
    pub calls: u64,
}
