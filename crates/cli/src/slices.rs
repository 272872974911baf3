//! What is told of recording within a budget, whether `record` or a run does it.

use llmprof_analysis::analysis::MORE_SLICES;
use llmprof_record::issue::{Issue, Severity};

/// No slice was recorded at all.
pub(crate) fn none() -> Issue {
    Issue::new(
        Severity::Warning,
        "slices.none",
        "no slice was recorded: the program ended before its budget allowed for the first one",
    )
    .with_hint(MORE_SLICES)
}

/// What the budget does not hold.
pub(crate) fn cupti_stays() -> Issue {
    Issue::new(
        Severity::Warning,
        "record.cupti_stays",
        "between slices CUPTI stays in the process and slows its launches; the budget holds for what recording adds to that",
    )
    .with_hint("without --no-detach (in a run: pipeline.cupti.detach=true) it leaves between slices")
}
