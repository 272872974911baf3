//! The profile of one rank reduced to its summary.

use llmprof_record::rank_summary::{
    Between, KernelSums, RankCollective, RankStep, RankSummary, SummarySource,
};
use llmprof_record::run::rank_of;
use llmprof_record::trace::{StrId, Trace};
use rustc_hash::FxHashMap;

use crate::phases::marked_steps;
use crate::ranks::work::{RankWork, WorkInterval};
use crate::timeline::breakdown::{DeviceTime, DeviceTimeline};
use crate::timeline::device_events::{Class, DeviceEvent, DeviceEvents};
use crate::timeline::idle::{HostActivity, IdleCauses};
use crate::timeline::intervals::union_length;
use crate::timeline::launch_times::EventLaunchTimes;
use crate::timeline::launches::{EventCalls, Launches};
use crate::timeline::nesting::Nesting;

/// Maximum number of kernel names in the list of a step: a step of an LLM has 20 to 60.
const STEP_KERNELS_MAX: usize = 64;
/// Maximum number of exposed parts of one collective; beyond it the closest ones are joined.
const EXPOSED_PARTS_MAX: usize = 16;

/// Reduces the profile of a rank. `rank` is its number unless the trace records one.
pub fn summarize(trace: &Trace, rank: u32, source: SummarySource) -> RankSummary {
    let events = DeviceEvents::from_trace(trace);
    let launches = Launches::from_trace(trace);
    let work = RankWork::from_events(rank, trace, &events, &launches, None);
    let (begin, end) = work.recorded;
    let calls = EventCalls::from_launches(&events, &launches);
    let marks = marked_steps(trace);
    let mut names = SummaryNames::new(trace);
    let steps = if events.all().is_empty() {
        host_steps(&work, &marks, &mut names)
    } else {
        device_steps(trace, &events, &calls, &marks, &mut names)
    };
    let (collectives, tail) = reduce_collectives(&work, &mut names);
    let world = trace.metadata.get("distributed_world_size");
    let mut summary = RankSummary {
        rank: rank_of(trace).unwrap_or(rank),
        world_size: world.and_then(|size| size.parse().ok()),
        source,
        begin_ns: work.calls.origin.saturating_add(begin),
        recorded_ns: end.saturating_sub(begin),
        events: trace.events_read,
        device: trace.devices.first().map(|device| device.name.clone()),
        groups: work.calls.groups,
        has_marked_steps: !marks.is_empty(),
        steps,
        collectives,
        tail,
        names: names.texts,
        issues: trace.issues.clone(),
    };
    make_relative(&mut summary, begin);
    summary
}

/// Makes times relative to the beginning of the recording.
fn make_relative(summary: &mut RankSummary, begin: i64) {
    let shift = |time: &mut i64| *time = time.saturating_sub(begin);
    for step in &mut summary.steps {
        shift(&mut step.start_ns);
        shift(&mut step.end_ns);
    }
    for call in &mut summary.collectives {
        shift(&mut call.start_ns);
        shift(&mut call.end_ns);
        for (start, end) in &mut call.exposed {
            shift(start);
            shift(end);
        }
    }
}

/// Interned names of a summary.
struct SummaryNames<'a> {
    trace: &'a Trace,
    texts: Vec<String>,
    numbers: FxHashMap<StrId, u32>,
    kinds: FxHashMap<&'static str, u32>,
}

impl<'a> SummaryNames<'a> {
    fn new(trace: &'a Trace) -> Self {
        Self {
            trace,
            texts: Vec::new(),
            numbers: FxHashMap::default(),
            kinds: FxHashMap::default(),
        }
    }

    fn index_name(&mut self, name: StrId) -> u32 {
        *self.numbers.entry(name).or_insert_with(|| {
            self.texts.push(self.trace.text(name).to_owned());
            (self.texts.len() - 1) as u32
        })
    }

    fn index_kind(&mut self, kind: &'static str) -> u32 {
        *self.kinds.entry(kind).or_insert_with(|| {
            self.texts.push(kind.to_owned());
            (self.texts.len() - 1) as u32
        })
    }
}

/// A step on the host: its number, start and end.
type Mark = (Option<u64>, i64, i64);

/// The step in which a time of the host lies: marks follow each other, and what comes between two belongs to the first.
fn mark_at(marks: &[Mark], time: i64) -> Option<usize> {
    marks
        .partition_point(|(_, start, _)| *start <= time)
        .checked_sub(1)
}

fn device_steps(
    trace: &Trace,
    events: &DeviceEvents,
    calls: &EventCalls,
    marks: &[Mark],
    names: &mut SummaryNames<'_>,
) -> Vec<RankStep> {
    // Of several devices of one process, the one that is busy longest.
    let mut first = 0;
    let mut busiest: Option<(i64, usize, &[DeviceEvent])> = None;
    for device in events.devices() {
        let busy = union_length(device.iter().map(|event| (event.start, event.end)));
        if busiest.is_none_or(|(most, ..)| busy > most) {
            busiest = Some((busy, first, device));
        }
        first += device.len();
    }
    let Some((_, first, device)) = busiest else {
        return Vec::new();
    };
    let launched = EventLaunchTimes::from_events(trace, events, calls);
    // The device begins a step with the first event that was launched in it.
    let mut begins: Vec<Option<i64>> = vec![None; marks.len()];
    let mut last_end = i64::MIN;
    for (index, event) in device.iter().enumerate() {
        let time = launched.or_start(first + index, event.start);
        let Some(step) = time.and_then(|time| mark_at(marks, time)) else {
            continue;
        };
        let is_after = step + 1 == marks.len() && time.is_some_and(|time| time >= marks[step].2);
        if is_after {
            continue;
        }
        last_end = last_end.max(event.end);
        let begin = begins[step].get_or_insert(event.start);
        *begin = event.start.min(*begin);
    }
    let span = || {
        let start = device.iter().map(|event| event.start).min();
        let end = device.iter().map(|event| event.end).max();
        Some((None, start?, end?))
    };
    let mut windows: Vec<Mark> = Vec::new();
    for ((number, ..), begin) in marks.iter().zip(begins) {
        let Some(begin) = begin else { continue };
        if let Some(before) = windows.last_mut() {
            before.2 = begin.max(before.1);
        }
        let begin = windows.last().map_or(begin, |before| begin.max(before.1));
        windows.push((*number, begin, last_end.max(begin)));
    }
    if windows.is_empty() {
        windows.extend(span());
    }
    let nesting = Nesting::from_trace(trace);
    let activity = HostActivity::from_trace(trace, &nesting, calls, !launched.clocks_disagree);
    let timeline = DeviceTimeline {
        trace,
        calls,
        activity: Some(&activity),
        events: device,
        first,
        depths: vec![0; device.len()],
    };
    let bounds: Vec<(i64, i64)> = windows
        .iter()
        .map(|&(_, start, end)| (start, end))
        .collect();
    let times = timeline.break_down(&bounds, true).instances;
    let mut next = 0;
    let mut steps = Vec::new();
    for (&(number, start, end), time) in windows.iter().zip(times) {
        while device.get(next).is_some_and(|event| event.start < start) {
            next += 1;
        }
        let from = next;
        while device.get(next).is_some_and(|event| event.start < end) {
            next += 1;
        }
        let own = device[from..next]
            .iter()
            .filter(|event| event.class != Class::Communication)
            .map(|event| (event.name, event.duration()));
        steps.push(sum_step(number, (start, end), &time, own, names));
    }
    steps
}

/// Steps of a rank without a device: its operators are the work, and idle time has no causes.
fn host_steps(work: &RankWork<'_>, marks: &[Mark], names: &mut SummaryNames<'_>) -> Vec<RankStep> {
    let whole = [(None, work.recorded.0, work.recorded.1)];
    let windows = if marks.is_empty() { &whole[..] } else { marks };
    let mut steps: Vec<RankStep> = Vec::new();
    for &(number, start, end) in windows {
        let start = steps
            .last()
            .map_or(start, |before| start.max(before.end_ns));
        let end = end.max(start);
        let inside = |item: &&WorkInterval| item.start < end && item.end > start;
        let covered = |wanted: &dyn Fn(Class) -> bool| {
            let items = work.work.iter().filter(inside);
            let items = items.filter(|item| wanted(item.class));
            union_length(items.map(|item| (item.start.max(start), item.end.min(end))))
        };
        let compute = covered(&|class| class == Class::Compute);
        let with_calls = covered(&|class| matches!(class, Class::Compute | Class::Communication));
        let mut time = DeviceTime::default();
        time.classes[Class::Compute as usize].exposed_ns.0 = compute;
        time.classes[Class::Communication as usize].exposed_ns.0 = with_calls - compute;
        time.idle.unknown_ns.0 = (end - start).saturating_sub(with_calls);
        let own = work.work.iter().filter(|item| {
            item.class != Class::Communication && item.start >= start && item.start < end
        });
        let own = own.map(|item| (item.name, item.end.saturating_sub(item.start)));
        steps.push(sum_step(number, (start, end), &time, own, names));
    }
    steps
}

fn sum_step(
    number: Option<u64>,
    (start, end): (i64, i64),
    time: &DeviceTime,
    events: impl Iterator<Item = (StrId, i64)>,
    names: &mut SummaryNames<'_>,
) -> RankStep {
    let mut sums: FxHashMap<StrId, KernelSums> = FxHashMap::default();
    for (name, duration) in events {
        let duration = duration.max(0);
        let sum = sums.entry(name).or_insert_with(|| KernelSums {
            min_ns: i64::MAX,
            ..KernelSums::default()
        });
        sum.calls += 1;
        sum.sum_ns = sum.sum_ns.saturating_add(duration);
        sum.min_ns = sum.min_ns.min(duration);
        sum.max_ns = sum.max_ns.max(duration);
        sum.digest.add(duration);
    }
    let mut kernels: Vec<(StrId, KernelSums)> = sums.into_iter().collect();
    kernels.sort_by_key(|(name, sums)| (std::cmp::Reverse(sums.sum_ns), *name));
    let rest = kernels.split_off(kernels.len().min(STEP_KERNELS_MAX));
    let exposed = |class: Class| time.class(class).exposed_ns.0;
    RankStep {
        number,
        start_ns: start,
        end_ns: end,
        compute_ns: exposed(Class::Compute),
        exposed_communication_ns: exposed(Class::Communication),
        copies_ns: exposed(Class::Copy).saturating_add(exposed(Class::Memset)),
        idle_ns: idle_row(&time.idle),
        kernels: kernels
            .into_iter()
            .map(|(name, sums)| KernelSums {
                name: names.index_name(name),
                ..sums
            })
            .collect(),
        other_events: rest.iter().map(|(_, sums)| sums.calls).sum(),
        other_ns: rest
            .iter()
            .fold(0, |sum, (_, sums)| sum.saturating_add(sums.sum_ns)),
    }
}

/// In the order of [`IDLE_CAUSES`](llmprof_record::rank_summary::IDLE_CAUSES).
fn idle_row(idle: &IdleCauses) -> [i64; 8] {
    let IdleCauses {
        host_sync_ns,
        host_busy_ns,
        launch_latency_ns,
        launch_call_ns,
        queued_gap_ns,
        not_started_ns,
        data_loading_ns,
        unknown_ns,
    } = idle;
    [
        host_sync_ns.0,
        host_busy_ns.0,
        launch_latency_ns.0,
        launch_call_ns.0,
        queued_gap_ns.0,
        not_started_ns.0,
        data_loading_ns.0,
        unknown_ns.0,
    ]
}

/// Disjoint times of some work, which answer how much of an interval they cover.
struct Covered {
    parts: Vec<(i64, i64)>,
    /// What the parts before each one cover.
    sums: Vec<i64>,
}

impl Covered {
    fn of_classes(work: &[WorkInterval], wanted: impl Fn(Class) -> bool) -> Self {
        let mut parts: Vec<(i64, i64)> = Vec::new();
        for item in work.iter().filter(|item| wanted(item.class)) {
            match parts.last_mut() {
                Some(last) if item.start <= last.1 => last.1 = last.1.max(item.end),
                _ => parts.push((item.start, item.end)),
            }
        }
        let mut sum = 0_i64;
        let sums = parts.iter().map(|(start, end)| {
            let before = sum;
            sum = sum.saturating_add(end - start);
            before
        });
        Self {
            sums: sums.collect(),
            parts,
        }
    }

    /// Covered time before `time`.
    fn covered_until(&self, time: i64) -> i64 {
        let after = self.parts.partition_point(|(start, _)| *start < time);
        let Some(last) = after.checked_sub(1) else {
            return 0;
        };
        let (start, end) = self.parts[last];
        self.sums[last].saturating_add(end.min(time).saturating_sub(start))
    }

    fn covered_between(&self, from: i64, to: i64) -> i64 {
        self.covered_until(to)
            .saturating_sub(self.covered_until(from))
    }

    /// The parts of an interval that are not covered, joined to at most [`EXPOSED_PARTS_MAX`].
    fn uncovered_parts(&self, start: i64, end: i64) -> Vec<(i64, i64)> {
        let first = self.parts.partition_point(|(_, until)| *until <= start);
        let mut gaps: Vec<(i64, i64)> = Vec::new();
        let mut from = start;
        for &(begin, until) in self.parts[first..]
            .iter()
            .take_while(|(begin, _)| *begin < end)
        {
            if begin > from {
                gaps.push((from, begin));
            }
            from = from.max(until);
        }
        if from < end {
            gaps.push((from, end));
        }
        while gaps.len() > EXPOSED_PARTS_MAX {
            let closest = (1..gaps.len()).min_by_key(|&at| gaps[at].0 - gaps[at - 1].1);
            let Some(at) = closest else { break };
            let (_, end) = gaps.remove(at);
            gaps[at - 1].1 = end;
        }
        gaps
    }
}

fn reduce_collectives(
    work: &RankWork<'_>,
    names: &mut SummaryNames<'_>,
) -> (Vec<RankCollective>, Between) {
    let compute = Covered::of_classes(&work.work, |class| class == Class::Compute);
    let busy = Covered::of_classes(&work.work, |class| class != Class::Communication);
    let between = |from: i64, to: i64| {
        if to <= from {
            return Between::default();
        }
        let (compute_ns, busy_ns) = (
            compute.covered_between(from, to),
            busy.covered_between(from, to),
        );
        Between {
            compute_ns,
            copies_ns: busy_ns.saturating_sub(compute_ns),
            idle_ns: (to - from).saturating_sub(busy_ns),
        }
    };
    let mut until = work.recorded.0;
    let calls = work.calls.collectives.iter().map(|call| {
        let before = between(until, call.start);
        until = until.max(call.end);
        RankCollective {
            start_ns: call.start,
            end_ns: call.end,
            kind: names.index_kind(call.kind.name()),
            group: call.group,
            group_size: call.group_size,
            sequence: call.sequence,
            given: call.given,
            got: call.got,
            before,
            exposed: compute.uncovered_parts(call.start, call.end),
        }
    });
    let calls = calls.collect();
    (calls, between(until, work.recorded.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(parts: &[(i64, i64)]) -> Vec<WorkInterval> {
        let item = |&(start, end): &(i64, i64)| WorkInterval {
            start,
            end,
            class: Class::Compute,
            name: StrId::EMPTY,
        };
        parts.iter().map(item).collect()
    }

    #[test]
    fn covered_times_worked_by_hand() {
        let work = work(&[(0, 5), (3, 8), (10, 20), (12, 14), (30, 40)]);
        let covered = Covered::of_classes(&work, |class| class == Class::Compute);
        assert_eq!(covered.covered_between(4, 35), 4 + 10 + 5);
        assert_eq!(covered.covered_between(8, 10), 0);
        assert_eq!(covered.uncovered_parts(4, 35), [(8, 10), (20, 30)]);
        assert_eq!(covered.uncovered_parts(11, 19), []);
        assert_eq!(covered.uncovered_parts(41, 50), [(41, 50)]);
    }

    #[test]
    fn many_exposed_parts_join_the_closest() {
        let parts: Vec<(i64, i64)> = (0..40).map(|at| (at * 100, at * 100 + 50)).collect();
        let covered = Covered::of_classes(&work(&parts), |_| true);
        let gaps = covered.uncovered_parts(0, 4_000);
        assert_eq!(gaps.len(), EXPOSED_PARTS_MAX);
        assert_eq!((gaps[0].0, gaps[15].1), (50, 4_000));
    }
}
