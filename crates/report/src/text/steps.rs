//! Steps found by the pattern of kernel launches.

use llmprof_units::{Count, Percent};

use super::time;
use crate::analyzed::{Analysis, LayerPattern, PhaseSource, StepPattern, StepPatterns};

/// The steps and layers that launch patterns show.
pub(crate) fn of(analysis: &Analysis) -> Option<&StepPatterns> {
    analysis.timeline.as_ref()?.steps.as_ref()
}

/// Whether steps are those of launch patterns: ranges and shapes, where there are any, come first.
pub(crate) fn by_pattern(analysis: &Analysis) -> bool {
    let timeline = analysis.timeline.as_deref();
    let found = timeline.is_some_and(|timeline| {
        matches!(
            timeline.phase_source,
            PhaseSource::Inferred | PhaseSource::Whole
        )
    });
    found && of(analysis).is_some_and(|found| !found.patterns.is_empty())
}

/// `160 steps of 15.0 ms (p90 15.9 ms), 1006 kernels each, 2.07 ms kernel time per step, GPU idle 86 %`.
pub fn pattern(pattern: &StepPattern) -> String {
    format!(
        "{} of {} (p90 {}), {} each, {} kernel time per step, GPU idle {}",
        Count(pattern.steps, "step"),
        time(pattern.wall_ns.p50),
        time(pattern.wall_ns.p90),
        Count(pattern.kernels, "kernel"),
        time(pattern.kernel_time_ns.mean),
        Percent(pattern.idle_share)
    )
}

/// `24 layers in the trace, 42 kernels and 1.39 ms each`.
pub fn layers(pattern: &LayerPattern) -> String {
    format!(
        "{} in the trace, {} and {} each",
        Count(pattern.layers, "layer"),
        Count(pattern.kernels, "kernel"),
        pattern.layer_ns
    )
}

/// How layers were found and what the columns mean.
pub fn basis_of_layers(steps: &StepPatterns) -> String {
    let pass = if steps.patterns.is_empty() {
        "Too few passes repeat to find steps in the same way."
    } else {
        "The layers of all steps are counted together."
    };
    format!(
        "A layer is a sequence of kernel launches that repeats within a forward pass. {pass} Time is the median from a kernel of a \
         layer to the same kernel of the next layer."
    )
}

/// What showed the steps of phases.
pub fn source(source: PhaseSource) -> &'static str {
    match source {
        PhaseSource::Shapes => {
            "Steps of the profiled pass, by the forward passes that operator shapes show:"
        }
        PhaseSource::Inferred => "Steps of the profiled pass, by launch pattern:",
        PhaseSource::Annotation | PhaseSource::Whole => "Steps of the profiled pass, by ranges:",
    }
}

/// How steps were found and what the columns mean.
pub fn basis(steps: &StepPatterns) -> String {
    let unlike = match steps.unlike {
        0 => String::new(),
        1 => " One interval between steps matches no pattern (a single prefill, a warm-up) and is left out.".to_owned(),
        count => format!(
            " {count} intervals between steps match no pattern (a single prefill, a warm-up) and are left out."
        ),
    };
    format!(
        "No range marks the steps; they are found by their repeating sequence of kernel launches. Equal counts steps whose sequence \
         is identical. Wall time is from the first kernel of a step to that of the next; GPU idle is that of the median step.{unlike}"
    )
}
