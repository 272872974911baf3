//! One change that could be made.

use llmprof_predict::EfficiencyProfile;
use llmprof_report::compose::advise::AdvisedChange;

pub(super) struct RequestChange {
    pub(super) code: AdvisedChange,
    pub(super) overrides: Vec<String>,
    /// Where the change is one of the software: the profile of that.
    pub(super) profile: Option<EfficiencyProfile>,
}

impl RequestChange {
    pub(super) fn new(code: AdvisedChange, overrides: Vec<String>) -> Self {
        Self {
            code,
            overrides,
            profile: None,
        }
    }
}
