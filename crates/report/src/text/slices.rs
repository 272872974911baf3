//! Runs that were sampled in slices to keep within an overhead budget.

use crate::analyzed::{Analysis, Scaled};

/// What slices say; nothing where all of the time was recorded.
pub(crate) fn of(analysis: &Analysis) -> Option<&Scaled> {
    analysis.timeline.as_ref()?.scaled.as_ref()
}

/// The sentences for the summary.
pub fn lines(analysis: &Analysis) -> Vec<String> {
    let told = |scaled: &Scaled| {
        let mut lines = vec![scaled.basis()];
        lines.extend(scaled.totals());
        lines
    };
    of(analysis).map(told).unwrap_or_default()
}

pub const BASIS: &str = "The run was sampled in slices to keep within its overhead budget. Time between slices was not seen: it \
                         belongs to no phase and is not idle. These are estimates for the whole run with 95 % confidence intervals; \
                         all other tables cover the slices only.";
