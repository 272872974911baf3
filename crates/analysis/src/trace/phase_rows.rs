//! The rows of phases, and the calls of the CUDA API in each.

use llmprof_record::trace::{StrId, Trace};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

use crate::phases::{EventWindows, Phases, TraceWindow};
use crate::row_order::sort_descending_named;
use crate::timeline::breakdown::DeviceBreakdown;
use crate::timeline::device_events::{DeviceEvents, EventTable};
use crate::timeline::intervals::add_saturating;
use crate::timeline::launches::{ApiKinds, is_api};
use crate::timeline::nesting::Nesting;
use crate::trace::{ApiRow, PhaseRow, PhaseWindow};

pub(crate) fn phase_row(
    name: usize,
    phases: &Phases,
    devices: Vec<DeviceBreakdown>,
    api: Option<&Vec<ApiRow>>,
) -> PhaseRow {
    let named = |window: &&TraceWindow| window.name == name;
    let times = |window: &TraceWindow| (window.start, window.end);
    let windows: Vec<(i64, i64)> = phases.windows.iter().filter(named).map(times).collect();
    let launches: u64 = devices.iter().map(|device| device.launches).sum();
    PhaseRow {
        name: phases.names[name].clone(),
        instances: windows.len() as u64,
        span_ns: Nanos(windows.iter().fold(0_i64, |sum, (start, end)| {
            sum.saturating_add(end.saturating_sub(*start))
        })),
        events: 0,
        kernels: 0,
        device_time_ns: Nanos(0),
        launches_per_instance: launches as f64 / windows.len().max(1) as f64,
        windows: windows
            .iter()
            .map(|&(start, end)| PhaseWindow {
                start_ns: Nanos(start),
                span_ns: Nanos(end.saturating_sub(start)),
                kernels: 0,
                device_time_ns: Nanos(0),
            })
            .collect(),
        devices,
        api: api.cloned().unwrap_or_default(),
    }
}

/// Adds every event to the phase that it belongs to.
pub(crate) fn count_events(
    rows: &mut [PhaseRow],
    events: &DeviceEvents,
    windows: &EventWindows,
    phases: &Phases,
) {
    // The number of each window among those of its phase.
    let mut seen = vec![0_usize; rows.len()];
    let places: Vec<usize> = phases
        .windows
        .iter()
        .map(|window| {
            seen[window.name] += 1;
            seen[window.name] - 1
        })
        .collect();
    for (index, event) in events.all().iter().enumerate() {
        let Some(window) = windows.window_of(index) else {
            continue;
        };
        let row = &mut rows[phases.windows[window].name];
        let is_kernel = u64::from(event.table == EventTable::Kernels);
        row.events += 1;
        row.kernels += is_kernel;
        add_saturating(&mut row.device_time_ns.0, event.duration());
        let place = &mut row.windows[places[window]];
        place.kernels += is_kernel;
        add_saturating(&mut place.device_time_ns.0, event.duration());
    }
}

/// API functions of the whole trace, then of each phase.
pub(crate) fn api_calls(trace: &Trace, nesting: &Nesting, phases: &Phases) -> Vec<Vec<ApiRow>> {
    let hosts = &trace.hosts;
    let mut sums: Vec<FxHashMap<StrId, (u64, i64)>> =
        vec![FxHashMap::default(); phases.names.len() + 1];
    for row in 0..hosts.len() {
        if !is_api(hosts.kind[row]) {
            continue;
        }
        let inside = nesting.parent(row as u32);
        if inside.is_some_and(|around| is_api(hosts.kind[around as usize])) {
            continue;
        }
        let window = phases.at_launch(hosts.start[row]);
        let phase = window.map(|window| phases.windows[window].name + 1);
        for table in std::iter::once(0).chain(phase) {
            let sum = sums[table].entry(hosts.name[row]).or_default();
            sum.0 += 1;
            add_saturating(&mut sum.1, hosts.duration[row]);
        }
    }
    let mut kinds = ApiKinds::default();
    sums.into_iter()
        .map(|table| {
            let mut rows: Vec<ApiRow> = table
                .into_iter()
                .map(|(name, (calls, total_ns))| ApiRow {
                    name: trace.text(name).to_owned(),
                    kind: kinds.get(trace, name),
                    calls,
                    total_ns: Nanos(total_ns),
                })
                .collect();
            sort_descending_named(&mut rows, |row| (row.total_ns.0, &row.name));
            rows
        })
        .collect()
}
