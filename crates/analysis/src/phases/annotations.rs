//! Ranges of a program as phases: which names say what, and what lies inside of what.

use std::collections::{BTreeMap, BTreeSet};

use llmprof_record::trace::{RangeKind, StrId, Trace};

use rustc_hash::FxHashMap;

use super::processes::{Process, process_of};
use crate::labels::{is_annotation, is_part_of_model, is_phase, is_preparation};
use crate::phases::{EventWindows, PhaseSource, Phases};
use crate::thresholds::{
    PHASES_COVERED_MIN_SHARE, RANGE_DEPTH_MAX, RANGE_OVERLAP_MAX_SHARE, RANGES_MIN_TIME_SHARE,
};
use crate::timeline::device_events::DeviceEvents;
use crate::timeline::intervals::union_length;
use crate::timeline::launch_times::EventLaunchTimes;

/// Which of the ranges that have a name are phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeChoice {
    /// The outermost ones: their names say what they are.
    ByName,
    /// Those that divide the program: see [`dividing_rows`].
    Dividing,
}

/// Phases from the annotations that `name_of` names; `None` if they hold less than half of the device time from the first of them to
/// the last: a program may warm up before it marks anything.
pub(crate) fn annotated_phases(
    trace: &Trace,
    events: &DeviceEvents,
    launched: &EventLaunchTimes,
    name_of: impl Fn(&str) -> Option<String>,
    choice: RangeChoice,
) -> Option<Phases> {
    let on_device = lie_on_device(trace, events, launched);
    let devices = if on_device {
        devices_of_ranges(trace, &name_of)
    } else {
        BTreeSet::new()
    };
    let mut phases = if devices.len() > 1 {
        let mut phases = Phases::empty(PhaseSource::Annotation);
        for device in devices {
            let all = RangeFilter {
                device: Some(device),
                on_device,
                rows: None,
            };
            if let Some(mut own) = ranges_as_phases(trace, &name_of, &all) {
                own.on_device = on_device;
                phases.absorb_device(device, &own);
            }
        }
        phases.order_devices();
        phases
    } else {
        let divides = choice == RangeChoice::Dividing && !on_device;
        let chosen = RangeFilter {
            device: None,
            on_device,
            rows: divides.then(|| {
                let launches = LaunchedTime::of_events(events, launched);
                dividing_rows(trace, &launches, &name_of)
            }),
        };
        ranges_as_phases(trace, &name_of, &chosen)?
    };
    phases.on_device = on_device;
    let first = phases.windows.first()?.start;
    let last = phases.windows.iter().map(|window| window.end).max()?;
    // By their launches: a device may run behind its host.
    let windows = EventWindows::of_events(events, launched, &phases);
    let (mut inside, mut between, mut all) = (0_i128, 0_i128, 0_i128);
    for (index, event) in events.all().iter().enumerate() {
        let duration = i128::from(event.duration());
        all += duration;
        let time = launched.or_start(index, event.start);
        if windows.window_of(index).is_some() {
            inside += duration;
            between += duration;
        } else if time.is_none_or(|time| (first..last).contains(&time)) {
            between += duration;
        }
    }
    let is_much = inside as f64 >= RANGES_MIN_TIME_SHARE * all as f64;
    (2 * inside >= between && is_much).then_some(phases)
}

/// Devices that have ranges with a name.
fn devices_of_ranges(trace: &Trace, name_of: impl Fn(&str) -> Option<String>) -> BTreeSet<u32> {
    let ranges = &trace.ranges;
    let mut is_named: FxHashMap<StrId, bool> = FxHashMap::default();
    (0..ranges.len())
        .filter(|&row| ranges.kind[row] == RangeKind::DEVICE_ANNOTATION)
        .filter(|&row| {
            let name = ranges.name[row];
            let named = || name_of(trace.text(name)).is_some();
            *is_named.entry(name).or_insert_with(named)
        })
        .map(|row| ranges.device[row])
        .collect()
}

/// Which ranges are looked at.
struct RangeFilter {
    /// Those of one device.
    device: Option<u32>,
    /// Those of devices, else of threads.
    on_device: bool,
    /// Rows, in order; all where absent.
    rows: Option<Vec<usize>>,
}

/// Intervals of the ranges to which `name_of` gives a name: those of the device, or of the program's threads.
fn ranges_as_phases(
    trace: &Trace,
    name_of: impl Fn(&str) -> Option<String>,
    filter: &RangeFilter,
) -> Option<Phases> {
    let ranges = &trace.ranges;
    let (device, on_device) = (filter.device, filter.on_device);
    let mut cache = rustc_hash::FxHashMap::default();
    let mut named: Vec<(i64, i64, usize)> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut outermost: Option<(u32, i64)> = None;
    let own = (!on_device)
        .then(|| main_process(trace, &name_of))
        .flatten();
    for row in 0..ranges.len() {
        let is_used = if on_device {
            ranges.kind[row] == RangeKind::DEVICE_ANNOTATION
        } else {
            is_annotation(ranges.kind[row])
        };
        let is_elsewhere = device.is_some_and(|device| ranges.device[row] != device)
            || (filter.rows.as_ref()).is_some_and(|rows| rows.binary_search(&row).is_err());
        if !is_used
            || is_elsewhere
            || own.is_some_and(|own| process_of(trace, ranges.thread[row]) != own)
        {
            continue;
        }
        let name = cache.entry(ranges.name[row]).or_insert_with(|| {
            let name = name_of(trace.text(ranges.name[row]))?;
            let known = names.iter().position(|known| *known == name);
            Some(known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            }))
        });
        let Some(name) = *name else { continue };
        let (start, thread) = (ranges.start[row], ranges.thread[row].0);
        let end = start.saturating_add(ranges.duration[row]);
        // A phase inside a phase of the same thread is a part of it; but an image tower runs inside the forward pass of
        // its model, and what stands before it there only prepares it.
        if outermost.is_some_and(|(holder, until)| holder == thread && end <= until) {
            let tower = |around: &&mut (i64, i64, usize)| {
                names[name] == "vision" && around.2 != name && start >= around.0
            };
            if let Some(around) = named.last_mut().filter(tower) {
                let begin = std::mem::replace(&mut around.0, end);
                match named.len().checked_sub(2).map(|before| &mut named[before]) {
                    Some(before) if before.2 == name && before.1 == begin => before.1 = end,
                    _ => named.insert(named.len() - 1, (begin, end, name)),
                }
            }
            continue;
        }
        if end > start {
            outermost = Some((thread, end));
            named.push((start, end, name));
        }
    }
    // A tower may leave nothing of what is around it.
    named.retain(|&(start, end, _)| end > start);
    drop_chatter(&mut named, &names);
    if named.is_empty() {
        return None;
    }
    // Ranges of a program that runs several at once are no intervals of its time.
    let is_generation = names.iter().any(|name| is_phase(name));
    if !on_device && !is_generation && overlap_share(&named) > RANGE_OVERLAP_MAX_SHARE {
        return None;
    }
    Some(cut_ranges(&named, &names))
}

/// Device time by when it was launched.
struct LaunchedTime {
    /// When events were launched, in order, each with the device time of all up to it, ns.
    sums: Vec<(i64, i64)>,
}

impl LaunchedTime {
    fn of_events(events: &DeviceEvents, launched: &EventLaunchTimes) -> Self {
        let all = events.all().iter().enumerate();
        let mut sums: Vec<(i64, i64)> = all
            .filter_map(|(index, event)| {
                Some((launched.or_start(index, event.start)?, event.duration()))
            })
            .collect();
        sums.sort_unstable();
        let mut sum = 0_i64;
        for (_, time) in &mut sums {
            sum = sum.saturating_add(*time);
            *time = sum;
        }
        Self { sums }
    }

    /// Device time that was launched in `start..end`, ns.
    fn within(&self, start: i64, end: i64) -> i64 {
        let until = |time: i64| {
            let after = self.sums.partition_point(|(launch, _)| *launch < time);
            after.checked_sub(1).map_or(0, |last| self.sums[last].1)
        };
        until(end).saturating_sub(until(start)).max(0)
    }
}

/// A range of a thread with the ranges in it.
struct NestedRange {
    row: usize,
    start: i64,
    end: i64,
    name: String,
    thread: u32,
    inner: Vec<usize>,
    /// Device time that was launched in it, ns.
    time: i64,
}

/// Rows of the ranges that divide the work of a program: the outermost ones, or where each of these comes once, those in them that come
/// again and hold most of the device time that was launched there. Ranges of modules and layers are parts of a pass, and what warms up
/// is no part of the work. Of threads whose ranges overlap, one counts: that in whose ranges most device time was launched.
fn dividing_rows(
    trace: &Trace,
    launches: &LaunchedTime,
    name_of: impl Fn(&str) -> Option<String>,
) -> Vec<usize> {
    let own = main_process(trace, &name_of);
    let is_of_process =
        |row: usize| own.is_none_or(|own| process_of(trace, trace.ranges.thread[row]) == own);
    let (nested, outermost) = nest_ranges(trace, launches, &name_of, is_of_process);
    let outermost = threads_apart(&nested, outermost);
    let mut level = outermost.clone();
    for depth in 0.. {
        if comes_again(&nested, &level) {
            break;
        }
        let mut inside = Vec::new();
        for &one in &level {
            let range = &nested[one];
            if is_divided(&nested, range, launches) {
                inside.extend(&range.inner);
            } else {
                inside.push(one);
            }
        }
        if inside == level || depth == RANGE_DEPTH_MAX {
            level = outermost;
            break;
        }
        level = inside;
    }
    let mut rows: Vec<usize> = level.into_iter().map(|one| nested[one].row).collect();
    rows.sort_unstable();
    rows
}

/// The ranges of threads that have a name, and which of them lie in no other one.
fn nest_ranges(
    trace: &Trace,
    launches: &LaunchedTime,
    name_of: impl Fn(&str) -> Option<String>,
    is_used: impl Fn(usize) -> bool,
) -> (Vec<NestedRange>, Vec<usize>) {
    let ranges = &trace.ranges;
    let mut names: FxHashMap<StrId, Option<String>> = FxHashMap::default();
    let (mut nested, mut outermost) = (Vec::<NestedRange>::new(), Vec::new());
    let mut open: Vec<usize> = Vec::new();
    for row in (0..ranges.len()).filter(|&row| is_annotation(ranges.kind[row]) && is_used(row)) {
        let name = names
            .entry(ranges.name[row])
            .or_insert_with_key(|name| name_of(trace.text(*name)));
        let Some(name) = name else { continue };
        let (start, thread) = (ranges.start[row], ranges.thread[row].0);
        let end = start.saturating_add(ranges.duration[row]);
        while open
            .last()
            .is_some_and(|&one| nested[one].thread != thread || nested[one].end < end)
        {
            open.pop();
        }
        let number = nested.len();
        match open.last() {
            Some(&around) => nested[around].inner.push(number),
            None => outermost.push(number),
        }
        open.push(number);
        nested.push(NestedRange {
            row,
            start,
            end,
            name: name.clone(),
            thread,
            inner: Vec::new(),
            time: launches.within(start, end),
        });
    }
    (nested, outermost)
}

/// Ranges without those of other threads, where ranges of threads overlap.
fn threads_apart(nested: &[NestedRange], level: Vec<usize>) -> Vec<usize> {
    let intervals = |level: &[usize]| -> Vec<(i64, i64, usize)> {
        let ranges = level.iter().map(|&one| &nested[one]);
        ranges.map(|range| (range.start, range.end, 0)).collect()
    };
    if overlap_share(&intervals(&level)) <= RANGE_OVERLAP_MAX_SHARE {
        return level;
    }
    let mut times: BTreeMap<u32, i64> = BTreeMap::new();
    for &one in &level {
        let time = times.entry(nested[one].thread).or_default();
        *time = time.saturating_add(nested[one].time);
    }
    let busiest = times
        .into_iter()
        .max_by_key(|&(thread, time)| (time, std::cmp::Reverse(thread)));
    let is_kept = |one: &usize| busiest.is_none_or(|(thread, _)| nested[*one].thread == thread);
    level.into_iter().filter(is_kept).collect()
}

/// Whether ranges of one name that come again hold most of the device time of a level, apart from what warms up.
fn comes_again(nested: &[NestedRange], level: &[usize]) -> bool {
    let mut times: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
    for &one in level {
        let range = &nested[one];
        if !is_preparation(&range.name) {
            let (count, time) = times.entry(&range.name).or_default();
            *count += 1;
            *time = time.saturating_add(range.time);
        }
    }
    let time = |again: bool| -> i128 {
        let names = times.values().filter(|(count, _)| !again || *count > 1);
        names.map(|(_, time)| i128::from(*time)).sum()
    };
    2 * time(true) >= time(false)
}

/// Whether the ranges in a range are its parts: they hold most of the device time that was launched there from the first of them on.
fn is_divided(nested: &[NestedRange], range: &NestedRange, launches: &LaunchedTime) -> bool {
    let inner = || range.inner.iter().map(|&one| &nested[one]);
    let Some(first) = inner().map(|one| one.start).min() else {
        return false;
    };
    let inside = inner().fold(0_i64, |sum, one| sum.saturating_add(one.time));
    let all = launches.within(first, range.end);
    let are_parts_of_pass = inner().any(|one| is_part_of_model(&one.name));
    !is_preparation(&range.name)
        && !are_parts_of_pass
        && inside > 0
        && inside as f64 >= PHASES_COVERED_MIN_SHARE * all as f64
}

/// The part of the time of ranges in which another one runs.
fn overlap_share(named: &[(i64, i64, usize)]) -> f64 {
    let mut ranges: Vec<(i64, i64)> = named.iter().map(|&(start, end, _)| (start, end)).collect();
    ranges.sort_unstable();
    let sum: i128 = ranges
        .iter()
        .map(|&(start, end)| i128::from(end) - i128::from(start))
        .sum();
    let union = i128::from(union_length(ranges));
    (sum - union) as f64 / sum.max(1) as f64
}

/// The process with most ranges of a name, where several have some: those of ranks that were merged into one file overlap, and each
/// has all of the steps.
fn main_process(trace: &Trace, name_of: impl Fn(&str) -> Option<String>) -> Option<Process> {
    let ranges = &trace.ranges;
    let mut is_named = FxHashMap::default();
    let mut counts: BTreeMap<Process, usize> = BTreeMap::new();
    for row in (0..ranges.len()).filter(|&row| is_annotation(ranges.kind[row])) {
        let name = ranges.name[row];
        if *is_named
            .entry(name)
            .or_insert_with(|| name_of(trace.text(name)).is_some())
        {
            let process = process_of(trace, ranges.thread[row]);
            *counts.entry(process).or_default() += 1;
        }
    }
    let several = counts.len() > 1;
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
    most.filter(|_| several).map(|(process, _)| process)
}

/// Whether ranges of the device tell more than those of the host: the trace does not say when events were launched, and the host may
/// leave a range long before the device is done with its work.
pub(super) fn lie_on_device(
    trace: &Trace,
    events: &DeviceEvents,
    launched: &EventLaunchTimes,
) -> bool {
    let is_of_device = |kind: &RangeKind| *kind == RangeKind::DEVICE_ANNOTATION;
    !events.all().is_empty() && !launched.are_known && trace.ranges.kind.iter().any(is_of_device)
}

/// Drops names with less than a thousandth of the time: libraries put ranges around small things of their own.
fn drop_chatter(named: &mut Vec<(i64, i64, usize)>, names: &[String]) {
    let mut times = vec![0_i128; names.len()];
    for &(start, end, name) in named.iter() {
        times[name] += i128::from(end) - i128::from(start);
    }
    let all: i128 = times.iter().sum();
    named.retain(|&(_, _, name)| is_phase(&names[name]) || times[name] * 1000 >= all);
}

/// Cuts ranges that may overlap (on several threads) into intervals; where prefill and decode run at once it is `mixed`.
pub(crate) fn cut_ranges(named: &[(i64, i64, usize)], names: &[String]) -> Phases {
    let mut points: Vec<(i64, bool, usize)> = Vec::with_capacity(2 * named.len());
    for &(start, end, name) in named {
        points.push((start, true, name));
        points.push((end, false, name));
    }
    // Ends come before starts at one moment, so that ranges that touch stay apart.
    points.sort_unstable();
    let mut phases = Phases::empty(PhaseSource::Annotation);
    let mut active = vec![0_u32; names.len()];
    let mut current: Option<(&str, i64)> = None;
    for (index, &(time, begins, name)) in points.iter().enumerate() {
        if begins {
            active[name] += 1;
        } else {
            active[name] -= 1;
        }
        let next = points.get(index + 1);
        if next.is_some_and(|&(at, begins_next, _)| at == time && begins_next == begins) {
            continue;
        }
        let running: Vec<usize> = (0..names.len()).filter(|&name| active[name] > 0).collect();
        let phases_run = running
            .iter()
            .filter(|&&name| is_phase(&names[name]))
            .count();
        let before = current.as_ref().map(|(state, _)| *state);
        let state = match running[..] {
            [] => None,
            [one] => Some(names[one].as_str()),
            _ if phases_run > 1 => Some("mixed"),
            // Of other ranges, the one that began first holds the time.
            [first, ..] => {
                let still = |state: &&str| running.iter().any(|&name| names[name] == *state);
                before.filter(still).or(Some(names[first].as_str()))
            }
        };
        if before != state {
            if let Some((name, start)) = current.take()
                && time > start
            {
                phases.push(name, start, time);
            }
            current = state.map(|name| (name, time));
        }
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::timeline::launches::{EventCalls, Launches};

    fn windows(phases: &Phases) -> Vec<(i64, i64, &str)> {
        let name = |number: usize| phases.names[number].as_str();
        let windows = phases.windows.iter();
        windows
            .map(|window| (window.start, window.end, name(window.name)))
            .collect()
    }

    #[test]
    fn ranges_of_libraries_are_no_phases() {
        let names = ["graph", "cub::DeviceScan", "vision"].map(str::to_owned);
        let mut named = vec![(0, 3, 1), (10, 11, 2), (20, 10_000, 0)];
        drop_chatter(&mut named, &names);
        assert_eq!(named, [(10, 11, 2), (20, 10_000, 0)]);
        // Where there is nothing else, they are all there is.
        let mut named = vec![(0, 3, 1)];
        drop_chatter(&mut named, &names);
        assert_eq!(named.len(), 1);
    }

    #[test]
    fn an_image_tower_inside_prefill_is_a_phase() {
        let mut builder = llmprof_record::trace::TraceBuilder::default();
        let thread = builder.thread(1, 1);
        let mut range = |name: &str, start: i64, end: i64| {
            let name = builder.intern(name);
            builder.ranges.push(llmprof_record::trace::Range {
                start,
                duration: end - start,
                name,
                kind: RangeKind::NVTX,
                thread,
                ..Default::default()
            });
        };
        range("prefill", 0, 100);
        range("vision", 10, 30);
        range("vision_tower.layers.0", 12, 28);
        range("decode", 100, 200);
        let trace = builder.finish();
        let events = DeviceEvents::from_trace(&trace);
        let calls = EventCalls::from_launches(&events, &Launches::from_trace(&trace));
        let launched = EventLaunchTimes::from_events(&trace, &events, &calls);
        let program = Program::of_trace(&trace, false, None);
        let phases = Phases::resolve(&trace, &events, &launched, &[], None, &program);
        assert_eq!(
            windows(&phases),
            [
                (0, 30, "vision"),
                (30, 100, "prefill"),
                (100, 200, "decode")
            ]
        );
    }

    #[test]
    fn overlapping_phases_of_two_threads_are_mixed() {
        let names = ["prefill".to_owned(), "decode".to_owned()];
        let phases = cut_ranges(&[(0, 10, 0), (5, 20, 1), (20, 30, 1)], &names);
        assert_eq!(
            windows(&phases),
            [
                (0, 5, "prefill"),
                (5, 10, "mixed"),
                (10, 20, "decode"),
                (20, 30, "decode")
            ]
        );
        assert_eq!(phases.at(20), Some(3));
        assert_eq!(phases.at(30), None);
    }
}
