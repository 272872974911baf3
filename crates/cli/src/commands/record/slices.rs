//! What slices say of the whole: a file, and a few lines.

use llmprof_analysis::{Scaled, scaled, scaled::Estimate};
use llmprof_record::{
    issue::{Issue, Severity},
    store::RunDir,
    trace::Trace,
};
use llmprof_units::Nanos;

use crate::{commands::profile::TRACE_FILE, failure::Failure};

/// The file in a run.
const FILE: &str = "slices.json";
/// Kernels that are named on the terminal.
const MOST_KERNELS: usize = 3;

/// Scales the trace of a run and writes that down; an issue where there are too few slices to do so.
pub(super) fn keep(store: &mut RunDir) -> Result<Option<Scaled>, Failure> {
    let trace = Trace::load(&store.path().join(TRACE_FILE))
        .map_err(|error| Failure::new(error.to_string()))?;
    let Some(scaled) = scaled(&trace) else {
        store.add_issue(
            Issue::new(
                Severity::Warning,
                "record.few_slices",
                "too few slices or whole steps were recorded to say anything about the rest",
            )
            .with_hint("let the command run longer, or allow a larger --overhead"),
        )?;
        return Ok(None);
    };
    let text = serde_json::to_string_pretty(&scaled)
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
    store.write(FILE, text + "\n")?;
    Ok(Some(scaled))
}

/// For people.
pub(super) fn lines(scaled: &Scaled) -> Vec<String> {
    let share = 100.0 * scaled.recorded_ns as f64 / scaled.whole_ns.max(1) as f64;
    let (basis, whole) = match (&scaled.step, &scaled.pattern) {
        (Some(step), _) => (
            format!(
                "{} of {} ranges `{step}` were recorded whole",
                scaled.sampled, scaled.units
            ),
            format!("all `{step}`"),
        ),
        (None, Some(found)) => (
            format!(
                "{} of about {:.0} steps ({:.0} to {:.0}) were recorded whole, by the pattern of launches",
                scaled.sampled, found.steps.value, found.steps.low, found.steps.high
            ),
            "all steps".to_owned(),
        ),
        (None, None) => (
            format!("{} slices, scaled by time", scaled.sampled),
            "the whole time".to_owned(),
        ),
    };
    let mut lines = vec![
        format!("recorded {share:.1} % of the time: {basis}"),
        format!(
            "over {whole}: {:.0} kernels ({:.0} to {:.0}), kernel time {} (95 % interval)",
            scaled.kernels.value,
            scaled.kernels.low,
            scaled.kernels.high,
            time(&scaled.kernel_time_ns)
        ),
    ];
    if let Some(found) = &scaled.pattern {
        lines.push(format!(
            "a step: {:.1} kernels ({:.1} to {:.1}), kernel time {}",
            found.kernels.value,
            found.kernels.low,
            found.kernels.high,
            time(&found.kernel_time_ns)
        ));
    }
    for kernel in scaled.by_kernel.iter().take(MOST_KERNELS) {
        let name: String = kernel.name.chars().take(72).collect();
        lines.push(format!("  {}  {name}", time(&kernel.time_ns)));
    }
    lines
}

fn time(estimate: &Estimate) -> String {
    let nanos = |value: f64| Nanos(value as i64);
    format!(
        "{} ({} to {})",
        nanos(estimate.value),
        nanos(estimate.low),
        nanos(estimate.high)
    )
}
