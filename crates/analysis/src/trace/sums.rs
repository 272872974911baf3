//! Sums over a whole trace.

use llmprof_record::trace::{HostKind, StrId, Trace};
use llmprof_units::{Bytes, Nanos};
use rustc_hash::FxHashMap;

use crate::attribution::Attribution;
use crate::phases::EventWindows;
use crate::timeline::breakdown::DeviceBreakdown;
use crate::timeline::device_events::DeviceEvents;
use crate::timeline::device_events::WHOLE_GRAPH;
use crate::timeline::extent::{host_span, span};
use crate::timeline::intervals::{add, union_length};
use crate::timeline::launches::is_api;
use crate::timeline::slices;
use crate::trace::{Totals, TransferRow, UnattributedRow};

pub(crate) fn transfers(trace: &Trace) -> Vec<TransferRow> {
    let (copies, memsets) = (&trace.copies, &trace.memsets);
    let copies =
        (0..copies.len()).map(|row| (copies.name[row], copies.duration[row], copies.bytes[row]));
    let memsets = (0..memsets.len())
        .map(|row| (memsets.name[row], memsets.duration[row], memsets.bytes[row]));
    let mut sums: FxHashMap<StrId, TransferRow> = FxHashMap::default();
    for (name, time, bytes) in copies.chain(memsets) {
        let sum = sums.entry(name).or_insert_with(|| TransferRow {
            name: trace.text(name).to_owned(),
            calls: 0,
            total_ns: Nanos(0),
            bytes: Bytes(0),
        });
        sum.calls += 1;
        add(&mut sum.total_ns.0, time);
        sum.bytes += Bytes(bytes);
    }
    let mut rows: Vec<TransferRow> = sums.into_values().collect();
    rows.sort_by(|a, b| {
        b.total_ns
            .cmp(&a.total_ns)
            .then_with(|| a.name.cmp(&b.name))
    });
    rows
}

pub(crate) fn unattributed(
    events: &DeviceEvents,
    attribution: &Attribution,
) -> Vec<UnattributedRow> {
    let mut rows: Vec<UnattributedRow> = Vec::new();
    for (index, event) in events.all().iter().enumerate() {
        let Some(reason) = attribution.reason(index) else {
            continue;
        };
        let place = rows.iter().position(|row| row.reason == reason);
        let place = place.unwrap_or_else(|| {
            rows.push(UnattributedRow {
                reason,
                events: 0,
                total_ns: Nanos(0),
            });
            rows.len() - 1
        });
        rows[place].events += 1;
        add(&mut rows[place].total_ns.0, event.duration());
    }
    rows.sort_by_key(|row| (std::cmp::Reverse(row.total_ns), row.reason));
    rows
}

/// Executions of graphs that were recorded as one event each: they hold kernels, and are none.
fn whole_graphs(trace: &Trace) -> usize {
    let Some(name) = trace.strings.find(WHOLE_GRAPH) else {
        return 0;
    };
    let names = trace.kernels.name.iter();
    names.filter(|&&kernel| kernel == name).count()
}

pub(crate) fn totals(
    trace: &Trace,
    events: &DeviceEvents,
    attribution: &Attribution,
    windows: &EventWindows,
    devices: &[DeviceBreakdown],
) -> Totals {
    let length = |span: Option<(i64, i64)>| {
        span.map_or(Nanos(0), |(start, end)| Nanos(end.saturating_sub(start)))
    };
    let (host, device) = (host_span(trace), events.span());
    let count = |is_counted: fn(HostKind) -> bool| {
        let kinds = trace.hosts.kind.iter();
        kinds.filter(|kind| is_counted(**kind)).count() as u64
    };
    let is_told = |kind| is_api(kind) || matches!(kind, HostKind::PYTHON | HostKind::OPERATOR);
    let mut totals = Totals {
        python_functions: count(|kind| kind == HostKind::PYTHON),
        api_calls: count(is_api),
        other_slices: trace.hosts.len() as u64 - count(is_told),
        host_span_ns: length(host),
        before_device_ns: length(host.zip(device).map(|(host, device)| (host.0, device.0)))
            .max(Nanos(0)),
        events: trace.events_read,
        host_slices: trace.hosts.len() as u64,
        kernels: (trace.kernels.len() - whole_graphs(trace)) as u64,
        copies: trace.copies.len() as u64,
        memsets: trace.memsets.len() as u64,
        span_ns: length(span(trace)),
        device_span_ns: length(device),
        ..Totals::default()
    };
    for &time in trace.kernels.duration.iter() {
        add(&mut totals.kernel_time_ns.0, time);
    }
    for (index, event) in events.all().iter().enumerate() {
        add(&mut totals.device_time_ns.0, event.duration());
        if attribution.operator(index).is_some() {
            add(&mut totals.attributed_ns.0, event.duration());
        }
        if windows.get(index).is_none() {
            add(&mut totals.outside_phases_ns.0, event.duration());
        }
    }
    for events in events.devices() {
        let busy = union_length(events.iter().map(|event| (event.start, event.end)));
        add(&mut totals.busy_ns.0, busy);
    }
    debug_assert!(
        slices::of(trace).is_some()
            || totals.busy_ns
                == devices
                    .iter()
                    .fold(Nanos(0), |sum, device| sum + device.total.busy_ns),
        "both are unions of the same events"
    );
    totals
}
