//! Processes of one trace that each have devices of their own: ranks or programs whose traces were merged into one file.

use std::collections::{BTreeMap, BTreeSet};

use llmprof_record::trace::{ThreadId, Trace};

use crate::labels::is_annotation;
use crate::thresholds::DEVICE_OWNER_MIN_SHARE;
use crate::timeline::device_events::DeviceEvents;
use crate::timeline::launches::EventCalls;
use crate::timeline::slices;

/// What tells processes apart: the id, and the text that a tool wrote in its place.
pub(super) type Process = (i64, u32);

/// The processes of a trace by the devices that they launch on.
pub(crate) enum TraceProcesses {
    /// All ranges are of the process that launches, or nothing says which process launches.
    One,
    /// Each device belongs to one process; the one with most device time first.
    Apart(Vec<ProcessPart>),
    /// Processes launch on one device: no range and no step says what the device does. What each did on the host.
    OnOneDevice(Vec<Trace>),
}

/// A process with its devices.
pub(crate) struct ProcessPart {
    pub(crate) devices: Vec<u32>,
    /// What the process and its devices did.
    pub(crate) trace: Trace,
}

impl TraceProcesses {
    pub(crate) fn of_trace(trace: &Trace, events: &DeviceEvents, calls: &EventCalls) -> Self {
        let annotated = annotated_processes(trace);
        let launched = launched_times(trace, events, calls);
        let launching: BTreeSet<Process> = launched
            .values()
            .flat_map(BTreeMap::keys)
            .copied()
            .collect();
        let has_others = annotated.iter().any(|process| !launching.contains(process));
        if slices::recorded_slices(trace).is_some()
            || launching.is_empty()
            || launching.len() == 1 && !has_others
        {
            return Self::One;
        }
        let mut owned: BTreeMap<Process, (i128, Vec<u32>)> = BTreeMap::new();
        for (device, times) in launched {
            let all: i128 = times.values().sum();
            let Some((&owner, &most)) = times.iter().max_by_key(|(_, time)| **time) else {
                continue;
            };
            if (most as f64) < DEVICE_OWNER_MIN_SHARE * all as f64 {
                let of_host = |process: &Process| {
                    trace.part(|thread| process_of(trace, thread) == *process, |_| false)
                };
                return Self::OnOneDevice(times.keys().map(of_host).collect());
            }
            let (time, devices) = owned.entry(owner).or_default();
            *time += all;
            devices.push(device);
        }
        let mut owned: Vec<_> = owned.into_iter().collect();
        owned.sort_by_key(|(_, (time, _))| std::cmp::Reverse(*time));
        let parts = owned
            .into_iter()
            .map(|(process, (_, devices))| ProcessPart {
                trace: trace.part(
                    |thread| process_of(trace, thread) == process,
                    |device| devices.contains(&device),
                ),
                devices,
            });
        Self::Apart(parts.collect())
    }
}

/// Device time by device and by the process that launched it.
fn launched_times(
    trace: &Trace,
    events: &DeviceEvents,
    calls: &EventCalls,
) -> BTreeMap<u32, BTreeMap<Process, i128>> {
    let mut launched: BTreeMap<u32, BTreeMap<Process, i128>> = BTreeMap::new();
    for (index, event) in events.all().iter().enumerate() {
        if let Some(call) = calls.call(index) {
            let process = process_of(trace, trace.hosts.thread[call as usize]);
            let times = launched.entry(event.device).or_default();
            *times.entry(process).or_default() += i128::from(event.duration());
        }
    }
    launched
}

fn annotated_processes(trace: &Trace) -> BTreeSet<Process> {
    let ranges = &trace.ranges;
    let rows = (0..ranges.len()).filter(|&row| is_annotation(ranges.kind[row]));
    let threads: BTreeSet<ThreadId> = rows.map(|row| ranges.thread[row]).collect();
    let threads = threads.into_iter();
    threads.map(|thread| process_of(trace, thread)).collect()
}

pub(super) fn process_of(trace: &Trace, thread: ThreadId) -> Process {
    let row = thread.0 as usize;
    let threads = &trace.threads;
    if row < threads.len() {
        (threads.process[row], threads.process_label[row].0)
    } else {
        Process::default()
    }
}
