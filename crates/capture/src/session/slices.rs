//! What is reported of recording within a budget, whether `record` or a run does it.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_units::Share;

/// The least budget that programs of CUDA graphs keep to: CUPTI stays in them, where it makes graphs up to 1.9 % slower on an
/// H200.
const GRAPHS_MIN_PPM: u32 = 20_000;

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
    pub fn into_issues(self, has_slices: bool, issues: &[Issue]) -> Vec<Issue> {
        let stays_for_graphs = issues
            .iter()
            .any(|issue| issue.code == IssueCode::CuptiKeptForGraphs);
        let is_less = stays_for_graphs && self.share.ppm() < GRAPHS_MIN_PPM;
        let none = (!has_slices).then(|| self.no_slice_issue());
        none.into_iter().chain(is_less.then(not_kept)).collect()
    }

    /// No slice was recorded at all.
    fn no_slice_issue(self) -> Issue {
        Issue::warning(IssueCode::SlicesNone).with("bounded", self.is_bounded)
    }
}

/// The budget is less than what CUPTI costs by being there.
fn not_kept() -> Issue {
    Issue::warning(IssueCode::SlicesNotKept)
}

/// What the budget does not hold.
pub fn cupti_stays() -> Issue {
    Issue::warning(IssueCode::RecordCuptiStays)
}
