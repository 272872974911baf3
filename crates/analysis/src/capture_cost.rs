//! What recording did to the pass that it recorded.
//!
//! There is one figure for it, [`PhaseAnalysis::capture_ratio`]: the wall time of a phase in the captured pass ÷ the mean that passes
//! without capture took for the same work, which is the same batches and, of decode, as many steps. A recording in slices may have no
//! such pass: there it is the median step inside slices ÷ the median step between them.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::Analysis;
use crate::phase_analysis::PhaseAnalysis;
use crate::thresholds::{DISTURBED_PLAIN_MAX_RATIO, OTHER_PASS_MIN_RATIO};

impl PhaseAnalysis {
    /// Whether recording, or what else the machine did meanwhile, made the pass that the phase is judged by much longer.
    /// A phase of a device is judged by its passes without capture.
    pub(crate) fn is_slowed_by_capture(&self) -> bool {
        self.device().is_none()
            && self
                .capture_ratio
                .is_some_and(|ratio| ratio >= OTHER_PASS_MIN_RATIO)
    }
}

/// What recording one phase cost.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CaptureCost {
    /// The phase.
    #[serde(skip)]
    pub phase: String,
    /// The same work unrecorded: the mean of passes without capture, or by the steps between slices.
    pub plain_ns: Nanos,
    /// Wall time in the captured pass.
    pub captured_ns: Nanos,
    /// The second ÷ the first.
    pub ratio: f64,
}

impl CaptureCost {
    /// What recording cost in each phase that also ran without; several devices share their phases.
    pub fn of(analysis: &Analysis) -> Vec<Self> {
        let mut costs: Vec<Self> = Vec::new();
        for phase in &analysis.phases {
            let name = phase.phase.name();
            if costs.iter().any(|cost| cost.phase == name) {
                continue;
            }
            if let (Some(ratio), Some(plain_ns)) = (phase.capture_ratio, phase.unrecorded_wall()) {
                costs.push(Self {
                    phase: name.to_owned(),
                    plain_ns,
                    captured_ns: phase.waterfall.wall_ns,
                    ratio,
                });
            }
        }
        costs
    }
}

/// The phases that were recorded in a pass which is not like the others.
pub(crate) fn issues<'p>(phases: impl Iterator<Item = &'p PhaseAnalysis>) -> Vec<Issue> {
    phases
        .filter_map(|phase| {
            let ratio = phase.capture_ratio?;
            // Steps between slices are no other pass: what slowed them slowed the recorded ones.
            let traced = phase.traced.as_ref();
            if traced.is_some_and(|traced| traced.between_slices.is_some()) {
                return None;
            }
            let code = if phase.is_slowed_by_capture() {
                IssueCode::RunSlowedByCapture
            } else if ratio < DISTURBED_PLAIN_MAX_RATIO {
                IssueCode::RunPlainPassSlower
            } else {
                return None;
            };
            let issue = Issue::warning(code).with("phase", phase.name());
            Some(issue.with("ratio", ratio))
        })
        .collect()
}
