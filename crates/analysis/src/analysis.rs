//! The whole analysis of a trace.

use llmprof_record::issue::{Issue, Severity};
use llmprof_record::trace::{StrId, Trace};
use llmprof_theory::device::Device;
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::attribution::{Attribution, AttributionRow, Reason};
use crate::breakdown::{DeviceBreakdown, DeviceTimeline, queue_depths};
use crate::device_events::{DeviceEvent, DeviceEvents};
use crate::idle::HostActivity;
use crate::intervals::{add, union_length};
use crate::kernels::{self, KernelRow};
use crate::key_averages::SliceTimes;
use crate::launches::{ApiKind, ApiKinds, Launches, is_api};
use crate::nesting::Nesting;
use crate::operators::{self, OperatorRow};
use crate::phases::{PhaseSource, Phases};
use crate::slices;

/// What a trace says: `analysis.json`. Times are integer ns, on the clock of the trace where they are moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// The version of this layout.
    pub schema: u32,
    /// The tool that wrote the trace, where known.
    pub tool: Option<String>,
    /// The device that rooflines are of, where one was given.
    pub roofline_device: Option<String>,
    /// Sums over the whole trace.
    pub totals: Totals,
    /// How the phases are known.
    pub phase_source: PhaseSource,
    /// For inferred phases, how alike the repetitions are; 1 where all steps launch the same kernels.
    pub phase_confidence: Option<f64>,
    /// The phases, in order of first use.
    pub phases: Vec<PhaseRow>,
    /// Every device from its first to its last event.
    pub devices: Vec<DeviceBreakdown>,
    /// Device time by origin; the rows hold all of it.
    pub attribution: Vec<AttributionRow>,
    /// Device time without an operator, by reason.
    pub unattributed: Vec<UnattributedRow>,
    /// Operators of the framework.
    pub operators: Vec<OperatorRow>,
    /// Kernels by name.
    pub kernels: Vec<KernelRow>,
    /// Copies and memory fills by name.
    pub transfers: Vec<TransferRow>,
    /// Calls of the CUDA API by function.
    pub api: Vec<ApiRow>,
    /// What was lost or is doubtful.
    pub issues: Vec<Issue>,
}

/// The version of [`Analysis`] that this program writes.
pub const SCHEMA: u32 = 1;

/// Sums over a whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Events that were read.
    pub events: u64,
    /// Host slices.
    pub host_slices: u64,
    /// Kernels.
    pub kernels: u64,
    /// Copies.
    pub copies: u64,
    /// Memory fills.
    pub memsets: u64,
    /// The sum of all kernel times, ns.
    pub kernel_time_ns: i64,
    /// The sum of the times of all device events, ns.
    pub device_time_ns: i64,
    /// Time with at least one device event, per device and summed, ns.
    pub busy_ns: i64,
    /// From the first start to the last end of a device event, ns.
    pub device_span_ns: i64,
    /// From the first to the last moment of any event, ns.
    pub span_ns: i64,
    /// Device time of events with a known operator, ns.
    pub attributed_ns: i64,
    /// Device time of events that began outside every phase, ns.
    pub outside_phases_ns: i64,
}

/// One phase: all stretches of time with one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseRow {
    /// Its name.
    pub name: String,
    /// How often it occurs.
    pub instances: u64,
    /// All stretches together, ns.
    pub span_ns: i64,
    /// Device events that belong to it: launched in it, or begun in it where phases are inferred.
    pub events: u64,
    /// Kernels among them.
    pub kernels: u64,
    /// The sum of the times of those events, whole, ns.
    pub device_time_ns: i64,
    /// Calls that launched device events, per occurrence: per step, and per token where a step makes one.
    pub launches_per_instance: f64,
    /// The stretches, in order of time.
    pub windows: Vec<PhaseWindow>,
    /// What each device did.
    pub devices: Vec<DeviceBreakdown>,
    /// Calls of the CUDA API that began in it.
    pub api: Vec<ApiRow>,
}

/// One stretch of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseWindow {
    /// When it begins, ns.
    pub start_ns: i64,
    /// How long it lasts, ns.
    pub span_ns: i64,
    /// Kernels that belong to it.
    pub kernels: u64,
    /// The sum of the times of device events that belong to it, whole, ns.
    pub device_time_ns: i64,
}

/// Device time without an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnattributedRow {
    /// Why.
    pub reason: Reason,
    /// Events.
    pub events: u64,
    /// The sum of their times, ns.
    pub total_ns: i64,
}

/// Copies or memory fills with one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferRow {
    /// The name as the tool wrote it.
    pub name: String,
    /// How many.
    pub calls: u64,
    /// The sum of their times, ns.
    pub total_ns: i64,
    /// Bytes.
    pub bytes: u64,
}

/// Calls of one API function. A driver call inside a runtime call is part of that call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiRow {
    /// The function.
    pub name: String,
    /// What it is for.
    pub kind: ApiKind,
    /// Calls.
    pub calls: u64,
    /// The sum of their times, ns.
    pub total_ns: i64,
}

/// How the rows of a trace hang together: what every question about it starts from.
pub(crate) struct Structure {
    pub(crate) events: DeviceEvents,
    pub(crate) nesting: Nesting,
    pub(crate) phases: Phases,
    pub(crate) attribution: Attribution,
    /// Device events that began before their launch.
    early: Option<Issue>,
}

impl Structure {
    pub(crate) fn of(trace: &Trace) -> Self {
        let (events, nesting) = rayon::join(|| DeviceEvents::of(trace), || Nesting::of(trace));
        let (launches, phases) = rayon::join(|| Launches::of(trace), || Phases::of(trace, &events));
        let attribution = Attribution::of(trace, &events, &launches, &nesting, &phases);
        let early = before_launch(trace, &events, &launches);
        Self {
            events,
            nesting,
            phases,
            attribution,
            early,
        }
    }
}

/// Analyzes a trace; rooflines are of `device` where one is given.
pub fn analyze(trace: &Trace, device: Option<&Device>) -> Analysis {
    analyze_structure(trace, &Structure::of(trace), device)
}

pub(crate) fn analyze_structure(
    trace: &Trace,
    structure: &Structure,
    device: Option<&Device>,
) -> Analysis {
    let Structure {
        events,
        nesting,
        phases,
        attribution,
        early,
    } = structure;
    let (operators, parts) = rayon::join(
        || {
            let times = SliceTimes::of(trace, nesting, events, |index| attribution.operator(index));
            operators::operators(trace, &times, attribution, events, device)
        },
        || Parts::of(trace, events, nesting, attribution, phases),
    );
    let Parts {
        mut phase_rows,
        devices,
        api,
        kernels,
    } = parts;
    let totals = totals(trace, events, attribution, &devices);
    phase_rows.retain(|row| row.instances > 0);
    Analysis {
        schema: SCHEMA,
        tool: trace.metadata.get("tool").cloned(),
        roofline_device: device.map(|device| device.name.clone()),
        totals,
        phase_source: phases.source,
        phase_confidence: phases.confidence,
        phases: phase_rows,
        devices,
        attribution: attribution.rows(trace, events, phases),
        unattributed: unattributed(events, attribution),
        issues: early
            .iter()
            .cloned()
            .chain(issues(trace, events, &kernels, &operators))
            .collect(),
        operators,
        kernels,
        transfers: transfers(trace),
        api,
    }
}

/// What does not need the operators, worked out beside them.
struct Parts {
    phase_rows: Vec<PhaseRow>,
    devices: Vec<DeviceBreakdown>,
    api: Vec<ApiRow>,
    kernels: Vec<KernelRow>,
}

impl Parts {
    fn of(
        trace: &Trace,
        events: &DeviceEvents,
        nesting: &Nesting,
        attribution: &Attribution,
        phases: &Phases,
    ) -> Self {
        let activity = HostActivity::of(trace, nesting, attribution);
        let mut first = 0;
        let timelines: Vec<DeviceTimeline<'_>> = events
            .devices()
            .map(|events| {
                let timeline = DeviceTimeline {
                    trace,
                    attribution,
                    activity: &activity,
                    events,
                    first,
                    depths: queue_depths(trace, attribution, events, first),
                };
                first += events.len();
                timeline
            })
            .collect();
        let slices = slices::of(trace);
        let devices = timelines
            .iter()
            .map(|timeline| {
                let span = span_of(timeline.events);
                match &slices {
                    Some(slices) => {
                        let parts: Vec<_> = slices::inside(slices, span).collect();
                        timeline.break_down(&parts, true)
                    }
                    None => timeline.break_down(&[span], true),
                }
            })
            .collect();
        let api = api_calls(trace, nesting, phases);
        let mut phase_rows: Vec<PhaseRow> = (0..phases.names.len())
            .map(|name| phase_row(name, phases, &timelines, api.get(name + 1)))
            .collect();
        count_events(&mut phase_rows, events, attribution, phases);
        Self {
            phase_rows,
            devices,
            api: api.into_iter().next().unwrap_or_default(),
            kernels: kernels::kernels(trace, events),
        }
    }
}

fn span_of(events: &[DeviceEvent]) -> (i64, i64) {
    let start = events.first().map_or(0, |event| event.start);
    let end = events.iter().map(|event| event.end).max().unwrap_or(start);
    (start, end)
}

fn phase_row(
    name: usize,
    phases: &Phases,
    timelines: &[DeviceTimeline<'_>],
    api: Option<&Vec<ApiRow>>,
) -> PhaseRow {
    let windows: Vec<(i64, i64)> = phases
        .windows
        .iter()
        .filter(|window| window.name == name)
        .map(|window| (window.start, window.end))
        .collect();
    let devices: Vec<DeviceBreakdown> = timelines
        .iter()
        .map(|timeline| timeline.break_down(&windows, phases.closed(name)))
        .collect();
    let launches: u64 = devices.iter().map(|device| device.launches).sum();
    PhaseRow {
        name: phases.names[name].clone(),
        instances: windows.len() as u64,
        span_ns: windows.iter().fold(0_i64, |sum, (start, end)| {
            sum.saturating_add(end.saturating_sub(*start))
        }),
        events: 0,
        kernels: 0,
        device_time_ns: 0,
        launches_per_instance: launches as f64 / windows.len().max(1) as f64,
        windows: windows
            .iter()
            .map(|&(start, end)| PhaseWindow {
                start_ns: start,
                span_ns: end.saturating_sub(start),
                kernels: 0,
                device_time_ns: 0,
            })
            .collect(),
        devices,
        api: api.cloned().unwrap_or_default(),
    }
}

/// Adds every event to the phase that it belongs to.
fn count_events(
    rows: &mut [PhaseRow],
    events: &DeviceEvents,
    attribution: &Attribution,
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
        let Some(window) = attribution.window(index) else {
            continue;
        };
        let row = &mut rows[phases.windows[window].name];
        let is_kernel = u64::from(event.table == crate::device_events::Table::Kernels);
        row.events += 1;
        row.kernels += is_kernel;
        add(&mut row.device_time_ns, event.duration());
        let place = &mut row.windows[places[window]];
        place.kernels += is_kernel;
        add(&mut place.device_time_ns, event.duration());
    }
}

/// API functions of the whole trace, then of each phase.
fn api_calls(trace: &Trace, nesting: &Nesting, phases: &Phases) -> Vec<Vec<ApiRow>> {
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
        let window = phases.at(hosts.start[row]);
        let phase = window.map(|window| phases.windows[window].name + 1);
        for table in std::iter::once(0).chain(phase) {
            let sum = sums[table].entry(hosts.name[row]).or_default();
            sum.0 += 1;
            add(&mut sum.1, hosts.duration[row]);
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
                    total_ns,
                })
                .collect();
            rows.sort_by(|a, b| {
                b.total_ns
                    .cmp(&a.total_ns)
                    .then_with(|| a.name.cmp(&b.name))
            });
            rows
        })
        .collect()
}

fn transfers(trace: &Trace) -> Vec<TransferRow> {
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
            total_ns: 0,
            bytes: 0,
        });
        sum.calls += 1;
        add(&mut sum.total_ns, time);
        sum.bytes = sum.bytes.saturating_add(bytes);
    }
    let mut rows: Vec<TransferRow> = sums.into_values().collect();
    rows.sort_by(|a, b| {
        b.total_ns
            .cmp(&a.total_ns)
            .then_with(|| a.name.cmp(&b.name))
    });
    rows
}

fn unattributed(events: &DeviceEvents, attribution: &Attribution) -> Vec<UnattributedRow> {
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
                total_ns: 0,
            });
            rows.len() - 1
        });
        rows[place].events += 1;
        add(&mut rows[place].total_ns, event.duration());
    }
    rows.sort_by_key(|row| (std::cmp::Reverse(row.total_ns), row.reason));
    rows
}

fn totals(
    trace: &Trace,
    events: &DeviceEvents,
    attribution: &Attribution,
    devices: &[DeviceBreakdown],
) -> Totals {
    let mut totals = Totals {
        events: trace.events_read,
        host_slices: trace.hosts.len() as u64,
        kernels: trace.kernels.len() as u64,
        copies: trace.copies.len() as u64,
        memsets: trace.memsets.len() as u64,
        span_ns: span(trace).map_or(0, |(start, end)| end.saturating_sub(start)),
        device_span_ns: events
            .span()
            .map_or(0, |(start, end)| end.saturating_sub(start)),
        ..Totals::default()
    };
    for &time in trace.kernels.duration.iter() {
        add(&mut totals.kernel_time_ns, time);
    }
    for (index, event) in events.all().iter().enumerate() {
        add(&mut totals.device_time_ns, event.duration());
        if attribution.operator(index).is_some() {
            add(&mut totals.attributed_ns, event.duration());
        }
        if attribution.window(index).is_none() {
            add(&mut totals.outside_phases_ns, event.duration());
        }
    }
    for events in events.devices() {
        let busy = union_length(events.iter().map(|event| (event.start, event.end)));
        add(&mut totals.busy_ns, busy);
    }
    debug_assert!(
        slices::of(trace).is_some()
            || totals.busy_ns
                == devices
                    .iter()
                    .fold(0, |sum, device| sum + device.total.busy_ns),
        "both are unions of the same events"
    );
    totals
}

/// First and last moment of some events, given by columns of starts and durations.
fn extent(columns: &[(&[i64], &[i64])]) -> Option<(i64, i64)> {
    let mut extent: Option<(i64, i64)> = None;
    for (starts, durations) in columns {
        for (row, &start) in starts.iter().enumerate() {
            let end = start.saturating_add(durations.get(row).copied().unwrap_or(0));
            extent = Some(extent.map_or((start, end), |(first, last)| {
                (first.min(start), last.max(end))
            }));
        }
    }
    extent
}

/// First start and last end of host slices.
pub(crate) fn host_span(trace: &Trace) -> Option<(i64, i64)> {
    extent(&[(&trace.hosts.start, &trace.hosts.duration)])
}

/// First and last moment of any event.
fn span(trace: &Trace) -> Option<(i64, i64)> {
    extent(&[
        (&trace.hosts.start, &trace.hosts.duration),
        (&trace.kernels.start, &trace.kernels.duration),
        (&trace.copies.start, &trace.copies.duration),
        (&trace.memsets.start, &trace.memsets.duration),
        (&trace.ranges.start, &trace.ranges.duration),
        (&trace.syncs.start, &trace.syncs.duration),
        (&trace.memory.time, &[]),
    ])
}

/// Device events that began before the call that launched them: the clocks of host and device disagree.
fn before_launch(trace: &Trace, events: &DeviceEvents, launches: &Launches) -> Option<Issue> {
    let ahead = |event: &DeviceEvent| {
        let call = launches.call(event)? as usize;
        let ahead = trace.hosts.start[call].saturating_sub(event.start);
        (ahead > 0).then_some((ahead, event.start))
    };
    let (mut count, mut worst) = (0, (0, 0));
    for found in events.all().iter().filter_map(ahead) {
        count += 1;
        worst = found.max(worst);
    }
    (count > 0).then(|| {
        let (ahead, start) = worst;
        Issue::new(
            Severity::Warning,
            "analysis.before_launch",
            format!(
                "device events began before the call that launched them, one at {start} ns by {}: launch delays and idle causes \
                 are off by as much",
                Nanos(ahead)
            ),
        )
        .counting(count)
    })
}

fn issues(
    trace: &Trace,
    events: &DeviceEvents,
    kernels: &[KernelRow],
    operators: &[OperatorRow],
) -> Vec<Issue> {
    let mut issues = trace.issues.clone();
    if events.all().is_empty() {
        issues.push(
            Issue::new(
                Severity::Warning,
                "analysis.no_device_events",
                "the trace has no kernels, copies or memsets: nothing can be said about a device",
            )
            .with_hint("record with device activities switched on"),
        );
    }
    if kernels
        .last()
        .is_some_and(|row| row.name == kernels::OTHER_ROW)
    {
        issues.push(Issue::new(
            Severity::Info,
            "analysis.kernels_folded",
            format!(
                "kernels beyond the {} with the longest time are summed up in one row",
                kernels::MOST_ROWS
            ),
        ));
    }
    if operators
        .last()
        .is_some_and(|row| row.name == operators::OTHER_ROW)
    {
        issues.push(Issue::new(
            Severity::Info,
            "analysis.operators_folded",
            format!(
                "operators beyond the {} with the longest time are summed up in one row",
                operators::MOST_ROWS
            ),
        ));
    }
    if events.unclassified() > 0 {
        issues.push(
            Issue::new(
                Severity::Warning,
                "analysis.too_many_names",
                format!(
                    "kernel names beyond the first {} were not looked at",
                    DeviceEvents::MOST_NAMES
                ),
            )
            .counting(events.unclassified()),
        );
    }
    issues
}
