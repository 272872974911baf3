//! Steps, and sequences of kernel launches that repeat.

use llmprof_units::Count;

use crate::analyzed::{Analysis, PhaseSource, StepPattern, StepPatterns, ValueDistribution};
use crate::text::time;

pub(crate) fn step_patterns(analysis: &Analysis) -> Option<&StepPatterns> {
    analysis.timeline.as_ref()?.steps.as_ref()
}

/// Whether launch patterns are all that divides the trace: ranges, shapes and modules, where there are any, come first.
pub fn by_pattern(analysis: &Analysis) -> bool {
    let timeline = analysis.timeline.as_deref();
    let is_by_pattern = timeline.is_some_and(|timeline| {
        matches!(
            timeline.phase_source,
            PhaseSource::Inferred | PhaseSource::Whole
        )
    });
    is_by_pattern
        && step_patterns(analysis).is_some_and(|patterns| patterns.patterns.iter().any(is_told))
}

/// A kernel that is launched often is no sequence of launches.
pub fn is_told(pattern: &StepPattern) -> bool {
    pattern.kernels >= MIN_REPETITION_KERNELS
}

/// Kernels of a repetition that is worth naming.
const MIN_REPETITION_KERNELS: u64 = 2;

/// `160 × 1006 kernels, each 15.0 ms (p90 15.9 ms) with 2.07 ms kernel time`: both are medians.
pub fn pattern(pattern: &StepPattern) -> String {
    // Analyses of earlier versions have the mean only.
    let kernel_time = match pattern.usual_kernel_time_ns {
        usual if usual > 0.0 => usual,
        _ => pattern.kernel_time_ns.mean,
    };
    let p90 = percentile(&pattern.wall_ns, 90).map(|p90| format!(" (p90 {p90})"));
    format!(
        "{} × {}, each {}{} with {} kernel time",
        pattern.steps,
        Count(pattern.kernels, "kernel"),
        time(pattern.wall_ns.p50),
        p90.unwrap_or_default(),
        time(kernel_time),
    )
}

/// A percentile of a distribution; nothing of fewer values than it takes.
pub(crate) fn percentile(values: &ValueDistribution, percent: u8) -> Option<String> {
    let value = match percent {
        50 => values.p50,
        90 => values.p90,
        _ => values.p99,
    };
    has_percentile(values.count, percent).then(|| time(value))
}

/// Whether a percentile of so many values is more than one of the largest: three for the middle, ten for p90, a hundred for p99.
pub fn has_percentile(values: u64, percent: u8) -> bool {
    values
        >= match percent {
            50 => 3,
            90 => 10,
            _ => 100,
        }
}

/// What showed the steps of phases.
pub fn source(source: PhaseSource) -> &'static str {
    match source {
        PhaseSource::Shapes => {
            "Steps of the profiled pass, by the forward passes that operator shapes show:"
        }
        PhaseSource::OptimizerSteps => {
            "Steps of the profiled pass, each up to the end of an `Optimizer.step`:"
        }
        PhaseSource::Modules => "Calls of the outermost `nn.Module`s:",
        PhaseSource::Inferred => "Sequences of launches that repeat:",
        PhaseSource::Annotation | PhaseSource::Whole => "Steps of the profiled pass, by ranges:",
    }
}

/// How repetitions were found and what the columns mean.
pub fn basis(steps: &StepPatterns) -> String {
    let unlike = match steps.unlike {
        0 => String::new(),
        1 => " One interval between them matches no pattern and is left out.".to_owned(),
        count => format!(" {count} intervals between them match no pattern and are left out."),
    };
    format!(
        "Sequences of kernel launches that repeat. Nothing in the trace says what a repetition is. Equal counts repetitions whose \
         sequence is identical. Wall time is from the first kernel of a repetition to that of the next; GPU idle is that of the median \
         repetition.{unlike}"
    )
}

#[cfg(test)]
mod tests {
    use llmprof_analysis::stats::RepeatSummary;

    use super::*;

    /// Three passes of a prompt take longer than hundreds of others together.
    #[test]
    fn kernel_time_is_of_the_repetition_whose_period_is_stated() {
        let values = |usual: f64| [vec![usual; 20], vec![1000.0 * usual; 3]].concat();
        let (walls, times) = (values(46_000.0), values(44_000.0));
        let repeated = StepPattern {
            name: String::new(),
            launched_by: String::new(),
            steps: 23,
            equal: 23,
            kernels: 4,
            launches: 4,
            wall_ns: ValueDistribution::from_values(&walls).unwrap(),
            wall_deviation_ns: 0.0,
            kernel_time_ns: RepeatSummary::from_values(&times).unwrap(),
            usual_kernel_time_ns: ValueDistribution::from_values(&times).unwrap().p50,
            idle_share: 0.0,
            start_ns: Vec::new(),
            step_ns: Vec::new(),
        };
        let told = pattern(&repeated);
        assert!(told.ends_with("with 44 µs kernel time"), "{told}");
    }

    #[test]
    fn percentiles_need_enough_values() {
        let of = |count: usize| ValueDistribution::from_values(&vec![1e6; count]).unwrap();
        assert_eq!(percentile(&of(2), 50), None);
        assert_eq!(percentile(&of(9), 90), None);
        assert_eq!(percentile(&of(10), 90).as_deref(), Some("1 ms"));
        assert_eq!(percentile(&of(99), 99), None);
    }
}
