//! One change that could be made.

use llmprof_predict::EfficiencyProfile;
use llmprof_report::compose::advise::ChangeKind;

pub(super) struct Change {
    pub(super) code: ChangeKind,
    pub(super) overrides: Vec<String>,
    /// Where the change is one of the software: the profile of that.
    pub(super) profile: Option<EfficiencyProfile>,
}

impl Change {
    pub(super) fn new(code: ChangeKind, overrides: Vec<String>) -> Self {
        Self {
            code,
            overrides,
            profile: None,
        }
    }
}
