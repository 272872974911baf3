//! Why a device had nothing to do: every gap between its events, split by cause.

use llmprof_record::trace::{HostKind, StrId, Trace};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::row_order::sort_descending_named;
use crate::thresholds::{LAUNCH_MAX_NS, LONG_GAP_MIN_NS};
use crate::timeline::data_loading::DataLoading;
use crate::timeline::intervals::{Union, add_saturating};
use crate::timeline::launches::{ApiKind, ApiKinds, EventCalls, is_api};
use crate::timeline::nesting::Nesting;

/// The idle time of a device by cause, ns. The causes sum to the idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct IdleCauses {
    /// The host was inside a call that waits for the device, before it launched what came next.
    pub host_sync_ns: Nanos,
    /// The host did something else before the launch call of what came next.
    pub host_busy_ns: Nanos,
    /// Between the beginning of the launch call and the start on the device; at most [`LAUNCH_MAX_NS`] in the call and as much after it.
    pub launch_latency_ns: Nanos,
    /// The host was inside the launch call of what came next for longer than a launch takes: it loads modules, uploads graphs,
    /// stages copies from pageable memory or waits for room in a queue.
    #[serde(default)]
    pub launch_call_ns: Nanos,
    /// What came next had been launched before the gap: the short time between two queued events.
    pub queued_gap_ns: Nanos,
    /// What came next was queued and did not start for longer than a launch takes. The trace does not show why: events of other
    /// streams, processes and devices that it waited for, work from before the recording, or clocks that disagree.
    #[serde(default)]
    pub not_started_ns: Nanos,
    /// The program waited for its DataLoader.
    #[serde(default)]
    pub data_loading_ns: Nanos,
    /// No launch is recorded for what came next, or nothing came.
    pub unknown_ns: Nanos,
}

impl IdleCauses {
    pub fn total_ns(&self) -> Nanos {
        let causes = [
            self.host_sync_ns,
            self.host_busy_ns,
            self.launch_latency_ns,
            self.launch_call_ns,
            self.queued_gap_ns,
            self.not_started_ns,
            self.data_loading_ns,
            self.unknown_ns,
        ];
        Nanos(
            causes
                .iter()
                .fold(0, |sum, time| sum.saturating_add(time.0)),
        )
    }

    pub(crate) fn add(&mut self, other: &Self) {
        add_saturating(&mut self.host_sync_ns.0, other.host_sync_ns.0);
        add_saturating(&mut self.host_busy_ns.0, other.host_busy_ns.0);
        add_saturating(&mut self.launch_latency_ns.0, other.launch_latency_ns.0);
        add_saturating(&mut self.launch_call_ns.0, other.launch_call_ns.0);
        add_saturating(&mut self.queued_gap_ns.0, other.queued_gap_ns.0);
        add_saturating(&mut self.not_started_ns.0, other.not_started_ns.0);
        add_saturating(&mut self.data_loading_ns.0, other.data_loading_ns.0);
        add_saturating(&mut self.unknown_ns.0, other.unknown_ns.0);
    }
}

/// Time that a device waited for the host while the host was in an operator (the outermost counts) or in a call of the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct HostOperatorIdle {
    /// The operator or function of the runtime; absent where the host ran none (or none was recorded).
    pub operator: Option<String>,
    /// Gaps of the device in which the host was in it.
    pub gaps: u64,
    /// The time that the device waited while the host was in it.
    pub idle_ns: Nanos,
}

/// A time without device events, and the event that ended it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The event that came next and its start, also where it came after the gap was cut off by the end of a phase.
    pub(crate) next: Option<(usize, i64)>,
    /// The event before, where there is one.
    pub(crate) before: Option<usize>,
}

/// What the host did, in a form in which gaps can ask.
pub(crate) struct HostActivity<'a> {
    trace: &'a Trace,
    nesting: &'a Nesting,
    calls: &'a EventCalls,
    /// Ranges of rows by thread.
    threads: Vec<std::ops::Range<usize>>,
    /// Disjoint times in which each thread waited for a device.
    waits: Vec<Vec<(i64, i64)>>,
    /// Disjoint calls of the runtime that neither launch nor wait for a device, of each thread: they allocate, free, load modules.
    other_calls: Vec<Vec<(i64, i64, StrId)>>,
    loading: DataLoading,
    /// Whether host and device have one clock: else no gap has a cause.
    has_one_clock: bool,
}

/// Idle time of the gaps seen so far.
#[derive(Default)]
pub(crate) struct IdleSums {
    pub(crate) causes: IdleCauses,
    operators: FxHashMap<Option<StrId>, (u64, i64)>,
}

impl IdleSums {
    pub(crate) fn add_unknown(&mut self, gap: &Gap) {
        let length = gap.end.saturating_sub(gap.start);
        add_saturating(&mut self.causes.unknown_ns.0, length);
    }

    pub(crate) fn absorb(&mut self, other: Self) {
        self.causes.add(&other.causes);
        for (name, (gaps, time)) in other.operators {
            let sum = self.operators.entry(name).or_default();
            sum.0 += gaps;
            add_saturating(&mut sum.1, time);
        }
    }

    /// The operators, the longest wait first.
    pub(crate) fn operators(&self, trace: &Trace) -> Vec<HostOperatorIdle> {
        let mut rows: Vec<HostOperatorIdle> = self
            .operators
            .iter()
            .map(|(name, &(gaps, idle_ns))| HostOperatorIdle {
                operator: name.map(|name| trace.text(name).to_owned()),
                gaps,
                idle_ns: Nanos(idle_ns),
            })
            .collect();
        sort_descending_named(&mut rows, |row| {
            (row.idle_ns.0, row.operator.as_deref().unwrap_or_default())
        });
        rows
    }
}

impl<'a> HostActivity<'a> {
    pub(crate) fn from_trace(
        trace: &'a Trace,
        nesting: &'a Nesting,
        calls: &'a EventCalls,
        has_one_clock: bool,
    ) -> Self {
        let hosts = &trace.hosts;
        let mut threads = vec![0..0; trace.threads.len()];
        let mut waits = vec![Vec::new(); trace.threads.len()];
        let mut other_calls = vec![Vec::new(); trace.threads.len()];
        let mut kinds = ApiKinds::default();
        let mut begin = 0;
        for rows in hosts.thread.chunk_by(|a, b| a == b) {
            let thread = rows[0].0 as usize;
            let range = begin..begin + rows.len();
            begin = range.end;
            if thread >= threads.len() {
                continue;
            }
            for row in range.clone() {
                if !is_api(hosts.kind[row]) {
                    continue;
                }
                let (start, name) = (hosts.start[row], hosts.name[row]);
                let end = start.saturating_add(hosts.duration[row]);
                match kinds.get(trace, name) {
                    ApiKind::Sync => cover_interval(&mut waits[thread], start, end),
                    ApiKind::Memory | ApiKind::Other => {
                        let calls: &mut Vec<(i64, i64, StrId)> = &mut other_calls[thread];
                        if calls.last().is_none_or(|&(_, last, _)| last <= start) {
                            calls.push((start, end, name));
                        }
                    }
                    ApiKind::Launch | ApiKind::Transfer => {}
                }
            }
            threads[thread] = range;
        }
        Self {
            trace,
            nesting,
            calls,
            threads,
            waits,
            other_calls,
            loading: DataLoading::from_trace(trace),
            has_one_clock,
        }
    }

    /// Splits one gap by cause.
    pub(crate) fn split(&self, gap: &Gap, sums: &mut IdleSums) {
        let hosts = &self.trace.hosts;
        if !self.has_one_clock {
            sums.add_unknown(gap);
            return;
        }
        let causes = &mut sums.causes;
        let next = gap
            .next
            .and_then(|(event, started)| Some((self.calls.call(event)?, started)));
        let Some((call, started)) = next else {
            // Nothing follows: the host may still be waiting for what came before.
            let before = gap.before.and_then(|event| self.calls.call(event));
            let waited = match (before, gap.next) {
                (Some(call), None) => {
                    self.wait_time(hosts.thread[call as usize].0, gap.start, gap.end)
                }
                _ => 0,
            };
            add_saturating(&mut causes.host_sync_ns.0, waited);
            let rest = gap.end.saturating_sub(gap.start).saturating_sub(waited);
            let loaded = self.loading.between(gap.start, gap.end).min(rest);
            add_saturating(&mut causes.unknown_ns.0, rest.saturating_sub(loaded));
            self.add_loading(loaded, sums);
            return;
        };
        let (thread, begin) = (hosts.thread[call as usize].0, hosts.start[call as usize]);
        let end = begin.saturating_add(hosts.duration[call as usize]);
        let launched = begin.clamp(gap.start, gap.end);
        let returned = end.clamp(launched, gap.end);
        let queued = gap.end.saturating_sub(returned);
        let cause = if started.saturating_sub(returned) > LAUNCH_MAX_NS {
            &mut causes.not_started_ns
        } else if end <= gap.start {
            &mut causes.queued_gap_ns
        } else {
            &mut causes.launch_latency_ns
        };
        add_saturating(&mut cause.0, queued);
        let in_call = returned.saturating_sub(launched);
        let cause = if in_call > LAUNCH_MAX_NS {
            &mut causes.launch_call_ns
        } else {
            &mut causes.launch_latency_ns
        };
        add_saturating(&mut cause.0, in_call);
        if launched > gap.start {
            let waited = self.wait_time(thread, gap.start, launched);
            let busy = launched.saturating_sub(gap.start).saturating_sub(waited);
            add_saturating(&mut causes.host_sync_ns.0, waited);
            let loaded = self.loading.between(gap.start, launched).min(busy);
            let busy = busy.saturating_sub(loaded);
            self.add_loading(loaded, sums);
            let causes = &mut sums.causes;
            // A host that shows nothing for so long need not be busy: servers wait for requests.
            let shown = if busy > LONG_GAP_MIN_NS {
                let recorded = self.recorded_time(thread, gap.start, launched);
                let told = recorded.saturating_sub(waited).saturating_sub(loaded);
                busy.min(told.max(0))
            } else {
                busy
            };
            let (busy, unknown) = if shown < busy / 2 {
                (shown, busy.saturating_sub(shown))
            } else {
                (busy, 0)
            };
            add_saturating(&mut causes.host_busy_ns.0, busy);
            add_saturating(&mut causes.unknown_ns.0, unknown);
            if busy > 0 {
                self.add_operators(thread, (gap.start, launched), busy, loaded, sums);
            }
        }
    }

    /// Divides the time in which the host was busy among the calls and the outermost operators that the thread was in; what is left has no name. A call
    /// counts before the operator around it, waits for the device count for neither.
    fn add_operators(
        &self,
        thread: u32,
        (from, to): (i64, i64),
        busy: i64,
        loaded: i64,
        sums: &mut IdleSums,
    ) {
        let mut times: Vec<(StrId, i64)> = Vec::new();
        let mut left = busy;
        let mut give = |name: StrId, time: i64| {
            let time = time.clamp(0, left);
            left -= time;
            match times.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += time,
                None => times.push((name, time)),
            }
        };
        for (start, end, name) in self.calls_between(thread, from, to) {
            give(name, end - start);
        }
        for (start, end, name) in self.operators_between(thread, from, to) {
            // The DataLoader's own operator was counted as loading.
            if loaded > 0 && self.loading.name() == Some(name) {
                continue;
            }
            let calls = self.calls_between(thread, start, end);
            let in_calls: i64 = calls.map(|(start, end, _)| end - start).sum();
            give(
                name,
                end - start - in_calls - self.wait_time(thread, start, end),
            );
        }
        for (name, time) in times.into_iter().filter(|&(_, time)| time > 0) {
            let sum = sums.operators.entry(Some(name)).or_default();
            sum.0 += 1;
            add_saturating(&mut sum.1, time);
        }
        if left > 0 {
            let sum = sums.operators.entry(None).or_default();
            sum.0 += 1;
            add_saturating(&mut sum.1, left);
        }
    }

    fn add_loading(&self, loaded: i64, sums: &mut IdleSums) {
        if loaded > 0 {
            add_saturating(&mut sums.causes.data_loading_ns.0, loaded);
            let sum = sums.operators.entry(self.loading.name()).or_default();
            // A loader that touches the end of a gap of launching is not what the gap is for.
            sum.0 += u64::from(loaded > LAUNCH_MAX_NS);
            add_saturating(&mut sum.1, loaded);
        }
    }

    /// How long a thread waited for a device between two moments.
    fn wait_time(&self, thread: u32, from: i64, to: i64) -> i64 {
        let Some(waits) = self.waits.get(thread as usize) else {
            return 0;
        };
        let first = waits.partition_point(|&(_, end)| end <= from);
        waits[first..]
            .iter()
            .take_while(|&&(start, _)| start < to)
            .map(|&(start, end)| end.min(to).saturating_sub(start.max(from)))
            .fold(0, i64::saturating_add)
    }

    /// How much of the time between two moments a thread has anything recorded in.
    fn recorded_time(&self, thread: u32, from: i64, to: i64) -> i64 {
        let hosts = &self.trace.hosts;
        let Some(range) = self.threads.get(thread as usize).cloned() else {
            return 0;
        };
        let last = range.start + hosts.start[range.clone()].partition_point(|&start| start < to);
        // Whatever reaches into the time from before it lies in the slice around the last one that began before it.
        let first =
            range.start + hosts.start[range.clone()].partition_point(|&start| start <= from);
        let around = first
            .checked_sub(1)
            .filter(|&row| row >= range.start)
            .map_or(first, |running| {
                let outermost = self.nesting.outwards(running as u32).last();
                outermost.map_or(running, |row| row as usize)
            });
        let mut covered = Union::default();
        for row in std::iter::once(around)
            .chain(first..last)
            .filter(|&row| row < last)
        {
            let start = hosts.start[row].max(from);
            let end = hosts.start[row].saturating_add(hosts.duration[row]);
            covered.add(start, end.clamp(start, to.max(start)));
        }
        covered.length()
    }

    /// The calls of a thread that neither launch nor wait, clipped to a time.
    fn calls_between(
        &self,
        thread: u32,
        from: i64,
        to: i64,
    ) -> impl Iterator<Item = (i64, i64, StrId)> + '_ {
        let calls = self.other_calls.get(thread as usize);
        let calls = calls.map_or(&[][..], Vec::as_slice);
        let first = calls.partition_point(|&(_, end, _)| end <= from);
        let inside = calls[first..].iter().take_while(move |call| call.0 < to);
        inside.map(move |&(start, end, name)| (start.max(from), end.min(to), name))
    }

    /// The outermost operators of a thread, clipped to a time.
    fn operators_between(&self, thread: u32, from: i64, to: i64) -> Vec<(i64, i64, StrId)> {
        let hosts = &self.trace.hosts;
        let Some(range) = self.threads.get(thread as usize).cloned() else {
            return Vec::new();
        };
        let end = |row: usize| hosts.start[row].saturating_add(hosts.duration[row]);
        let after = |time: i64, range: std::ops::Range<usize>| {
            range.start + hosts.start[range].partition_point(|&start| start <= time)
        };
        let mut operators = Vec::new();
        let mut row = after(from, range.clone());
        // Only the outermost operator that was running when the time began can reach into it beyond its inner ones.
        if let Some(running) = row.checked_sub(1).filter(|&row| row >= range.start) {
            let outermost = self
                .nesting
                .outwards(running as u32)
                .map(|row| row as usize)
                .filter(|&row| hosts.kind[row] == HostKind::OPERATOR && end(row) > from)
                .last();
            if let Some(running) = outermost {
                operators.push((from, end(running).min(to), hosts.name[running]));
                row = after(end(running).saturating_sub(1).max(from), row..range.end);
            }
        }
        while row < range.end && hosts.start[row] < to {
            let (start, stop) = (hosts.start[row], end(row));
            if hosts.kind[row] == HostKind::OPERATOR && stop > start {
                operators.push((start, stop.min(to), hosts.name[row]));
                row = after(stop - 1, row..range.end);
            } else {
                row += 1;
            }
        }
        operators
    }
}

/// Adds an interval that does not start before the others to a list of disjoint ones.
fn cover_interval(list: &mut Vec<(i64, i64)>, start: i64, end: i64) {
    match list.last_mut() {
        Some(last) if start <= last.1 => last.1 = last.1.max(end),
        _ => list.push((start, end)),
    }
}
