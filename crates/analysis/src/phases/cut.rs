//! Steps of which a part was not recorded: launches without their kernels, and a last range that goes on after everything else.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::trace::{StrId, ThreadId, Trace};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{PhaseSource, Phases, TraceWindow};
use crate::thresholds::{CUT_LAUNCHES_MIN_PART, CUT_SILENCE_MIN_NS, CUT_SILENCE_MIN_PART};
use crate::timeline::device_events::DeviceEvents;
use crate::timeline::launches::{ApiKind, is_api};

/// Ends the last window with the last event, where nothing was recorded in a part of it, the window of its name before it has no such
/// part, and no range or mark shows that the recording went on after it: the file may have been cut while the range was open.
pub(super) fn clip_last_window(
    phases: &mut Phases,
    trace: &Trace,
    events: &DeviceEvents,
) -> Option<Issue> {
    let last_end = slices(trace, events).map(|slice| slice.1).max()?;
    // PyTorch's profiler opens a step after the last one.
    while phases.windows.len() > 1
        && phases
            .windows
            .last()
            .is_some_and(|one| one.start >= last_end)
    {
        phases.windows.pop();
    }
    let (window, before) = phases.windows.split_last_mut()?;
    let (start, end) = (window.start, window.end);
    let silence = end.saturating_sub(last_end);
    let goes_on = || trace.ranges.start.iter().any(|&begin| begin >= end);
    if last_end <= start || !is_silent(window, last_end) || goes_on() {
        return None;
    }
    let ends_silent = |one: &TraceWindow| {
        let is_inside = |slice: &(i64, i64)| (one.start..one.end).contains(&slice.0);
        let ends = slices(trace, events).filter(is_inside).map(|slice| slice.1);
        is_silent(one, ends.max().unwrap_or(one.start))
    };
    let mut alike = before.iter().rev();
    let alike = alike.find(|one| one.name == window.name);
    if alike.is_some_and(ends_silent) {
        return None;
    }
    window.end = last_end;
    window.is_whole = false;
    let phase = phase_name(&phases.names[window.name]);
    Some(
        Issue::warning(IssueCode::AnalysisCutRange)
            .with("phase", phase)
            .with("silence_ns", silence)
            .with("range_ns", end.saturating_sub(start)),
    )
}

/// Whether nothing is recorded in the last part of a window, after `last_end`.
fn is_silent(window: &TraceWindow, last_end: i64) -> bool {
    let silence = window.end.saturating_sub(last_end);
    silence > CUT_SILENCE_MIN_NS
        && silence.saturating_mul(CUT_SILENCE_MIN_PART) > window.end.saturating_sub(window.start)
}

/// Starts and ends of what host and devices did.
fn slices<'t>(trace: &'t Trace, events: &'t DeviceEvents) -> impl Iterator<Item = (i64, i64)> + 't {
    let hosts = trace.hosts.start.iter().zip(trace.hosts.duration.iter());
    let hosts = hosts.map(|(start, duration)| (*start, start.saturating_add(*duration)));
    hosts.chain(events.all().iter().map(|event| (event.start, event.end)))
}

fn phase_name(name: &str) -> &str {
    if name == crate::labels::STEP {
        "decode"
    } else {
        name
    }
}

/// Calls of a window that launch kernels or graphs, and those of them without a device event.
#[derive(Clone, Copy, Default)]
struct LaunchCounts {
    calls: u64,
    without: u64,
}

/// Marks windows as recorded in part whose launches have no device events. Returns one issue for each phase.
pub(super) fn mark_missing_kernels(
    phases: &mut Phases,
    trace: &Trace,
    events: &DeviceEvents,
) -> Vec<Issue> {
    let launched = count_launches(phases, trace, events);
    let mut by_name = vec![LaunchCounts::default(); phases.names.len()];
    for (window, launched) in phases.windows.iter_mut().zip(launched) {
        if CUT_LAUNCHES_MIN_PART * launched.without > launched.calls {
            window.is_whole = false;
            window.missing_kernels = launched.without;
            by_name[window.name].calls += launched.calls;
            by_name[window.name].without += launched.without;
        }
    }
    let is_whole = phases.source == PhaseSource::Whole;
    let cut = phases.names.iter().zip(by_name);
    cut.filter(|(_, launched)| launched.without > 0)
        .map(|(name, launched)| {
            let issue = Issue::warning(IssueCode::AnalysisCutSteps)
                .with("without", launched.without)
                .with("launches", launched.calls);
            if is_whole {
                issue
            } else {
                issue.with("phase", phase_name(name))
            }
        })
        .collect()
}

fn count_launches(phases: &Phases, trace: &Trace, events: &DeviceEvents) -> Vec<LaunchCounts> {
    let ran = events.all().iter().map(|event| event.correlation);
    let ran: FxHashSet<u32> = ran.collect();
    let hosts = &trace.hosts;
    let mut counts = vec![LaunchCounts::default(); phases.windows.len()];
    let mut kinds: FxHashMap<StrId, CallRole> = FxHashMap::default();
    // Windows of launches that did not run, since the last one of the thread that did.
    let mut silent: (Option<ThreadId>, Vec<usize>) = (None, Vec::new());
    for row in 0..hosts.len() {
        if !is_api(hosts.kind[row]) {
            continue;
        }
        let name = hosts.name[row];
        let call = *kinds
            .entry(name)
            .or_insert_with(|| CallRole::from_name(trace.text(name)));
        let is_launch = matches!(call, CallRole::Launch) && hosts.correlation[row] != 0;
        let has_run = is_launch && ran.contains(&hosts.correlation[row]);
        if has_run || silent.0 != Some(hosts.thread[row]) {
            silent.0 = Some(hosts.thread[row]);
            for window in silent.1.drain(..) {
                counts[window].calls += 1;
                counts[window].without += 1;
            }
        }
        let window = || phases.at_launch(hosts.start[row]);
        match call {
            // What is captured does not run. Not every recorder keeps the call that begins a capture.
            CallRole::EndsCapture => silent.1.clear(),
            CallRole::Launch if has_run => {
                if let Some(window) = window() {
                    counts[window].calls += 1;
                }
            }
            CallRole::Launch if is_launch => silent.1.extend(window()),
            CallRole::Launch | CallRole::Other => {}
        }
    }
    for window in silent.1 {
        counts[window].calls += 1;
        counts[window].without += 1;
    }
    counts
}

#[derive(Clone, Copy)]
enum CallRole {
    Launch,
    EndsCapture,
    Other,
}

impl CallRole {
    fn from_name(name: &str) -> Self {
        if name.contains("EndCapture") {
            Self::EndsCapture
        } else if ApiKind::from_function(name) == ApiKind::Launch && !name.contains("HostFunc") {
            Self::Launch
        } else {
            Self::Other
        }
    }
}
