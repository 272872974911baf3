//! What was dropped or is doubtful in a trace.

use llmprof_record::issue::Issue;
use llmprof_record::trace::Trace;

use crate::attribution::kernels::KernelRow;
use crate::attribution::operators::OperatorRow;
use crate::attribution::{kernels, operators};
use crate::timeline::autotune;
use crate::timeline::device_events::{DeviceEvent, DeviceEvents};
use crate::timeline::launches::Launches;

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
        Issue::warning("analysis.before_launch")
            .with("ahead_ns", ahead)
            .with("start_ns", start)
            .counting(count)
    })
}

/// Slices that are too few to be scaled.
pub(crate) fn few_slices() -> Issue {
    Issue::warning("slices.few")
}

/// Issues of files whose end is missing.
const CUT: [&str; 2] = ["kineto.truncated", "source.packing_damaged"];

pub(crate) fn issues(
    trace: &Trace,
    events: &DeviceEvents,
    kernels: &[KernelRow],
    operators: &[OperatorRow],
) -> Vec<Issue> {
    let mut issues = trace.issues.clone();
    issues.extend(autotune::issue(trace));
    if events.all().is_empty() {
        issues.push(Issue::warning("analysis.no_device_events"));
    } else if trace
        .issues
        .iter()
        .any(|issue| CUT.contains(&issue.code.as_str()))
    {
        issues.push(Issue::warning("analysis.events_missing"));
    }
    if kernels
        .last()
        .is_some_and(|row| row.name == kernels::OTHER_ROW)
    {
        let folded = Issue::info("analysis.kernels_folded");
        issues.push(folded.with("rows", kernels::MOST_ROWS));
    }
    if operators
        .last()
        .is_some_and(|row| row.name == operators::OTHER_ROW)
    {
        let folded = Issue::info("analysis.operators_folded");
        issues.push(folded.with("rows", operators::MOST_ROWS));
    }
    if events.unclassified() > 0 {
        issues.push(
            Issue::warning("analysis.too_many_names")
                .with("names", DeviceEvents::MOST_NAMES)
                .counting(events.unclassified()),
        );
    }
    issues
}
