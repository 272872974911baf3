//! Why work that ran belongs to no operator of the model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why an operator that ran is not matched.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema, Deserialize,
)]
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
    /// An op of the host that touches no data, such as a view.
    TouchesNoData,
    /// It was launched outside every module.
    OutsideModules,
    /// Its name does not say what it does.
    UnknownPurpose,
    /// It is a whole graph, recorded without its kernels.
    WholeGraph,
}

impl UnmatchedReason {
    pub const ALL: [Self; 13] = [
        Self::NotInTheory,
        Self::RanAgain,
        Self::KindDiffers,
        Self::ShapeDiffers,
        Self::DtypeDiffers,
        Self::UnknownOperator,
        Self::PhaseNotCounted,
        Self::NotNeeded,
        Self::RarelyNeeded,
        Self::TouchesNoData,
        Self::OutsideModules,
        Self::UnknownPurpose,
        Self::WholeGraph,
    ];

    /// The name that is serialized.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotInTheory => "not_in_theory",
            Self::RanAgain => "ran_again",
            Self::KindDiffers => "kind_differs",
            Self::ShapeDiffers => "shape_differs",
            Self::DtypeDiffers => "dtype_differs",
            Self::UnknownOperator => "unknown_operator",
            Self::PhaseNotCounted => "phase_not_counted",
            Self::NotNeeded => "not_needed",
            Self::RarelyNeeded => "rarely_needed",
            Self::TouchesNoData => "touches_no_data",
            Self::OutsideModules => "outside_modules",
            Self::UnknownPurpose => "unknown_purpose",
            Self::WholeGraph => "whole_graph",
        }
    }
}
