//! Many small kernels around the products: what fusing them would give.

use llmprof_units::{Basis, Nanos, Percent, Times};

use crate::evidence::Evidence;
use crate::findings::finding::{Confidence, Finding};
use crate::findings::{Facts, WORTH_SAYING, hidden_by_the_host};
use crate::phase_analysis::PhaseAnalysis;
use crate::waterfall::idle_parts::QUEUED_GAP;

impl Facts<'_> {
    /// Kernels beside products and attention, with the gaps behind them.
    pub(crate) fn fusion(&self, phase: &PhaseAnalysis) -> Option<Finding> {
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
        if phase.judged_share(saved) < WORTH_SAYING {
            return None;
        }
        let gain = self.saving(
            phase,
            saved.seconds(),
            format!(
                "{wall} ÷ ({wall} − {time} of these kernels − {gaps} of gaps behind them), an upper bound: fused into their \
                 neighbours they would take no time of their own"
            ),
        )?
        .at_most();
        let steps = traced.step_ns.len().max(1) as u64;
        let each = if traced.step_ns.is_empty() {
            ""
        } else {
            " a step"
        };
        let (already, compiled) = match glue.fused {
            0 => (String::new(), ", as a compiler fuses most of them"),
            fused => (
                format!(
                    ", {} of them made of several operators by a compiler",
                    Percent(fused as f64 / glue.kernels as f64)
                ),
                " further",
            ),
        };
        Some(Finding {
            code: "fusion".to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "{}: {} of {} kernels{each} are neither GEMMs nor attention but norms, RoPE, additions and copies ({} on \
                 average{already}); with the gaps after them they take {} of the time; fused{compiled}, the phase would be up to \
                 {} faster",
                phase.name(),
                glue.kernels / steps,
                traced.kernels / steps,
                Nanos(glue.time_ns.0 / (glue.kernels as i64)),
                Percent(phase.judged_share(saved)),
                Times(gain.phase_factor?)
            ),
            evidence: vec![
                Evidence::new("kernels", traced.kernels as f64, "kernels", Basis::Measured),
                Evidence::new(
                    "of them neither GEMMs nor attention",
                    glue.kernels as f64,
                    "kernels",
                    Basis::Measured,
                ),
                Evidence::time("their time", glue.time_ns, Basis::Measured),
                Evidence::time("gaps behind them", gaps, Basis::Derived),
            ],
            gain: Some(gain),
            confidence: Confidence::Low,
            abstains: None,
        })
    }
}
