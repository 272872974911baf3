//! What was lost or is doubtful in a trace.

use llmprof_record::issue::{Issue, Severity};
use llmprof_record::trace::Trace;
use llmprof_units::Nanos;

use crate::attribution::kernels::KernelRow;
use crate::attribution::operators::OperatorRow;
use crate::attribution::{kernels, operators};
use crate::timeline::device_events::{DeviceEvent, DeviceEvents};
use crate::timeline::launches::Launches;

/// What gives more slices.
pub const MORE_SLICES: &str = "let it run longer (a run: more infer.max_new_tokens), allow a larger share (pipeline.cupti.overhead, --overhead), or set \
                               none, which records everything";

/// Device events that began before the call that launched them: the clocks of host and device disagree.
pub(crate) fn before_launch(
    trace: &Trace,
    events: &DeviceEvents,
    launches: &Launches,
) -> Option<Issue> {
    let ahead = |event: &DeviceEvent| {
        let call = launches.call(event)? as usize;
        let ahead = trace.hosts.start[call].saturating_sub(event.start);
        (ahead > 0).then_some((ahead, event.start))
    };
    let (mut count, mut worst) = (0, (0, 0));
    for found in events.all().iter().filter_map(ahead) {
        count += 1;
        worst = found.max(worst);
    }
    (count > 0).then(|| {
        let (ahead, start) = worst;
        Issue::new(
            Severity::Warning,
            "analysis.before_launch",
            format!(
                "device events began before the call that launched them, one at {start} ns by {}: launch delays and idle causes \
                 are off by as much",
                Nanos(ahead)
            ),
        )
        .counting(count)
    })
}

/// Slices that are too few to be scaled.
pub(crate) fn few_slices() -> Issue {
    Issue::new(
        Severity::Warning,
        "slices.few",
        "too few slices or whole steps were recorded to say anything about the rest",
    )
    .with_hint(MORE_SLICES)
}

pub(crate) fn issues(
    trace: &Trace,
    events: &DeviceEvents,
    kernels: &[KernelRow],
    operators: &[OperatorRow],
) -> Vec<Issue> {
    let mut issues = trace.issues.clone();
    if events.all().is_empty() {
        issues.push(
            Issue::new(
                Severity::Warning,
                "analysis.no_device_events",
                "the trace has no kernels, copies or memsets: nothing can be said about a device",
            )
            .with_hint("record with device activities switched on"),
        );
    }
    if kernels
        .last()
        .is_some_and(|row| row.name == kernels::OTHER_ROW)
    {
        issues.push(Issue::new(
            Severity::Info,
            "analysis.kernels_folded",
            format!(
                "kernels beyond the {} with the longest time are summed up in one row",
                kernels::MOST_ROWS
            ),
        ));
    }
    if operators
        .last()
        .is_some_and(|row| row.name == operators::OTHER_ROW)
    {
        issues.push(Issue::new(
            Severity::Info,
            "analysis.operators_folded",
            format!(
                "operators beyond the {} with the longest time are summed up in one row",
                operators::MOST_ROWS
            ),
        ));
    }
    if events.unclassified() > 0 {
        issues.push(
            Issue::new(
                Severity::Warning,
                "analysis.too_many_names",
                format!(
                    "kernel names beyond the first {} were not looked at",
                    DeviceEvents::MOST_NAMES
                ),
            )
            .counting(events.unclassified()),
        );
    }
    issues
}
