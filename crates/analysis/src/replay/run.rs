//! The walk over a graph.

use rustc_hash::FxHashMap;

use super::edit::Edit;
use super::graph::{Graph, NO_WORK, Wait};

/// However much recording costs, a part of a segment is the program's own.
const OWN_SHARE_MIN: f64 = 0.15;

/// How recorded durations are read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Model {
    /// What recording costs per host event, ns; 0 replays the recording as it was.
    pub event_cost_ns: f64,
    /// One launch latency and one gap for all work instead of those that were recorded: what the rules explain by themselves.
    pub with_constants: bool,
}

/// When everything happened in a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// End of each segment.
    pub(super) host: Vec<i64>,
    /// End of each piece of device work.
    pub(super) work: Vec<i64>,
}

/// Marks of a segment.
const LIMITED: u8 = 1;
const SHORTENED: u8 = 2;
const UNWAITED: u8 = 4;
/// Marks of device work.
const RESIZED: u8 = 1;
const DROPPED: u8 = 2;
const UNORDERED: u8 = 4;

/// An edit by segment and by work: a byte for each says whether there is more to know, since most of them stay as they are.
struct Changes {
    segments: Vec<u8>,
    work: Vec<u8>,
    most: FxHashMap<u32, i64>,
    less: FxHashMap<u32, i64>,
    durations: FxHashMap<u32, i64>,
}

impl Changes {
    fn of(graph: &Graph, edit: &Edit) -> Self {
        let mut changes = Self {
            segments: vec![0; graph.segment_count()],
            work: vec![0; graph.work.len()],
            most: FxHashMap::default(),
            less: FxHashMap::default(),
            durations: FxHashMap::default(),
        };
        for &(segment, most) in &edit.host {
            changes.segments[segment as usize] |= LIMITED;
            let known = changes.most.entry(segment).or_insert(most);
            *known = (*known).min(most);
        }
        for &(segment, less) in &edit.shortened {
            changes.segments[segment as usize] |= SHORTENED;
            let known = changes.less.entry(segment).or_insert(0);
            *known = (*known).max(less);
        }
        for &segment in &edit.unwaited {
            changes.segments[segment as usize] |= UNWAITED;
        }
        for &(work, duration) in &edit.device {
            changes.work[work as usize] |= RESIZED;
            let recorded = graph.work[work as usize].duration;
            let known = changes.durations.entry(work).or_insert(recorded);
            *known = (*known).min(duration);
        }
        for (mark, works) in [(DROPPED, &edit.dropped), (UNORDERED, &edit.unordered)] {
            for &work in works {
                changes.work[work as usize] |= mark;
            }
        }
        changes
    }
}

/// The nearest whole number, a half away from zero, as [`f64::round`] has it, which is a call of a function on older processors.
fn rounded(value: f64) -> i64 {
    let whole = value as i64;
    let rest = value - whole as f64;
    let step = i64::from(rest >= 0.5) - i64::from(rest <= -0.5);
    whole.saturating_add(step)
}

impl Graph {
    /// Replays the trace with a change.
    pub fn replay(&self, model: Model, edit: &Edit) -> Times {
        let changes = Changes::of(self, edit);
        let cost = model.event_cost_ns / 2.0;
        let without_cost = |duration: i64| -> i64 {
            let own = duration as f64 * OWN_SHARE_MIN;
            rounded((duration as f64 - cost).max(own))
        };
        let mut times = Times {
            host: vec![0; self.segment_count()],
            work: vec![0; self.work.len()],
        };
        let mut threads = vec![i64::MIN; self.threads];
        let mut streams = vec![i64::MIN / 2; self.streams];
        for &segment in &self.order {
            let segment = segment as usize;
            let now = &mut threads[self.segments.thread[segment].0 as usize];
            if *now == i64::MIN {
                *now = self.segments.start[segment];
            }
            let begin = *now;
            let mut own_end = begin;
            let launched = self.launched_by(segment..segment + 1);
            for work in launched.clone() {
                let one = &self.work[work];
                let tail = &mut streams[one.stream as usize];
                let marks = changes.work[work];
                if marks & DROPPED != 0 {
                    times.work[work] = (*tail).max(begin);
                    continue;
                }
                let (latency, gap) = if model.with_constants {
                    let is_node = work > launched.start;
                    let gap = if is_node {
                        self.typical.node_gap
                    } else {
                        self.typical.gap
                    };
                    let latency = if launched.len() > 1 {
                        self.typical.graph_latency
                    } else {
                        self.typical.latency
                    };
                    (latency, gap)
                } else {
                    (one.latency, one.gap)
                };
                let mut start = (begin + without_cost(latency)).max(*tail + gap);
                if one.after != NO_WORK && marks & UNORDERED == 0 {
                    start = start.max(times.work[one.after as usize]);
                }
                if !edit.is_alone {
                    start += one.delay;
                }
                let duration = if marks & RESIZED == 0 {
                    one.duration
                } else {
                    changes.durations[&(work as u32)]
                };
                let end = start + duration;
                times.work[work] = end;
                *tail = (*tail).max(end);
                own_end = own_end.max(end);
            }
            let (wait, tail) = self.waits[segment];
            let duration = self.segments.duration[segment];
            let duration = if self.segments.is_marked[segment] {
                without_cost(duration)
            } else {
                duration
            };
            let marks = changes.segments[segment];
            let less = if marks & SHORTENED == 0 {
                0
            } else {
                changes.less[&(segment as u32)]
            };
            let duration = (duration - less).max(0);
            let end = if marks & LIMITED != 0 {
                begin + duration.min(changes.most[&(segment as u32)])
            } else if wait == Wait::No {
                begin + duration
            } else {
                let until = match wait {
                    _ if marks & UNWAITED != 0 => begin,
                    Wait::No => begin,
                    Wait::Device => streams.iter().copied().max().unwrap_or(begin),
                    Wait::Stream(stream) => streams[stream as usize],
                    Wait::Work(work) => times.work[work as usize],
                    Wait::Own => own_end,
                };
                until.max(begin) + without_cost(tail)
            };
            threads[self.segments.thread[segment].0 as usize] = end;
            times.host[segment] = end;
        }
        times
    }

    /// The recording itself.
    pub fn recorded(&self) -> Times {
        let segments = &self.segments;
        let host = segments.start.iter().zip(&segments.duration);
        Times {
            host: host.map(|(start, duration)| start + duration).collect(),
            work: self.work.iter().map(super::graph::Work::end).collect(),
        }
    }

    /// How long each window takes, in the order of time: from when the host begins it, or the device has done what was launched
    /// before, until the host has left it and the device has done what it launched. Work in `edit` that is not done counts nowhere.
    pub fn window_times(&self, times: &Times, edit: &Edit) -> Vec<i64> {
        let mut is_dropped = vec![false; self.work.len()];
        for &work in &edit.dropped {
            is_dropped[work as usize] = true;
        }
        let mut before = i64::MIN;
        let mut found = Vec::with_capacity(self.windows.len());
        let ends = self.device_ends(times, &is_dropped);
        for (window, device_end) in self.windows.iter().zip(ends) {
            let segments = self.segments_in(*window);
            if segments.is_empty() {
                found.push(0);
                continue;
            }
            let first = segments.start;
            let is_first = first == 0 || self.segments.thread[first - 1] != self.main;
            let begin = if is_first {
                self.segments.start[first]
            } else {
                times.host[first - 1]
            };
            let end = times.host[segments.end - 1].max(device_end);
            found.push((end - begin.max(before)).max(0));
            before = before.max(end);
        }
        found
    }

    /// When the work of each window ended.
    fn device_ends(&self, times: &Times, is_dropped: &[bool]) -> Vec<i64> {
        let mut ends = vec![i64::MIN; self.windows.len()];
        for (index, work) in self.work.iter().enumerate() {
            if is_dropped[index] || !self.is_own_work(work) {
                continue;
            }
            let launched = self.segments.start[work.segment as usize];
            let after = self.windows.partition_point(|w| w.start <= launched);
            let Some(window) = after.checked_sub(1) else {
                continue;
            };
            if launched < self.windows[window].end {
                ends[window] = ends[window].max(times.work[index]);
            }
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_rounded_as_floats_are(whole in -1_000_000_i64..1_000_000, part in 0_u32..8, any in any::<f64>()) {
            for value in [whole as f64 + f64::from(part) / 8.0, 0.5 - f64::EPSILON / 4.0, any] {
                prop_assert_eq!(rounded(value), value.round() as i64);
            }
        }
    }
}
