//! Windows that follow the device: how long a range lasts where the host leaves it before its work is done.

use std::collections::{BTreeMap, BTreeSet};

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_units::stats::upper_median;

use super::{Phases, TraceWindow};
use crate::row_order::sort_descending;

use crate::thresholds::{
    CONCURRENT_RANGES_NAMED_MAX, DEVICE_PACE_MIN_SHARE, DEVICES_MAX, LAUNCH_MAX_NS,
    RANGE_OVERLAP_MAX_SHARE, RANGES_AWAITED_MIN_SHARE,
};
use crate::timeline::device_events::{DeviceEvent, DeviceEvents};
use crate::timeline::intervals::{add_saturating, union_length};
use crate::timeline::launch_times::EventLaunchTimes;

impl Phases {
    /// Lets the windows follow the device where the program is asynchronous: where the device ends most of its work after the host has
    /// left the range that it was launched in. Where the clocks disagree, only those of the device tell anything.
    ///
    /// A window is then the time from the first device event of a range, or the end of the range before it, to the first one of the
    /// next; a pause that is longer than the work before it, or mostly filled by work of no range, belongs to no window. Ranges
    /// without device events have none. Fails where ranges run at once on streams of their own: no time is that of one of them.
    fn follow_device(
        &mut self,
        events: &DeviceEvents,
        launched: &EventLaunchTimes,
        device: Option<u32>,
    ) -> Result<(), Vec<Issue>> {
        let mut works: Vec<RangeWork> = vec![RangeWork::default(); self.windows.len()];
        let mut between: Vec<(i64, i64)> = Vec::new();
        // With that of events whose launch was not recorded.
        let mut earlier: Vec<(i64, i64)> = Vec::new();
        for (index, event) in events.all().iter().enumerate() {
            if device.is_some_and(|device| device != event.device) {
                continue;
            }
            let Some(launch) = launched.get(index) else {
                earlier.push((event.start, event.end));
                continue;
            };
            match self.at(launch) {
                Some(window) => works[window].add(event, launch),
                None => between.push((event.start, event.end)),
            }
        }
        between.sort_unstable();
        earlier.extend_from_slice(&between);
        earlier.sort_unstable();
        // A range of a few small kernels, such as one that prepares the inputs, says little.
        let (mut later, mut all) = (0_i64, 0_i64);
        let mut with_work: Vec<(TraceWindow, (i64, i64))> = Vec::new();
        for (window, work) in self.windows.iter().zip(&works) {
            let Some(span) = work.span else { continue };
            add_saturating(&mut all, work.time());
            if span.1 > window.end {
                add_saturating(&mut later, work.time());
            }
            // What is done before the work of the range before has no time of its own.
            match with_work.last_mut() {
                Some((last, around)) if span.1 <= around.1 => {
                    last.end = last.end.max(window.end);
                }
                _ => with_work.push((*window, span)),
            }
        }
        let is_later = launched.clocks_disagree || later > all - later;
        // A device that works for a small part of the ranges does not set their pace: they are as long as they were recorded.
        let length = |(start, end): (i64, i64)| end.saturating_sub(start) as f64;
        let ranges = with_work
            .iter()
            .map(|(range, _)| length((range.start, range.end)));
        let busy = with_work.iter().map(|(_, span)| length(*span));
        let sets_pace = busy.sum::<f64>() >= DEVICE_PACE_MIN_SHARE * ranges.sum::<f64>();
        // From one range's work to the next one's is no time of a range that mostly prepares its work.
        let pauses = with_work
            .windows(2)
            .filter(|pair| length((pair[0].1.1, pair[1].1.0)) > length(pair[0].1))
            .count();
        if (!sets_pace || 2 * pauses >= with_work.len())
            && !launched.clocks_disagree
            && self.extend_awaited(&works, &earlier)
        {
            return Ok(());
        }
        if with_work.is_empty() || !is_later || !sets_pace {
            return Ok(());
        }
        if concurrent_share(&works) > RANGE_OVERLAP_MAX_SHARE {
            return Err(self.concurrent_ranges(&works));
        }
        let mut windows: Vec<TraceWindow> = Vec::new();
        for (place, &(window, (first, last))) in with_work.iter().enumerate() {
            // Work of the next range may be prefetched, on a stream of its own, while this one runs.
            let start = windows.last().map_or(first, |one| one.end.max(first));
            let next = with_work.get(place + 1).map(|(_, span)| span.0.max(last));
            let next = next.unwrap_or(i64::MAX);
            let pause = next.saturating_sub(last);
            let others = &between[between.partition_point(|&(start, _)| start < last)..];
            let others = others.iter().take_while(|&&(start, _)| start < next);
            let is_of_others = union_length(others.copied()) > pause / 2;
            let is_pause = is_of_others || pause > last.saturating_sub(first);
            windows.push(TraceWindow {
                start,
                end: if is_pause { last } else { next }.max(start),
                ..window
            });
        }
        self.windows = windows;
        self.launched = Some(with_work.into_iter().map(|(window, _)| window).collect());
        Ok(())
    }

    /// Where a program waits for the device before its next range, the device is idle when a range begins, the first kernel starts when
    /// it is launched, and the work of the range is done when the next one begins: the range lasts until the host has left it and its work
    /// has ended. False where kernels wait for those of earlier ranges. `others`: the work of no range, by start.
    fn extend_awaited(&mut self, works: &[RangeWork], others: &[(i64, i64)]) -> bool {
        let latest_ends: Vec<i64> = others
            .iter()
            .scan(i64::MIN, |latest, &(_, end)| {
                *latest = (*latest).max(end);
                Some(*latest)
            })
            .collect();
        let others_end = |before: i64| {
            let count = others.partition_point(|&(start, _)| start < before);
            count
                .checked_sub(1)
                .map_or(i64::MIN, |last| latest_ends[last])
        };
        let next_start = |ranges: &[TraceWindow], range: usize| {
            ranges.get(range + 1).map_or(i64::MAX, |next| next.start)
        };
        let with_work = works
            .iter()
            .enumerate()
            .filter(|(_, work)| work.span.is_some());
        let is_awaited = |&(range, work): &(usize, &RangeWork)| {
            work.span.is_some_and(|(first, last)| {
                work.first_delay <= LAUNCH_MAX_NS
                    && others_end(first) <= self.windows[range].start
                    && last <= next_start(&self.windows, range)
            })
        };
        let awaited = with_work.clone().filter(is_awaited).count();
        if (awaited as f64) < RANGES_AWAITED_MIN_SHARE * with_work.count() as f64 {
            return false;
        }
        let mut lasting = self.windows.clone();
        for (range, work) in works.iter().enumerate() {
            let done = work.span.map_or(i64::MIN, |(_, end)| {
                end.min(next_start(&self.windows, range))
            });
            lasting[range].end = lasting[range].end.max(done);
        }
        if lasting
            .iter()
            .zip(&self.windows)
            .any(|(lasting, range)| lasting.end > range.end)
        {
            self.launched = Some(std::mem::replace(&mut self.windows, lasting));
        }
        true
    }

    /// For each name how long its ranges run on the device beside those of others: the names with most ranges first.
    fn concurrent_ranges(&self, works: &[RangeWork]) -> Vec<Issue> {
        let mut spans: Vec<Vec<i64>> = vec![Vec::new(); self.names.len()];
        for (window, work) in self.windows.iter().zip(works) {
            spans[window.name].extend(work.span.map(|(first, last)| last.saturating_sub(first)));
        }
        let mut names: Vec<(&String, Vec<i64>)> = self.names.iter().zip(spans).collect();
        names.retain(|(_, spans)| !spans.is_empty());
        sort_descending(&mut names, |(_, spans)| spans.len() as i64);
        names.truncate(CONCURRENT_RANGES_NAMED_MAX);
        let issues = names.into_iter().map(|(name, mut spans)| {
            let count = spans.len() as u64;
            let usual = upper_median(&mut spans).unwrap_or_default();
            Issue::warning(IssueCode::AnalysisConcurrentRanges)
                .with("range", name.as_str())
                .with("span_ns", usual)
                .counting(count)
        });
        issues.collect()
    }

    /// The same for each device where each range launches on one device only: these are replicas, which run apart.
    pub(super) fn follow_devices(
        &mut self,
        events: &DeviceEvents,
        launched: &EventLaunchTimes,
    ) -> Result<(), Vec<Issue>> {
        let mut devices: Vec<Option<u32>> = vec![None; self.windows.len()];
        for (index, event) in events.all().iter().enumerate() {
            if let Some(window) = launched.get(index).and_then(|time| self.at(time))
                && *devices[window].get_or_insert(event.device) != event.device
            {
                return self.follow_device(events, launched, None);
            }
        }
        let used: BTreeSet<u32> = devices.iter().flatten().copied().collect();
        if used.len() < 2 || used.len() > DEVICES_MAX || !self.steps.is_empty() {
            return self.follow_device(events, launched, None);
        }
        let mut apart = Self::empty(self.source);
        for device in used {
            let mut own = self.clone();
            let mut of_window = devices.iter();
            own.windows
                .retain(|_| of_window.next().is_some_and(|one| *one == Some(device)));
            own.follow_device(events, launched, Some(device))?;
            apart.absorb_device(device, &own);
        }
        apart.order_devices();
        (self.names, self.windows) = (apart.names, apart.windows);
        (self.launched, self.of_device) = (apart.launched, apart.of_device);
        Ok(())
    }
}

/// Device of a stream, its context and its number.
type StreamKey = (u32, (u32, u32));

/// What a device did for one range.
#[derive(Clone, Debug, Default)]
struct RangeWork {
    /// First start and last end.
    span: Option<(i64, i64)>,
    /// From the launch call of the first event to its start.
    first_delay: i64,
    /// Time of each stream.
    streams: Vec<(StreamKey, i64)>,
}

impl RangeWork {
    fn add(&mut self, event: &DeviceEvent, launch: i64) {
        if self.span.is_none_or(|(first, _)| event.start < first) {
            self.first_delay = event.start.saturating_sub(launch);
        }
        let span = self.span.get_or_insert((event.start, event.end));
        *span = (span.0.min(event.start), span.1.max(event.end));
        let stream = (event.device, event.stream);
        let known = self.streams.iter().position(|(known, _)| *known == stream);
        let known = known.unwrap_or_else(|| {
            self.streams.push((stream, 0));
            self.streams.len() - 1
        });
        add_saturating(&mut self.streams[known].1, event.duration());
    }

    fn time(&self) -> i64 {
        let times = self.streams.iter().map(|(_, time)| *time);
        times.fold(0, i64::saturating_add)
    }
}

/// The part of the time of ranges in which one of another stream runs. A stream works in order, so that ranges with most of their
/// work on one stream do not run at once, though parts of the next one may be prefetched on others.
fn concurrent_share(works: &[RangeWork]) -> f64 {
    let mut streams: BTreeMap<StreamKey, Vec<(i64, i64)>> = BTreeMap::new();
    for work in works {
        let main = work.streams.iter().max_by_key(|(_, time)| *time);
        if let Some(((stream, _), span)) = main.zip(work.span) {
            streams.entry(*stream).or_default().push(span);
        }
    }
    let mut all: Vec<(i64, i64)> = streams.values().flatten().copied().collect();
    all.sort_unstable();
    let lengths = streams.into_values().map(|mut spans| {
        spans.sort_unstable();
        i128::from(union_length(spans))
    });
    let sum: i128 = lengths.sum();
    (sum - i128::from(union_length(all))) as f64 / sum.max(1) as f64
}
