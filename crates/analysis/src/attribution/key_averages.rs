//! The table of `torch.profiler`'s `key_averages()`, by its own rules.
//!
//! Every operator, API call and overhead is a host row under its name; a slice's time is subtracted from the own time
//! of the slice around it. Device time goes to the operator whose id the event carries, and to all operators around it.
//! Device events are rows too, so the column of device times sums to twice the device time.

use llmprof_record::trace::{HostKind, MemoryEvent, MemoryPlace, StrId, Trace};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::attribution::Attribution;
use crate::row_order::sort_descending_named;
use crate::timeline::device_events::DeviceEvents;
use crate::timeline::intervals::add_saturating;
use crate::timeline::launches::{EventCalls, Launches};
use crate::timeline::nesting::{NONE, Nesting};

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyAverage {
    pub key: String,
    /// How many events have it.
    pub count: u64,
    /// Time on the host less that of slices inside.
    pub self_host_ns: Nanos,
    /// Time on the host, slices inside included.
    pub host_ns: Nanos,
    /// Time on the device of what the slice itself launched.
    pub self_device_ns: Nanos,
    /// Time on the device of what was launched inside.
    pub device_ns: Nanos,
}

/// The host slices that torch counts.
fn is_counted(kind: HostKind) -> bool {
    matches!(
        kind,
        HostKind::OPERATOR | HostKind::RUNTIME | HostKind::DRIVER | HostKind::OVERHEAD
    )
}

/// Times of every host slice: its own and all, on the host and on the device. In the order of [`Trace::hosts`].
pub(crate) struct SliceTimes {
    /// Duration less that of counted slices directly inside, ns.
    pub(crate) self_host: Vec<i64>,
    /// Device time of events that carry the slice's id, ns.
    pub(crate) self_device: Vec<i64>,
    /// The same with all slices inside, ns.
    pub(crate) device: Vec<i64>,
    /// Bytes of the host's memory taken less those given back while the slice was the innermost of its thread; absent where
    /// the trace has no such events.
    pub(crate) self_host_memory: Option<Vec<i64>>,
}

impl SliceTimes {
    /// Works out the times of all slices, taking the operator of each event from `operator_of`.
    pub(crate) fn from_trace(
        trace: &Trace,
        nesting: &Nesting,
        events: &DeviceEvents,
        operator_of: impl Fn(usize) -> Option<u32>,
    ) -> Self {
        let hosts = &trace.hosts;
        let (kind, duration) = (&hosts.kind[..], &hosts.duration[..]);
        // The nearest counted slice around each row; Python functions lie between operators.
        let holders = nesting.inherit(|row, around| {
            if is_counted(kind[row]) {
                row as u32
            } else {
                around
            }
        });
        let holder = |row: usize| {
            nesting
                .parent(row as u32)
                .map_or(NONE, |parent| holders[parent as usize])
        };
        let mut self_host = duration.to_vec();
        let mut self_device = vec![0_i64; hosts.len()];
        for (index, event) in events.all().iter().enumerate() {
            if let Some(row) = operator_of(index) {
                let time = &mut self_device[row as usize];
                *time = time.saturating_add(event.duration());
            }
        }
        let mut device = self_device.clone();
        // Inner rows come after outer ones: backwards, every row is complete before it is passed on.
        for row in (0..hosts.len()).rev() {
            if !is_counted(kind[row]) {
                continue;
            }
            let around = holder(row);
            if around != NONE {
                let around = around as usize;
                self_host[around] = self_host[around].saturating_sub(duration[row]);
                device[around] = device[around].saturating_add(device[row]);
            }
        }
        Self {
            self_host,
            self_device,
            device,
            self_host_memory: self_host_memory(trace, nesting),
        }
    }
}

/// As in torch's profiler, except for events of other threads, which torch gives to the slice that runs at the time.
fn self_host_memory(trace: &Trace, nesting: &Nesting) -> Option<Vec<i64>> {
    let hosts = &trace.hosts;
    let (thread, start) = (&hosts.thread[..], &hosts.start[..]);
    let mut bytes: Option<Vec<i64>> = None;
    let of_host = |event: &MemoryEvent| event.place == MemoryPlace::HOST;
    for event in trace.memory.rows().filter(of_host) {
        let bytes = bytes.get_or_insert_with(|| vec![0; hosts.len()]);
        // Rows are sorted by thread, then start: the last that began by then, or one around it, was the innermost.
        let (mut low, mut high) = (0, hosts.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if (thread[middle], start[middle]) <= (event.thread, event.time) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let Some(last) = low
            .checked_sub(1)
            .filter(|&row| thread[row] == event.thread)
        else {
            continue;
        };
        let holds = |&row: &u32| {
            let row = row as usize;
            is_counted(hosts.kind[row])
                && event.time <= start[row].saturating_add(hosts.duration[row])
        };
        if let Some(row) = nesting.outwards(last as u32).find(holds) {
            add_saturating(&mut bytes[row as usize], event.bytes);
        }
    }
    bytes
}

/// The table, the longest time on the device first.
pub fn key_averages(trace: &Trace) -> Vec<KeyAverage> {
    let (events, nesting) = (DeviceEvents::from_trace(trace), Nesting::from_trace(trace));
    let calls = EventCalls::from_launches(&events, &Launches::from_trace(trace));
    let attribution = Attribution::from_trace(trace, &events, &calls, &nesting);
    let times = SliceTimes::from_trace(trace, &nesting, &events, |index| {
        attribution.operator(index)
    });
    let mut rows: FxHashMap<StrId, KeyAverage> = FxHashMap::default();
    let row_of = |name| KeyAverage {
        key: trace.text(name).to_owned(),
        count: 0,
        self_host_ns: Nanos(0),
        host_ns: Nanos(0),
        self_device_ns: Nanos(0),
        device_ns: Nanos(0),
    };
    let hosts = &trace.hosts;
    for row in 0..hosts.len() {
        if !is_counted(hosts.kind[row]) {
            continue;
        }
        let name = hosts.name[row];
        let sum = rows.entry(name).or_insert_with(|| row_of(name));
        sum.count += 1;
        add_saturating(&mut sum.self_host_ns.0, times.self_host[row]);
        add_saturating(&mut sum.host_ns.0, hosts.duration[row]);
        add_saturating(&mut sum.self_device_ns.0, times.self_device[row]);
        add_saturating(&mut sum.device_ns.0, times.device[row]);
    }
    for event in events.all() {
        let sum = rows.entry(event.name).or_insert_with(|| row_of(event.name));
        sum.count += 1;
        add_saturating(&mut sum.self_device_ns.0, event.duration());
        add_saturating(&mut sum.device_ns.0, event.duration());
    }
    let mut rows: Vec<KeyAverage> = rows.into_values().collect();
    sort_descending_named(&mut rows, |row| (row.self_device_ns.0, &row.key));
    rows
}
