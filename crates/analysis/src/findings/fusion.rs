//! Many small kernels around the GEMMs: what fusing them would give.

use llmprof_units::{Basis, Nanos};

use crate::evidence::{Evidence, Measure};
use crate::findings::conclusion::{Conclusion, Derivation};
use crate::findings::finding::{Confidence, Finding};
use crate::findings::{FindingFacts, hidden_by_the_host};
use crate::phase_analysis::PhaseAnalysis;
use crate::thresholds::FINDING_MIN_SHARE;
use crate::waterfall::idle_parts::QUEUED_GAP;

impl FindingFacts<'_> {
    /// Kernels beside GEMMs and attention, with the gaps after them.
    pub(crate) fn fusion_finding(&self, phase: &PhaseAnalysis) -> Option<Finding> {
        let traced = phase.traced.as_ref()?;
        let glue = traced.glue.filter(|glue| glue.kernels > 0)?;
        if hidden_by_the_host(phase) {
            return None;
        }
        let wall = phase.judged_wall();
        let of_all = glue.kernels as f64 / traced.kernels.max(1) as f64;
        let queued = phase.judged_idle().seconds() * phase.idle_part(&[QUEUED_GAP]);
        let gaps = Nanos::from_seconds(queued * of_all);
        // What runs beside other work hides a part of what it costs.
        let waterfall = &phase.waterfall;
        let visible = waterfall.busy_ns.0 as f64 / waterfall.sum_ns.0.max(1) as f64;
        let time = Nanos::from_seconds(glue.time_ns.seconds() * visible.min(1.0));
        let saved = Nanos(time.0.saturating_add(gaps.0));
        if phase.judged_share(saved) < FINDING_MIN_SHARE {
            return None;
        }
        let gain = self
            .gain_of_saving(
                phase,
                saved.seconds(),
                Derivation::Fused {
                    wall_ns: wall,
                    kernels_ns: time,
                    gaps_ns: gaps,
                },
            )?
            .at_most();
        let steps = traced.step_ns.len().max(1) as u64;
        let conclusion = Conclusion::Fusion {
            kernels: glue.kernels / steps,
            of_kernels: traced.kernels / steps,
            per_step: !traced.step_ns.is_empty(),
            mean_ns: Nanos(glue.time_ns.0 / (glue.kernels as i64)),
            fused_share: (glue.fused > 0).then(|| glue.fused as f64 / glue.kernels as f64),
            share: phase.judged_share(saved),
            with_gaps: gaps.0 > 0,
        };
        let count =
            |what, kernels: u64| Evidence::new(what, kernels as f64, "kernels", Basis::Measured);
        let evidence = vec![
            count(Measure::Kernels, traced.kernels),
            count(Measure::GlueKernels, glue.kernels),
            Evidence::time(Measure::GlueTime, glue.time_ns, Basis::Measured),
            Evidence::time(Measure::GlueGapTime, gaps, Basis::Derived),
        ];
        let finding = Finding::of_phase(phase, conclusion).with_evidence(evidence);
        Some(finding.with_gain(gain, Confidence::Low))
    }
}
