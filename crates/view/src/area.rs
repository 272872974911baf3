//! Totals of a selected time, and search by name.

use llmprof_record::run::RunRecord;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::lanes::{LaneKind, idle_parts, table};
use crate::timeline::ViewTimeline;

/// Names that are listed, those with most time first.
const NAMES_MAX: usize = 100;
/// Names that a search lists.
const FOUND_MAX: usize = 200;

impl ViewTimeline {
    /// What ran between two moments (ns since the origin): busy and idle time of each device, time by category and name.
    pub fn totals_json(&self, record: &RunRecord, from: i64, to: i64) -> Value {
        let (from, to) = (
            self.origin.saturating_add(from),
            self.origin.saturating_add(to.max(from)),
        );
        let mut by_name: FxHashMap<(bool, u32), (u64, i64)> = FxHashMap::default();
        let mut lanes = Vec::new();
        for (number, lane) in self.lanes.iter().enumerate() {
            let is_device = lane.kind == LaneKind::Stream;
            let (mut count, mut covered) = (0, 0);
            for track in &lane.tracks {
                covered += track.covered(from, to);
                let begun = track.begun_before(from);
                let reaches_in = begun
                    .checked_sub(1)
                    .filter(|&row| track.slice(row).end > from);
                let rows = reaches_in.unwrap_or(begun)..track.begun_before(to);
                count += rows.len();
                if matches!(lane.kind, LaneKind::Stream | LaneKind::Host) {
                    for row in rows {
                        let slice = track.slice(row);
                        let sum = by_name.entry((is_device, slice.name)).or_default();
                        sum.0 += 1;
                        sum.1 += slice.end.min(to) - slice.start.max(from);
                    }
                }
            }
            if count > 0 {
                lanes.push(json!({"lane": number, "count": count, "covered_ns": covered}));
            }
        }
        let mut categories: FxHashMap<&str, (u64, i64)> = FxHashMap::default();
        for (&(is_device, name), &(count, time)) in &by_name {
            if is_device {
                let sum = categories.entry(self.names.category(name)).or_default();
                sum.0 += count;
                sum.1 += time;
            }
        }
        let mut categories: Vec<_> = categories.into_iter().collect();
        categories.sort_by_key(|(name, (_, time))| (std::cmp::Reverse(*time), *name));
        let mut names: Vec<_> = by_name.into_iter().collect();
        names.sort_by_key(|((_, name), (_, time))| (std::cmp::Reverse(*time), *name));
        let named = |is_device: bool| -> Vec<Value> {
            let rows = names.iter().filter(|((device, _), _)| *device == is_device);
            rows.take(NAMES_MAX)
                .map(|((_, name), (count, time))| {
                    json!({"name": name, "label": self.names.label(*name), "category": self.names.category(*name),
                           "count": count, "total_ns": time})
                })
                .collect()
        };
        json!({
            "from_ns": from - self.origin, "to_ns": to - self.origin,
            "devices": self.devices_between(from, to),
            "lanes": lanes,
            "modules": self.modules_between(record, from, to),
            "categories": categories.iter().map(|(name, (count, time))| json!({"category": name, "count": count, "total_ns": time})).collect::<Vec<_>>(),
            "device_names": named(true),
            "host_names": named(false),
        })
    }

    /// Device time by the modules that launched it, those with most time first; empty where no module is recorded.
    fn modules_between(&self, record: &RunRecord, from: i64, to: i64) -> Vec<Value> {
        let mut all: FxHashMap<String, (u64, i64)> = FxHashMap::default();
        for (number, on) in self.traces.iter().enumerate() {
            let mut sums = FxHashMap::default();
            let streams = self.lanes.iter();
            let streams =
                streams.filter(|lane| lane.kind == LaneKind::Stream && lane.trace == number);
            for track in streams.flat_map(|lane| &lane.tracks) {
                let begun = track.begun_before(from).saturating_sub(1);
                for slice in (begun..track.begun_before(to)).map(|row| track.slice(row)) {
                    let inside = slice.end.min(to) - slice.start.max(from);
                    let origin = match slice.event.table() {
                        table::KERNELS => on.origins.of_kernel(slice.event.row()),
                        table::COPIES => on.origins.of_copy(slice.event.row()),
                        _ => on.origins.of_memset(slice.event.row()),
                    };
                    if inside > 0 {
                        let sum = sums
                            .entry(origin.modules_key())
                            .or_insert((origin, 0_u64, 0_i64));
                        sum.1 += 1;
                        sum.2 += inside;
                    }
                }
            }
            for (origin, count, time) in sums.into_values() {
                let trace = &record.traces[on.index].trace;
                let modules = on.origins.modules(trace, origin);
                let sum = all.entry(modules.unwrap_or_default()).or_default();
                sum.0 += count;
                sum.1 += time;
            }
        }
        if all.keys().all(String::is_empty) {
            return Vec::new();
        }
        let mut rows: Vec<_> = all.into_iter().collect();
        rows.sort_by(|a, b| b.1.1.cmp(&a.1.1).then_with(|| a.0.cmp(&b.0)));
        let others = rows.split_off(rows.len().min(NAMES_MAX));
        if !others.is_empty() {
            let (count, time) = others
                .iter()
                .fold((0, 0), |sum, (_, one)| (sum.0 + one.0, sum.1 + one.1));
            rows.push((format!("{} other modules", others.len()), (count, time)));
        }
        rows.into_iter()
            .map(|(modules, (count, time))| {
                let modules = if modules.is_empty() {
                    "outside of modules"
                } else {
                    &modules
                };
                json!({"module": modules, "count": count, "total_ns": time})
            })
            .collect()
    }

    /// Busy and idle time of every device. Causes are of gaps that lie in the interval as a whole; a gap that the interval cuts counts
    /// as `cut_ns`, since its causes are known of the whole gap alone.
    fn devices_between(&self, from: i64, to: i64) -> Vec<Value> {
        let mut devices = Vec::new();
        for lane in &self.lanes {
            if lane.kind != LaneKind::GpuIdle {
                continue;
            }
            let trace = &self.traces[lane.trace];
            let streams = self.lanes.iter().filter(|other| {
                other.kind == LaneKind::Stream
                    && other.group == lane.group
                    && other.trace == lane.trace
            });
            let spans = streams.flat_map(|stream| &stream.tracks);
            let spans = spans
                .filter(|track| !track.is_empty())
                .map(|track| (track.slice(0).start, track.slice(track.len() - 1).end));
            let Some((first, last)) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
                continue;
            };
            let span = (last.min(to) - first.max(from)).max(0);
            let (mut idle, mut cut) = (0, 0);
            let mut causes: Vec<(&str, i64)> = Vec::new();
            for track in &lane.tracks {
                let begun = track.begun_before(from);
                for row in begun.saturating_sub(1)..track.begun_before(to) {
                    let slice = track.slice(row);
                    let inside = slice.end.min(to) - slice.start.max(from);
                    if inside <= 0 || slice.event.table() != table::IDLE_GAPS {
                        continue;
                    }
                    idle += inside;
                    if inside < slice.duration() {
                        cut += inside;
                        continue;
                    }
                    for (label, time) in idle_parts(&trace.origins.gaps()[slice.event.row()]) {
                        match causes.iter_mut().find(|(known, _)| *known == label) {
                            Some(sum) => sum.1 += time,
                            None => causes.push((label, time)),
                        }
                    }
                }
            }
            causes.retain(|(_, time)| *time > 0);
            causes.sort_by_key(|(label, time)| (std::cmp::Reverse(*time), *label));
            devices.push(json!({
                "device": lane.group, "span_ns": span, "busy_ns": span - idle, "idle_ns": idle, "cut_ns": cut,
                "causes": causes.iter().map(|(label, time)| json!({"cause": label, "total_ns": time})).collect::<Vec<_>>(),
            }));
        }
        devices
    }

    /// Names that contain a text, with how often they occur and how long.
    pub fn search_json(&self, text: &str) -> Value {
        let wanted = self.names.containing(text);
        let mut sums = vec![(0_u64, 0_i64); wanted.len()];
        for (_, slice) in self.slices(|_| true) {
            let name = slice.name as usize;
            if wanted[name] {
                sums[name].0 += 1;
                sums[name].1 += slice.duration();
            }
        }
        let mut names: Vec<u32> = (0..wanted.len() as u32)
            .filter(|&name| sums[name as usize].0 > 0)
            .collect();
        let count: u64 = sums.iter().map(|sum| sum.0).sum();
        names.sort_by_key(|&name| (std::cmp::Reverse(sums[name as usize].1), name));
        let rows = names.iter().take(FOUND_MAX).map(|&name| {
            let (count, time) = sums[name as usize];
            json!({"name": name, "label": self.names.label(name), "category": self.names.category(name),
                   "count": count, "total_ns": time})
        });
        json!({"names": rows.collect::<Vec<_>>(), "count": count, "left_off": names.len().saturating_sub(FOUND_MAX)})
    }

    /// The nearest slice whose name contains `text` that begins after `time` (or before it, going backwards).
    pub fn find_json(&self, text: &str, name: Option<u32>, time: i64, is_forward: bool) -> Value {
        let wanted = match name {
            Some(name) => (0..self.names.len() as u32)
                .map(|other| other == name)
                .collect(),
            None => self.names.containing(text),
        };
        let time = self.origin.saturating_add(time);
        let is_past = |start: i64| {
            if is_forward {
                start > time
            } else {
                start < time
            }
        };
        let nearest = self
            .slices(|_| true)
            .filter(|(_, slice)| wanted[slice.name as usize] && is_past(slice.start))
            .min_by_key(|(lane, slice)| (slice.start.abs_diff(time), *lane));
        nearest.map_or(Value::Null, |(lane, slice)| {
            let track = self.locate(self.lanes[lane].trace, slice.event, slice.start);
            json!({"lane": lane, "track": track.map(|place| place.1), "event": slice.event.0, "trace": self.lanes[lane].trace,
                   "name": slice.name, "label": self.names.label(slice.name),
                   "start_ns": slice.start - self.origin, "duration_ns": slice.duration()})
        })
    }
}
