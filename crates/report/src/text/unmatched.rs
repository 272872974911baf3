//! Why work belongs to no operator: of the model, or of the framework.

use llmprof_analysis::attribution::UnattributedReason;
use llmprof_analysis::matching::UnmatchedReason;

/// Why an event is not matched to an operator of the model.
pub(crate) fn reason(reason: UnmatchedReason) -> &'static str {
    match reason {
        UnmatchedReason::NotInTheory => "the model has no operator at this path",
        UnmatchedReason::RanAgain => "ran more often than the model needs",
        UnmatchedReason::KindDiffers => "the model has another kind of operator here",
        UnmatchedReason::ShapeDiffers => "the model has another shape here",
        UnmatchedReason::DtypeDiffers => "the model has another dtype here",
        UnmatchedReason::UnknownOperator => "the run does not list the operator",
        UnmatchedReason::PhaseNotCounted => "the model has no operators in this phase",
        UnmatchedReason::NotNeeded => "the model has no such operator",
        UnmatchedReason::RarelyNeeded => "moves, fills, sorts or draws data, by its name",
        UnmatchedReason::TouchesNoData => "touches no data: dispatch of a view or an allocation",
        UnmatchedReason::OutsideModules => "launched outside all modules",
        UnmatchedReason::UnknownPurpose => "unrecognized name",
        UnmatchedReason::WholeGraph => {
            "a CUDA Graph was recorded as one event, without its kernels"
        }
    }
}

/// The same by the code of the reason.
pub(crate) fn of_code(code: &str) -> Option<&'static str> {
    let all = UnmatchedReason::ALL.into_iter();
    all.filter(|known| known.code() == code).map(reason).next()
}

/// Why a device event is not attributed to an operator of the framework.
pub(crate) fn attribution(reason: UnattributedReason) -> &'static str {
    match reason {
        UnattributedReason::NoCorrelation => "no correlation id",
        UnattributedReason::CallNotRecorded => "launch call not in the trace",
        UnattributedReason::OutsideOperators => "launched outside all ops",
        UnattributedReason::NoOperatorsRecorded => "no ops in the trace",
    }
}
