//! What is told of recording within a budget, whether `record` or a run does it.

use llmprof_record::issue::{Issue, MORE_SLICES, Severity};
use llmprof_units::Share;

/// The least budget that programs of CUDA graphs keep to: CUPTI stays in them, where it makes graphs up to 1.9 % slower on an
/// H200.
const LEAST_OF_GRAPHS_PPM: u32 = 20_000;

/// How slices were asked for.
#[derive(Clone, Copy, Debug)]
pub struct Sliced {
    /// The share of time that they may cost.
    pub share: Share,
    /// Whether times or a range bound the recording as well.
    pub is_bounded: bool,
}

impl Sliced {
    /// What is to be said of them, besides the `issues` of the trace.
    pub fn issues(self, has_slices: bool, issues: &[Issue]) -> Vec<Issue> {
        let stays_for_graphs = issues
            .iter()
            .any(|issue| issue.code == "cupti.kept_for_graphs");
        let is_less = stays_for_graphs && self.share.ppm() < LEAST_OF_GRAPHS_PPM;
        let none = (!has_slices).then(|| self.none());
        none.into_iter().chain(is_less.then(not_kept)).collect()
    }

    /// No slice was recorded at all.
    fn none(self) -> Issue {
        let bounds = if self.is_bounded {
            ", or outside of the times or the range that recording was bounded to"
        } else {
            ""
        };
        let text = format!(
            "no slice was recorded: the program ended before its budget allowed for the first one{bounds}"
        );
        Issue::new(Severity::Warning, "slices.none", text).with_hint(MORE_SLICES)
    }
}

/// The budget is less than what CUPTI costs by being there.
fn not_kept() -> Issue {
    Issue::new(
        Severity::Warning,
        "slices.not_kept",
        "the budget was not kept: CUDA graphs take up to 2 % longer while CUPTI is in the process, where it must stay",
    )
    .with_hint("with CUDA graphs a budget of 2% or more is kept")
}

/// What the budget does not hold.
pub fn cupti_stays() -> Issue {
    Issue::new(
        Severity::Warning,
        "record.cupti_stays",
        "between slices CUPTI stays in the process and slows its launches; the budget holds for what recording adds to that",
    )
    .with_hint("without --no-detach (in a run: pipeline.cupti.detach=true) it leaves between slices")
}
