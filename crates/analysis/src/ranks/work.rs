//! What one rank did when: its device events, or without a device its operators; and its collectives with what the
//! framework says of them.

use llmprof_record::rank_summary::ProcessGroup;
use llmprof_record::trace::{HostKind, StrId, ThreadId, Trace};
use llmprof_units::DType;
use rustc_hash::FxHashMap;

use crate::labels::{is_collective_call, runs_on_host};
use crate::phases::marked_steps;
use crate::ranks::kind::CollectiveKind;
use crate::timeline::device_events::{Class, DeviceEvents};
use crate::timeline::launches::Launches;
use crate::timeline::nesting::Nesting;

/// An interval of work, ns on the clock of the trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkInterval {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) class: Class,
    pub(super) name: StrId,
}

/// One collective on one rank.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) kind: CollectiveKind,
    pub(super) group: u32,
    pub(super) group_size: u64,
    pub(super) sequence: Option<i64>,
    /// Whether the framework calls it point-to-point: it concerns two ranks, and no sequence counts it.
    pub(super) is_transfer: bool,
    /// Bytes that this rank gives and gets.
    pub(super) given: Option<u64>,
    pub(super) got: Option<u64>,
}

/// The collectives of one rank.
#[derive(Default)]
pub(super) struct RankCalls {
    pub(super) rank: u32,
    /// Zero of its times by its own clock, ns; 0 where the clock does not say.
    pub(super) origin: i64,
    pub(super) groups: Vec<ProcessGroup>,
    pub(super) collectives: Vec<Instance>,
    /// Point-to-point transfers, which no sequence number counts.
    pub(super) transfers: Vec<Instance>,
    /// Steps that have a number: the number and the start, in order of time.
    pub(super) steps: Vec<(u64, i64)>,
}

impl RankCalls {
    /// The number of the step in which a time lies; `None` before the first.
    pub(super) fn step_at(&self, time: i64) -> Option<u64> {
        let after = self.steps.partition_point(|(_, start)| *start <= time);
        Some(self.steps[after.checked_sub(1)?].0)
    }
}

/// The device work and collectives of one rank.
pub(super) struct RankWork<'a> {
    pub(super) trace: &'a Trace,
    /// Sorted by start, then by end.
    pub(super) work: Vec<WorkInterval>,
    pub(super) calls: RankCalls,
    /// From the first to the last event with a length, of any kind.
    pub(super) recorded: (i64, i64),
}

impl<'a> RankWork<'a> {
    /// `device` selects one of several devices that one process used.
    pub(super) fn from_trace(rank: u32, trace: &'a Trace, device: Option<u32>) -> Self {
        Self::from_events(
            rank,
            trace,
            &DeviceEvents::from_trace(trace),
            &Launches::from_trace(trace),
            device,
        )
    }

    pub(super) fn from_events(
        rank: u32,
        trace: &'a Trace,
        events: &DeviceEvents,
        launches: &Launches,
        device: Option<u32>,
    ) -> Self {
        let mut facts = CollectiveFacts::from_trace(trace);
        let mut work = Vec::new();
        let mut collectives = Vec::new();
        let on_device = events.all().iter();
        for event in on_device.filter(|event| device.is_none_or(|device| event.device == device)) {
            work.push(WorkInterval {
                start: event.start,
                end: event.end,
                class: event.class,
                name: event.name,
            });
            if event.class == Class::Communication {
                let described = facts.row_of_kernel(event.correlation, launches.call(event));
                let kind = CollectiveKind::from_event_name(trace.text(event.name));
                collectives.push(facts.describe_instance(event.start, event.end, kind, described));
            }
        }
        if work.is_empty() {
            facts.collect_host_work(&mut work, &mut collectives);
        }
        work.sort_by_key(|work| (work.start, work.end));
        collectives.sort_by_key(|instance| (instance.start, instance.end));
        let (transfers, collectives) = collectives.into_iter().partition(|one| one.is_transfer);
        Self {
            trace,
            recorded: recorded_span(trace, &work),
            work,
            calls: RankCalls {
                rank,
                origin: trace.clock_origin_ns.map_or(0, |origin| origin.0),
                groups: facts.groups,
                collectives: join_kernels(collectives),
                transfers,
                steps: numbered_steps(trace),
            },
        }
    }
}

fn numbered_steps(trace: &Trace) -> Vec<(u64, i64)> {
    let steps = marked_steps(trace).into_iter();
    steps
        .filter_map(|(number, start, _)| Some((number?, start)))
        .collect()
}

/// Joins several kernels of one collective into one instance.
fn join_kernels(collectives: Vec<Instance>) -> Vec<Instance> {
    let mut joined: Vec<Instance> = Vec::with_capacity(collectives.len());
    let mut known: FxHashMap<(u32, i64), usize> = FxHashMap::default();
    for instance in collectives {
        if let Some(sequence) = instance.sequence {
            let key = (instance.group, sequence);
            if let Some(&place) = known.get(&key) {
                let first = &mut joined[place];
                first.end = first.end.max(instance.end);
                continue;
            }
            known.insert(key, joined.len());
        }
        joined.push(instance);
    }
    joined
}

fn recorded_span(trace: &Trace, work: &[WorkInterval]) -> (i64, i64) {
    let end = |start: i64, duration: i64| start.saturating_add(duration);
    let hosts = (0..trace.hosts.len()).map(|row| {
        let start = trace.hosts.start[row];
        (start, end(start, trace.hosts.duration[row]))
    });
    // A mark without length, such as the end of Kineto's window, does not count as work of the program.
    let marks = (0..trace.ranges.len()).filter(|&row| trace.ranges.duration[row] > 0);
    let ranges = marks.map(|row| {
        let start = trace.ranges.start[row];
        (start, end(start, trace.ranges.duration[row]))
    });
    let work = work.iter().map(|work| (work.start, work.end));
    let mut all = hosts.chain(ranges).chain(work);
    let first = all.next().unwrap_or_default();
    all.fold(first, |(start, end), (other_start, other_end)| {
        (start.min(other_start), end.max(other_end))
    })
}

/// The framework's descriptions of collectives, indexed by correlation id and by place on the host's threads.
struct CollectiveFacts<'a> {
    trace: &'a Trace,
    /// Rows of kernels, by correlation id.
    by_correlation: FxHashMap<u32, usize>,
    /// Process groups of the instances so far; the first stands for collectives without a group.
    groups: Vec<ProcessGroup>,
    group_numbers: FxHashMap<(StrId, StrId), u32>,
}

impl<'a> CollectiveFacts<'a> {
    fn from_trace(trace: &'a Trace) -> Self {
        let table = &trace.collectives;
        let on_device = (0..table.len()).filter(|&row| table.correlation[row] != 0);
        Self {
            trace,
            by_correlation: on_device.map(|row| (table.correlation[row], row)).collect(),
            groups: vec![ProcessGroup::default()],
            group_numbers: FxHashMap::from_iter([((StrId::EMPTY, StrId::EMPTY), 0)]),
        }
    }

    fn group_number(&mut self, row: usize) -> u32 {
        let (trace, table) = (self.trace, &self.trace.collectives);
        let key = (table.process_group[row], table.group_ranks[row]);
        *self.group_numbers.entry(key).or_insert_with(|| {
            self.groups.push(ProcessGroup {
                name: trace.text(key.0).to_owned(),
                ranks: trace.text(key.1).to_owned(),
            });
            (self.groups.len() - 1) as u32
        })
    }

    /// The row that describes a kernel: its own, else one around its launch; that with a group first, then the innermost.
    fn row_of_kernel(&self, correlation: u32, call: Option<u32>) -> Option<usize> {
        if let Some(&row) = self
            .by_correlation
            .get(&correlation)
            .filter(|_| correlation != 0)
        {
            return Some(row);
        }
        let (hosts, table) = (&self.trace.hosts, &self.trace.collectives);
        let call = call? as usize;
        let (thread, at) = (hosts.thread[call], hosts.start[call]);
        // The table is sorted by thread and start. Collectives nest a few levels deep at most.
        let from = table.thread.partition_point(|&on| on < thread);
        let to = table.thread.partition_point(|&on| on <= thread);
        let after = from + table.start[from..to].partition_point(|&start| start <= at);
        let before = (from.max(after.saturating_sub(8))..after).rev();
        let around = before.filter(|&row| {
            let end = table.start[row].saturating_add(table.duration[row]);
            at < end
        });
        around.min_by_key(|&row| table.process_group[row] == StrId::EMPTY)
    }

    fn describe_instance(
        &mut self,
        start: i64,
        end: i64,
        kind: CollectiveKind,
        row: Option<usize>,
    ) -> Instance {
        let mut instance = Instance {
            start,
            end,
            kind,
            group: 0,
            group_size: 0,
            sequence: None,
            is_transfer: false,
            given: None,
            got: None,
        };
        let Some(row) = row else {
            return instance;
        };
        let (trace, table) = (self.trace, &self.trace.collectives);
        let named = CollectiveKind::from_event_name(trace.text(table.name[row]));
        instance.is_transfer = named == CollectiveKind::SendReceive;
        if named != CollectiveKind::Other {
            instance.kind = named;
        }
        instance.group = self.group_number(row);
        instance.group_size = u64::from(table.group_size[row]);
        instance.sequence = Some(table.sequence[row]).filter(|sequence| *sequence >= 0);
        let dtype: Option<DType> = trace.text(table.dtype[row]).parse().ok();
        let bytes = |elements: i64| {
            let elements = u64::try_from(elements)
                .ok()
                .filter(|elements| *elements > 0)?;
            dtype?.bytes_for(elements)
        };
        instance.given = bytes(table.in_elements[row]);
        instance.got = bytes(table.out_elements[row]);
        instance
    }

    /// Operators of a run without a device, and the collectives of its backend, which have threads of their own.
    fn collect_host_work(&mut self, work: &mut Vec<WorkInterval>, collectives: &mut Vec<Instance>) {
        let (trace, hosts, table) = (self.trace, &self.trace.hosts, &self.trace.collectives);
        let mut busy: FxHashMap<ThreadId, Vec<(i64, i64)>> = FxHashMap::default();
        let is_own = |row: &usize| runs_on_host(trace.text(table.name[*row]));
        for row in (0..table.len()).filter(is_own) {
            let (start, thread) = (table.start[row], table.thread[row]);
            let end = start.saturating_add(table.duration[row]);
            work.push(WorkInterval {
                start,
                end,
                class: Class::Communication,
                name: table.name[row],
            });
            busy.entry(thread).or_default().push((start, end));
            let kind = CollectiveKind::from_event_name(trace.text(table.name[row]));
            collectives.push(self.describe_instance(start, end, kind, Some(row)));
        }
        // Calls that hand a collective to its backend, or wait for it; operators of the program hold them.
        let waits = |row: usize| is_collective_call(trace.text(hosts.name[row]));
        let rows = 0..hosts.len();
        for row in rows
            .clone()
            .filter(|&row| hosts.kind[row] == HostKind::OPERATOR && waits(row))
        {
            let start = hosts.start[row];
            let end = start.saturating_add(hosts.duration[row]);
            busy.entry(hosts.thread[row])
                .or_default()
                .push((start, end));
        }
        for list in busy.values_mut() {
            list.sort_unstable();
        }
        let nesting = Nesting::from_trace(trace);
        let is_operator = |row: u32| hosts.kind[row as usize] == HostKind::OPERATOR;
        for row in rows {
            let mut around = nesting.outwards(row as u32).skip(1);
            if !is_operator(row as u32) || around.any(is_operator) {
                continue;
            }
            let start = hosts.start[row];
            let end = start.saturating_add(hosts.duration[row]);
            let taken = busy.get(&hosts.thread[row]).map_or(&[][..], Vec::as_slice);
            work.extend(
                subtract_intervals(taken, start, end)
                    .into_iter()
                    .map(|(start, end)| WorkInterval {
                        start,
                        end,
                        class: Class::Compute,
                        name: hosts.name[row],
                    }),
            );
        }
    }
}

/// Subtracts intervals that are sorted by their starts from `start..end`.
fn subtract_intervals(taken: &[(i64, i64)], start: i64, end: i64) -> Vec<(i64, i64)> {
    let mut left = Vec::new();
    let mut from = start;
    for &(begin, until) in taken.iter().take_while(|(begin, _)| *begin < end) {
        if until > from {
            if begin > from {
                left.push((from, begin));
            }
            from = until;
        }
    }
    if from < end {
        left.push((from, end));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::subtract_intervals;

    #[test]
    fn intervals_without_others() {
        let taken = [(0, 5), (10, 20), (12, 14), (30, 40)];
        assert_eq!(subtract_intervals(&taken, 3, 35), [(5, 10), (20, 30)]);
        assert_eq!(subtract_intervals(&taken, 11, 19), []);
        assert_eq!(subtract_intervals(&[], 1, 2), [(1, 2)]);
    }
}
