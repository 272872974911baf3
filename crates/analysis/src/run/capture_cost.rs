//! What recording did to the pass that it recorded.

use llmprof_record::issue::{Issue, Severity};

use super::phase_analysis::PhaseAnalysis;

/// A captured pass that took this many times as long as plain ones is another pass than they are.
const MUCH: f64 = 1.5;

impl PhaseAnalysis {
    /// Whether recording, or what else the machine did meanwhile, made the pass that the phase is judged by much longer.
    /// A phase of a device is judged by its passes without capture.
    pub(super) fn is_slowed_by_capture(&self) -> bool {
        self.device().is_none() && self.capture_ratio.is_some_and(|ratio| ratio >= MUCH)
    }
}

/// Says which phases were recorded in a pass that is not like the others.
pub(super) fn issue<'p>(phases: impl Iterator<Item = &'p PhaseAnalysis>) -> Option<Issue> {
    let slowed: Vec<String> = phases
        .filter(|phase| phase.is_slowed_by_capture())
        .filter_map(|phase| {
            let ratio = phase.capture_ratio?;
            Some(format!("{} took {ratio:.1}×", phase.name()))
        })
        .collect();
    (!slowed.is_empty()).then(|| {
        Issue::new(
            Severity::Warning,
            "run.slowed_by_capture",
            format!(
                "in the pass that was recorded {} as long as without: shares of time, and what changes would gain, are of that pass",
                slowed.join(" and ")
            ),
        )
        .with_hint("run it again on a quiet machine, or record less of it")
    })
}
