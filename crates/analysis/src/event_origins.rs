//! What is known of single events: the call, operator and modules behind each device event, and every idle gap with its causes.

use llmprof_record::trace::Trace;

use crate::attribution::{Attribution, PathId};
use crate::timeline::device_events::{DeviceEvents, EventTable};
use crate::timeline::idle::{Gap, HostActivity, IdleCauses, IdleSums};
use crate::timeline::launch_times::EventLaunchTimes;
use crate::timeline::launches::{EventCalls, Launches};
use crate::timeline::nesting::Nesting;

/// The rows of [`Trace::hosts`] behind a device event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventOrigin {
    /// The API call that launched it.
    pub call: Option<u32>,
    /// The operator that asked for it.
    pub operator: Option<u32>,
    modules: PathId,
    ranges: PathId,
}

impl EventOrigin {
    /// Equal for events of one trace that were launched inside the same modules.
    pub fn modules_key(self) -> impl Copy + Eq + std::hash::Hash + use<> {
        self.modules
    }
}

/// Time in which a device ran nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleGap {
    pub device: u32,
    pub start_ns: i64,
    pub end_ns: i64,
    /// They sum to the length of the gap.
    pub causes: IdleCauses,
}

/// Origins of all device events of a trace, and all idle gaps between them.
pub struct EventOrigins {
    attribution: Attribution,
    /// For each row of the kernels, copies and memsets, its number in `attribution`.
    numbers: [Vec<u32>; 3],
    gaps: Vec<IdleGap>,
}

impl EventOrigins {
    pub fn of(trace: &Trace) -> Self {
        let (events, nesting) = rayon::join(
            || DeviceEvents::from_trace(trace),
            || Nesting::from_trace(trace),
        );
        let calls = EventCalls::from_launches(&events, &Launches::from_trace(trace));
        let clocks_disagree = EventLaunchTimes::from_events(trace, &events, &calls).clocks_disagree;
        let activity = HostActivity::from_trace(trace, &nesting, &calls, !clocks_disagree);
        let (gaps, attribution) = rayon::join(
            || idle_gaps(&events, &activity),
            || Attribution::from_trace(trace, &events, &calls, &nesting),
        );
        let mut numbers = [
            vec![0; trace.kernels.len()],
            vec![0; trace.copies.len()],
            vec![0; trace.memsets.len()],
        ];
        for (number, event) in events.all().iter().enumerate() {
            numbers[event.table as usize][event.row as usize] = number as u32;
        }
        Self {
            attribution,
            numbers,
            gaps,
        }
    }

    pub fn of_kernel(&self, row: usize) -> EventOrigin {
        self.origin(EventTable::Kernels, row)
    }

    pub fn of_copy(&self, row: usize) -> EventOrigin {
        self.origin(EventTable::Copies, row)
    }

    pub fn of_memset(&self, row: usize) -> EventOrigin {
        self.origin(EventTable::Memsets, row)
    }

    fn origin(&self, table: EventTable, row: usize) -> EventOrigin {
        let number = self.numbers[table as usize][row] as usize;
        EventOrigin {
            call: self.attribution.call(number),
            operator: self.attribution.operator(number),
            modules: self.attribution.modules(number),
            ranges: self.attribution.ranges(number),
        }
    }

    /// The modules around the launch, outermost first.
    pub fn modules(&self, trace: &Trace, origin: EventOrigin) -> Option<String> {
        self.attribution.text(trace, origin.modules)
    }

    /// The annotations around the launch, outermost first.
    pub fn ranges(&self, trace: &Trace, origin: EventOrigin) -> Option<String> {
        self.attribution.text(trace, origin.ranges)
    }

    /// By device, then start.
    pub fn gaps(&self) -> &[IdleGap] {
        &self.gaps
    }
}

fn idle_gaps(events: &DeviceEvents, activity: &HostActivity<'_>) -> Vec<IdleGap> {
    let mut first = 0;
    let mut gaps = Vec::new();
    for events in events.devices() {
        let mut busy_until = events[0].end;
        for (number, event) in events.iter().enumerate().skip(1) {
            if event.start > busy_until {
                let gap = Gap {
                    start: busy_until,
                    end: event.start,
                    next: Some((first + number, event.start)),
                    before: Some(first + number - 1),
                };
                let mut sums = IdleSums::default();
                activity.split(&gap, &mut sums);
                gaps.push(IdleGap {
                    device: event.device,
                    start_ns: gap.start,
                    end_ns: gap.end,
                    causes: sums.causes,
                });
            }
            busy_until = busy_until.max(event.end);
        }
        first += events.len();
    }
    gaps
}
