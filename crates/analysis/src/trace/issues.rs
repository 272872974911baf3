//! Issues of a trace: what was dropped or is doubtful.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::run::is_graph_capture;
use llmprof_record::trace::Trace;
use rustc_hash::FxHashSet;

use crate::attribution::kernels::KernelRow;
use crate::attribution::operators::{OperatorRow, ShapeRow};
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
    for event_ahead in events.all().iter().filter_map(ahead) {
        count += 1;
        worst = event_ahead.max(worst);
    }
    (count > 0).then(|| {
        let (ahead, start) = worst;
        Issue::warning(IssueCode::AnalysisBeforeLaunch)
            .with("ahead_ns", ahead)
            .with("start_ns", start)
            .counting(count)
    })
}

/// The issue that events are in the file more than once: a stream cannot run one event twice at one moment. Up to one of a hundred may
/// be chance.
fn repeated_events(events: &DeviceEvents) -> Option<Issue> {
    let mut seen = FxHashSet::default();
    let all = events.all();
    let again = all.iter().filter(|event| {
        let own = (event.device, event.stream, event.correlation);
        !seen.insert((own, event.start, event.end, event.name))
    });
    let again = again.count();
    (100 * again > all.len()).then(|| {
        let issue = Issue::warning(IssueCode::AnalysisEventsTwice).with("of", all.len());
        issue.counting(again as u64)
    })
}

/// Shapes of GEMMs that were faster than the device can be: the format or the work is another one.
fn above_roofline(operators: &[OperatorRow]) -> Option<Issue> {
    let shapes = operators.iter().flat_map(|row| &row.shapes);
    let is_above = |row: &&ShapeRow| {
        let work = row
            .work
            .filter(|work| work.roofline.is_none() && work.device_ns.0 > 0);
        let is_gemm = row.cost.is_some_and(|cost| cost.gemm.is_some());
        is_gemm && work.is_some_and(|work| work.roofline_ns.is_some())
    };
    let above = shapes.filter(is_above).count() as u64;
    (above > 0).then(|| Issue::info(IssueCode::AnalysisGemmsAboveRoofline).counting(above))
}

/// Slices that are too few to be scaled.
pub(crate) fn few_slices() -> Issue {
    Issue::warning(IssueCode::SlicesFew)
}

pub(crate) fn trace_issues(
    trace: &Trace,
    events: &DeviceEvents,
    kernels: &[KernelRow],
    operators: &[OperatorRow],
) -> Vec<Issue> {
    let mut issues = trace.issues.clone();
    issues.extend(autotune::tuning_issue(trace));
    issues.extend(repeated_events(events));
    if is_graph_capture(trace) {
        issues.push(Issue::warning(IssueCode::AnalysisGraphCapture));
    }
    if events.all().is_empty() {
        issues.push(Issue::warning(IssueCode::AnalysisNoDeviceEvents));
    } else if trace.issues.iter().any(|issue| issue.code.is_cut_file()) {
        issues.push(Issue::warning(IssueCode::AnalysisEventsMissing));
    }
    issues.extend(above_roofline(operators));
    if kernels
        .last()
        .is_some_and(|row| row.name == kernels::OTHER_ROW)
    {
        let folded = Issue::info(IssueCode::AnalysisKernelsFolded);
        issues.push(folded.with("rows", kernels::KERNEL_ROWS_MAX));
    }
    if operators
        .last()
        .is_some_and(|row| row.name == operators::OTHER_ROW)
    {
        let folded = Issue::info(IssueCode::AnalysisOperatorsFolded);
        issues.push(folded.with("rows", operators::OPERATOR_ROWS_MAX));
    }
    if events.unclassified() > 0 {
        issues.push(
            Issue::warning(IssueCode::AnalysisTooManyNames)
                .with("names", DeviceEvents::KERNEL_NAMES_MAX)
                .counting(events.unclassified()),
        );
    }
    issues
}
