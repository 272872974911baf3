//! When device events were launched, as far as a trace tells.

use llmprof_record::trace::{HostKind, Trace};
use rustc_hash::FxHashMap;

use crate::thresholds::{EARLY_EVENTS_MIN_PART, LAUNCH_MAX_NS};
use crate::timeline::device_events::{DeviceEvent, DeviceEvents};
use crate::timeline::launches::EventCalls;

/// For every device event the time of the host at which it was launched.
pub(crate) struct EventLaunchTimes {
    times: Vec<i64>,
    /// Whether they are known of most events. Where they are, an event without one was launched before the recording began; where
    /// they are not, the trace has none.
    pub(crate) are_known: bool,
    /// Whether the clocks of host and device disagree: more than one of a hundred events began before the call that launched
    /// it, by more than a launch takes. Idle time then has no causes.
    pub(crate) clocks_disagree: bool,
}

impl EventLaunchTimes {
    const NONE: i64 = i64::MIN;

    /// By the calls that launched the events; in a trace without such calls, by the operators whose ids the events carry.
    pub(crate) fn from_events(trace: &Trace, events: &DeviceEvents, calls: &EventCalls) -> Self {
        let all = events.all();
        let called = |index| calls.call(index).map(|row| trace.hosts.start[row as usize]);
        let times = (0..all.len()).map(|index| called(index).unwrap_or(Self::NONE));
        let mut by_calls = Self::new(times.collect());
        let is_early = |(event, time): &(&DeviceEvent, &i64)| {
            **time != Self::NONE && time.saturating_sub(event.start) > LAUNCH_MAX_NS
        };
        let early = all.iter().zip(&by_calls.times).filter(is_early).count();
        by_calls.clocks_disagree = EARLY_EVENTS_MIN_PART * early > all.len();
        if by_calls.are_known {
            return by_calls;
        }
        let operators = operator_starts(trace);
        let times = all.iter().zip(by_calls.times).map(|(event, time)| {
            let operator = operators.get(&event.external).copied();
            if time == Self::NONE {
                operator.unwrap_or(Self::NONE)
            } else {
                time
            }
        });
        Self::new(times.collect())
    }

    fn new(times: Vec<i64>) -> Self {
        let known = times.iter().filter(|&&time| time != Self::NONE).count();
        Self {
            are_known: 2 * known >= times.len(),
            clocks_disagree: false,
            times,
        }
    }

    /// When event `index` was launched; `None` where that was not recorded.
    pub(crate) fn get(&self, index: usize) -> Option<i64> {
        Some(self.times[index]).filter(|&time| time != Self::NONE)
    }

    /// When event `index` was launched, or began where the trace has no launches; `None` where it was launched before the
    /// recording.
    pub(crate) fn or_start(&self, index: usize, start: i64) -> Option<i64> {
        let start = Some(start).filter(|_| !self.are_known);
        self.get(index).or(start)
    }
}

fn operator_starts(trace: &Trace) -> FxHashMap<u64, i64> {
    let hosts = &trace.hosts;
    let mut starts = FxHashMap::default();
    for row in 0..hosts.len() {
        if hosts.kind[row] == HostKind::OPERATOR && hosts.external[row] != 0 {
            starts
                .entry(hosts.external[row])
                .or_insert(hosts.start[row]);
        }
    }
    starts
}
