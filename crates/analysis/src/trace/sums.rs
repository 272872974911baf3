//! Sums over a whole trace.

use llmprof_record::trace::{HostKind, StrId, Trace};
use llmprof_units::{Bytes, Nanos};
use rustc_hash::FxHashMap;

use crate::attribution::Attribution;
use crate::phases::EventWindows;
use crate::row_order::sort_descending_named;
use crate::timeline::breakdown::DeviceBreakdown;
use crate::timeline::device_events::DeviceEvents;
use crate::timeline::device_events::WHOLE_GRAPH;
use crate::timeline::extent::{host_span, trace_span};
use crate::timeline::intervals::{add_saturating, union_length};
use crate::timeline::launches::is_api;
use crate::timeline::slices;
use crate::trace::{TraceTotals, TransferRow, UnattributedRow};

/// End of the names of Python functions that start a JAX profiler.
const PROFILER_START_SUFFIX: &str = " start_trace";

pub(crate) fn sum_transfers(trace: &Trace) -> Vec<TransferRow> {
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
        add_saturating(&mut sum.total_ns.0, time);
        sum.bytes += Bytes(bytes);
    }
    let mut rows: Vec<TransferRow> = sums.into_values().collect();
    sort_descending_named(&mut rows, |row| (row.total_ns.0, &row.name));
    rows
}

pub(crate) fn sum_unattributed(
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
        add_saturating(&mut rows[place].total_ns.0, event.duration());
    }
    rows.sort_by_key(|row| (std::cmp::Reverse(row.total_ns), row.reason));
    rows
}

/// Number of graph executions that were recorded as one event each: they hold kernels and are not kernels.
fn whole_graphs(trace: &Trace) -> usize {
    let Some(name) = trace.strings.find(WHOLE_GRAPH) else {
        return 0;
    };
    let names = trace.kernels.name.iter();
    names.filter(|&&kernel| kernel == name).count()
}

/// The time from the host's first slice, other than starting a profiler, to its first launch. The launched work may start much later,
/// behind work from before the recording.
fn before_device(
    trace: &Trace,
    events: &DeviceEvents,
    attribution: &Attribution,
) -> Option<(i64, i64)> {
    let hosts = &trace.hosts;
    let is_own = |row: &usize| {
        !trace
            .text(hosts.name[*row])
            .ends_with(PROFILER_START_SUFFIX)
    };
    let is_first = |row: &usize| *row == 0 || hosts.thread[row - 1] != hosts.thread[*row];
    let threads = (0..hosts.len()).filter(is_first);
    let begun = threads.filter_map(|first| {
        let mut rows = first..hosts.len();
        let row = rows.find(is_own)?;
        (hosts.thread[row] == hosts.thread[first]).then(|| hosts.start[row])
    });
    let calls = (0..events.all().len()).filter_map(|event| attribution.call(event));
    let launched = calls.map(|call| hosts.start[call as usize]).min();
    let started = events.span()?.0;
    Some((
        begun.min()?,
        launched.map_or(started, |call| call.min(started)),
    ))
}

pub(crate) fn sum_totals(
    trace: &Trace,
    events: &DeviceEvents,
    attribution: &Attribution,
    windows: &EventWindows,
    devices: &[DeviceBreakdown],
) -> TraceTotals {
    let length = |span: Option<(i64, i64)>| {
        span.map_or(Nanos(0), |(start, end)| Nanos(end.saturating_sub(start)))
    };
    let (host, device) = (host_span(trace), events.span());
    let count = |is_counted: fn(HostKind) -> bool| {
        let kinds = trace.hosts.kind.iter();
        kinds.filter(|kind| is_counted(**kind)).count() as u64
    };
    let is_told = |kind| is_api(kind) || matches!(kind, HostKind::PYTHON | HostKind::OPERATOR);
    let mut totals = TraceTotals {
        python_functions: count(|kind| kind == HostKind::PYTHON),
        api_calls: count(is_api),
        other_slices: trace.hosts.len() as u64 - count(is_told),
        host_span_ns: length(host),
        before_device_ns: length(before_device(trace, events, attribution)).max(Nanos(0)),
        events: trace.events_read,
        host_slices: trace.hosts.len() as u64,
        kernels: (trace.kernels.len() - whole_graphs(trace)) as u64,
        copies: trace.copies.len() as u64,
        memsets: trace.memsets.len() as u64,
        span_ns: length(trace_span(trace)),
        device_span_ns: length(device),
        ..TraceTotals::default()
    };
    for &time in trace.kernels.duration.iter() {
        add_saturating(&mut totals.kernel_time_ns.0, time);
    }
    for (index, event) in events.all().iter().enumerate() {
        add_saturating(&mut totals.device_time_ns.0, event.duration());
        if attribution.operator(index).is_some() {
            add_saturating(&mut totals.attributed_ns.0, event.duration());
        }
        if windows.window_of(index).is_none() {
            add_saturating(&mut totals.outside_phases_ns.0, event.duration());
        }
    }
    for events in events.devices() {
        let busy = union_length(events.iter().map(|event| (event.start, event.end)));
        add_saturating(&mut totals.busy_ns.0, busy);
    }
    debug_assert!(
        slices::recorded_slices(trace).is_some()
            || totals.busy_ns
                == devices
                    .iter()
                    .fold(Nanos(0), |sum, device| sum + device.total.busy_ns),
        "both are unions of the same events"
    );
    totals
}
