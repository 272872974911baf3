//! What the forward passes of a phase were given, as shapes of operators or labels of an engine show it.

use llmprof_theory::Step;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::phase_analysis::PhaseAnalysis;
use crate::trace::Structure;

/// Means over the passes of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct MeanPass {
    /// Mean number of sequences in a pass.
    pub sequences: f64,
    /// Tokens of a sequence after the pass, cached and new; null where the trace does not show how many are cached. A program without a
    /// KV cache computes all of them again, and still serves the same request.
    pub tokens: Option<f64>,
}

impl MeanPass {
    /// Means over the passes in the judged intervals of a phase; `None` if the trace shows no passes.
    pub(super) fn from_phase(phase: &PhaseAnalysis, structure: &Structure) -> Option<Self> {
        let phases = &structure.phases;
        let instances = &phase.traced.as_ref()?.instances;
        let mut steps: Vec<Step> = Vec::new();
        for instance in instances.iter().filter(|instance| !instance.left_out) {
            let start = instance.start_ns.0;
            let end = start.saturating_add(instance.wall_ns.0.max(1));
            let starts_inside = |number: &usize| {
                let window = &phases.windows[*number];
                let is_of_device = window
                    .device
                    .is_none_or(|device| Some(device) == phase.device());
                (start..end).contains(&window.start) && is_of_device
            };
            for number in (0..phases.windows.len()).filter(starts_inside) {
                if let Some(step) = phases.windows[number].step_index() {
                    steps.push(phases.steps[step].clone());
                } else if let Some(shown) = &structure.shown {
                    let (first, last) = phases.host_window(number);
                    let passes = shown.begun_within(first, last).iter();
                    let passes = passes.filter(|pass| !pass.is_encoder);
                    steps.extend(passes.map(|pass| Step::of_sequences([pass.sequences()])));
                }
            }
        }
        Self::from_steps(&steps)
    }

    fn from_steps(steps: &[Step]) -> Option<Self> {
        let sequences: f64 = steps.iter().map(|step| step.sequences() as f64).sum();
        if sequences == 0.0 {
            return None;
        }
        let tokens = |step: &Step| Some(step.cached_tokens()? as f64 + step.new_tokens() as f64);
        let tokens: Option<f64> = steps.iter().map(tokens).sum();
        Some(Self {
            sequences: sequences / steps.len() as f64,
            tokens: tokens.map(|tokens| tokens / sequences),
        })
    }
}

#[cfg(test)]
mod tests {
    use llmprof_theory::Sequences;

    use super::*;

    fn step(count: u64, new: u64, cached: u64) -> Step {
        Step::of_sequences([Sequences { count, new, cached }])
    }

    #[test]
    fn a_program_without_a_cache_reaches_the_same_tokens() {
        let cached = MeanPass::from_steps(&[step(4, 1, 512), step(4, 1, 513)]);
        let computed_again = MeanPass::from_steps(&[step(4, 513, 0), step(4, 514, 0)]);
        assert_eq!(cached, computed_again);
        let shape = cached.unwrap();
        assert_eq!((shape.sequences, shape.tokens), (4.0, Some(513.5)));
        assert_eq!(MeanPass::from_steps(&[]), None);
    }
}
