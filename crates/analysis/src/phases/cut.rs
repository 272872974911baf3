//! Steps of which the recording has launches and not their kernels: it was stopped, or its buffer was full, while they ran.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::trace::{StrId, Trace};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Phases;
use crate::thresholds::CUT_LAUNCHES_MIN_PART;
use crate::timeline::device_events::DeviceEvents;
use crate::timeline::launches::{ApiKind, is_api};

/// Calls of a window that launch kernels or graphs, and those of them without a device event.
#[derive(Clone, Copy, Default)]
struct Launched {
    calls: u64,
    without: u64,
}

/// Marks windows as recorded in part whose launches have no device events. The answer is one issue for each phase.
pub(super) fn mark(phases: &mut Phases, trace: &Trace, events: &DeviceEvents) -> Vec<Issue> {
    let launched = launches(phases, trace, events);
    let mut by_name = vec![Launched::default(); phases.names.len()];
    for (window, launched) in phases.windows.iter_mut().zip(launched) {
        if CUT_LAUNCHES_MIN_PART * launched.without > launched.calls {
            window.is_whole = false;
            by_name[window.name].calls += launched.calls;
            by_name[window.name].without += launched.without;
        }
    }
    let cut = phases.names.iter().zip(by_name);
    cut.filter(|(_, launched)| launched.without > 0)
        .map(|(name, launched)| {
            let phase = if name == crate::labels::STEP {
                "decode"
            } else {
                name
            };
            Issue::warning(IssueCode::AnalysisCutSteps)
                .with("phase", phase)
                .with("without", launched.without)
                .with("launches", launched.calls)
        })
        .collect()
}

fn launches(phases: &Phases, trace: &Trace, events: &DeviceEvents) -> Vec<Launched> {
    let ran = events.all().iter().map(|event| event.correlation);
    let ran: FxHashSet<u32> = ran.collect();
    let hosts = &trace.hosts;
    let mut found = vec![Launched::default(); phases.windows.len()];
    let mut kinds: FxHashMap<StrId, Call> = FxHashMap::default();
    let mut captures = None;
    for row in 0..hosts.len() {
        if !is_api(hosts.kind[row]) {
            continue;
        }
        let thread = hosts.thread[row];
        let name = hosts.name[row];
        let call = *kinds
            .entry(name)
            .or_insert_with(|| Call::of(trace.text(name)));
        match call {
            Call::BeginsCapture => captures = Some(thread),
            Call::EndsCapture => captures = None,
            // What is captured does not run.
            Call::Launch if captures != Some(thread) && hosts.correlation[row] != 0 => {
                if let Some(window) = phases.at_launch(hosts.start[row]) {
                    found[window].calls += 1;
                    found[window].without += u64::from(!ran.contains(&hosts.correlation[row]));
                }
            }
            Call::Launch | Call::Other => {}
        }
    }
    found
}

#[derive(Clone, Copy)]
enum Call {
    Launch,
    BeginsCapture,
    EndsCapture,
    Other,
}

impl Call {
    fn of(name: &str) -> Self {
        if name.contains("BeginCapture") {
            Self::BeginsCapture
        } else if name.contains("EndCapture") {
            Self::EndsCapture
        } else if ApiKind::of(name) == ApiKind::Launch && !name.contains("HostFunc") {
            Self::Launch
        } else {
            Self::Other
        }
    }
}
