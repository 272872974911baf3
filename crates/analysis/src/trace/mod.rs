//! The whole analysis of a trace.

mod issues;
mod origins;
pub mod outside;
mod phase_rows;
pub mod scaled;
pub(crate) mod sums;

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::trace::{AcceleratorKind, Trace};
use llmprof_theory::device::Device;
use llmprof_units::{Bytes, Nanos};
use rustc_hash::FxHashSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attribution::kernels::KernelRow;
use crate::attribution::key_averages::SliceTimes;
use crate::attribution::operators::OperatorRow;
use crate::attribution::{Attribution, UnattributedReason, kernels, operators};
use crate::framework::Framework;
use crate::phases::forward::ForwardPasses;
use crate::phases::processes::{ProcessPart, TraceProcesses};
use crate::phases::{EventWindows, PhaseSource, Phases, TraceWindow};
use crate::program::Program;
use crate::row_order::sort_descending;
use crate::steps;
use crate::steps::{Repetition, StepPatterns};
use crate::timeline::breakdown::{DeviceBreakdown, DeviceTimeline, queue_depths};
use crate::timeline::device_events::{DeviceEvent, DeviceEvents};
use crate::timeline::idle::HostActivity;
use crate::timeline::launch_times::EventLaunchTimes;
use crate::timeline::launches::{ApiKind, EventCalls, Launches};
use crate::timeline::nesting::Nesting;
use crate::timeline::slices;
use crate::timeline::source_lines::{SourceRow, source_lines};
use crate::trace::scaled::{ScaledTrace, scale_repetitions};

use crate::thresholds::{DEVICE_INTERVALS_MIN, DEVICES_MAX, EVENTS_PER_DEVICE_INTERVAL_MIN};
use crate::trace::issues::{before_launch, few_slices, trace_issues};
pub use crate::trace::origins::OriginRow;
use crate::trace::outside::{OutsidePhases, find_outside, outside_ranges};
use crate::trace::phase_rows::{api_calls, count_events, phase_row};
use crate::trace::sums::{sum_totals, sum_transfers, sum_unattributed};
use crate::waterfall::idle_parts::NamedTime;

/// The analysis of one trace: `analysis.json`. Times are integer ns, on the clock of the trace where they are moments.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct TraceAnalysis {
    /// The version of this layout.
    pub schema: u32,
    /// The tool that wrote the trace, where known.
    pub tool: Option<String>,
    /// Framework that launched the kernels, as far as the trace shows it.
    #[serde(default)]
    pub framework: Framework,
    /// Kind of the devices: GPU, TPU, NPU or another accelerator.
    #[serde(default)]
    pub accelerator: AcceleratorKind,
    /// What the trace calls its device; absent where it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The device that rooflines are of, where one was given.
    pub roofline_device: Option<String>,
    /// Sums over the whole trace.
    pub totals: TraceTotals,
    /// How the phases are known.
    pub phase_source: PhaseSource,
    /// For inferred phases, how alike the repetitions are; 1 where all steps launch the same kernels.
    pub phase_confidence: Option<f64>,
    /// Whether device events began before the calls that launched them, by more than a launch takes: idle time has no causes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clocks_disagree: bool,
    /// The phases, in order of first use.
    pub phases: Vec<PhaseRow>,
    /// Steps by the pattern of launches, where no range shows them and something repeats.
    #[serde(default)]
    pub steps: Option<StepPatterns>,
    /// Estimates for the whole run from its slices; absent unless recording kept within a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled: Option<ScaledTrace>,
    /// Every device from its first to its last event.
    pub devices: Vec<DeviceBreakdown>,
    /// Time between phases, where it is worth naming.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<OutsidePhases>,
    /// Ranges of the program outside of its phases, the longest first, of a trace without device events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside_ranges: Vec<NamedTime>,
    /// Device time by origin; the rows hold all of it.
    pub attribution: Vec<OriginRow>,
    /// Device time without an operator, by reason.
    pub unattributed: Vec<UnattributedRow>,
    /// Operators of the framework with their host and device times.
    pub operators: Vec<OperatorRow>,
    /// Kernels by the name that the tool wrote, the longest total first.
    pub kernels: Vec<KernelRow>,
    /// Copies and memory fills by name.
    pub transfers: Vec<TransferRow>,
    /// Calls of the CUDA API by function.
    pub api: Vec<ApiRow>,
    /// Host-bound idle time by Python function, where frames are recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_lines: Vec<SourceRow>,
    /// What was lost or is doubtful.
    pub issues: Vec<Issue>,
}

/// The version of [`TraceAnalysis`] that this program writes.
pub const SCHEMA: u32 = 1;

/// Sums over a whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct TraceTotals {
    /// Events that were read from the trace, of every kind.
    pub events: u64,
    /// Slices of host threads: operators, API calls, Python functions and others.
    pub host_slices: u64,
    /// Calls of the runtime and the driver among them.
    #[serde(default)]
    pub api_calls: u64,
    /// Python functions among the host slices.
    #[serde(default)]
    pub python_functions: u64,
    /// Host slices that are neither operators, nor API calls, nor Python functions.
    #[serde(default)]
    pub other_slices: u64,
    /// Number of kernels on all devices.
    pub kernels: u64,
    /// Number of copies on all devices.
    pub copies: u64,
    /// Number of memory fills on all devices.
    pub memsets: u64,
    /// The sum of all kernel times.
    pub kernel_time_ns: Nanos,
    /// The sum of the times of all device events.
    pub device_time_ns: Nanos,
    /// Time with at least one device event, per device and summed.
    pub busy_ns: Nanos,
    /// From the first start to the last end of a device event.
    pub device_span_ns: Nanos,
    /// From the first to the last moment of any event.
    pub span_ns: Nanos,
    /// From the first to the last host slice; marks and the window of the profiler do not count.
    #[serde(default)]
    pub host_span_ns: Nanos,
    /// From the first host slice that is no start of a profiler to the first launch, or device event: the start of the program, or
    /// work on the host alone.
    #[serde(default)]
    pub before_device_ns: Nanos,
    /// Device time of events with a known operator.
    pub attributed_ns: Nanos,
    /// Device time of events that began outside every phase.
    pub outside_phases_ns: Nanos,
}

/// One phase: all intervals of time with one name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseRow {
    /// Name of the range, or of the inferred phase.
    pub name: String,
    /// Number of intervals with this name.
    pub instances: u64,
    /// Sum of the lengths of all intervals.
    pub span_ns: Nanos,
    /// Device events that belong to it: launched in it, or begun in it where phases are inferred.
    pub events: u64,
    /// The events among them that are kernels.
    pub kernels: u64,
    /// The sum of the times of those events, whole.
    pub device_time_ns: Nanos,
    /// Calls that launched device events, per occurrence: per step, and per token where a step makes one.
    pub launches_per_instance: f64,
    /// The intervals, in order of time.
    pub windows: Vec<PhaseWindow>,
    /// Time breakdown of each device in the phase.
    pub devices: Vec<DeviceBreakdown>,
    /// Calls of the CUDA API that began in it.
    pub api: Vec<ApiRow>,
}

/// One interval of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseWindow {
    /// Start of the interval on the clock of the trace.
    pub start_ns: Nanos,
    /// Length of the interval in ns.
    pub span_ns: Nanos,
    /// Kernels that belong to it.
    pub kernels: u64,
    /// The sum of the times of device events that belong to it, whole.
    pub device_time_ns: Nanos,
}

/// Device time without an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct UnattributedRow {
    /// Why the events have no operator.
    pub reason: UnattributedReason,
    /// Number of device events with this reason.
    pub events: u64,
    /// The sum of their times.
    pub total_ns: Nanos,
}

/// Copies or memory fills with one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct TransferRow {
    /// The name as the tool wrote it.
    pub name: String,
    /// Number of copies or memory fills with this name.
    pub calls: u64,
    /// The sum of their times.
    pub total_ns: Nanos,
    /// Bytes that they moved together.
    pub bytes: Bytes,
}

/// Calls of one API function. A driver call inside a runtime call is part of that call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct ApiRow {
    /// Name of the API function.
    pub name: String,
    /// Whether it launches, copies, waits or allocates.
    pub kind: ApiKind,
    /// Number of calls of the function.
    pub calls: u64,
    /// The sum of their times.
    pub total_ns: Nanos,
}

/// How the rows of a trace hang together: what every question about it starts from.
pub(crate) struct Structure {
    pub(crate) events: DeviceEvents,
    pub(crate) nesting: Nesting,
    pub(crate) phases: Phases,
    pub(crate) calls: EventCalls,
    pub(crate) attribution: Attribution,
    pub(crate) windows: EventWindows,
    repetitions: Repetitions,
    /// Device events that began before their launch.
    early: Option<Issue>,
    clocks_disagree: bool,
    pub(crate) program: Program,
    /// The devices whose phases are analyzed, and how many are left.
    pub(crate) judged_devices: FxHashSet<u32>,
    other_devices: usize,
    /// Forward passes that shapes show.
    pub(crate) shown: Option<ForwardPasses>,
}

impl Structure {
    pub(crate) fn clocks_disagree(&self) -> bool {
        self.clocks_disagree
    }

    /// When the steps that the pattern of launches shows were launched.
    pub(crate) fn step_launches(&self) -> Vec<i64> {
        steps::step_launches(&self.repetitions.all)
    }
}

/// Steps and layers by the pattern of launches.
struct Repetitions {
    all: Vec<Repetition>,
    /// Whether a range says what a step is, which is believed.
    are_named: bool,
}

impl Repetitions {
    fn from_trace(trace: &Trace) -> Self {
        let are_named = steps::has_step_ranges(trace);
        let are_needed = !are_named || slices::are_a_sample(trace);
        Self {
            all: if are_needed {
                steps::find_repetitions(trace)
            } else {
                Vec::new()
            },
            are_named,
        }
    }

    /// Repetitions of a trace in which no range says what a step is.
    fn unnamed(&self) -> &[Repetition] {
        if self.are_named { &[] } else { &self.all }
    }
}

/// The devices with most events, as many as can be analyzed in all intervals.
fn judged_devices(events: &DeviceEvents, intervals: usize) -> FxHashSet<u32> {
    let mut devices: Vec<(usize, u32)> = events
        .devices()
        .filter_map(|events| Some((events.len(), events.first()?.device)))
        .collect();
    // Devices come in the order of their numbers, which those with as many events keep.
    sort_descending(&mut devices, |&(count, _)| count as i64);
    let rows = (events.all().len() / EVENTS_PER_DEVICE_INTERVAL_MIN).max(DEVICE_INTERVALS_MIN);
    devices.truncate((rows / intervals.max(1)).clamp(1, DEVICES_MAX));
    devices.into_iter().map(|(_, device)| device).collect()
}

/// Facts of a run that its trace does not contain.
#[derive(Clone, Copy, Default)]
pub(crate) struct Said<'a> {
    /// Whether llmprof itself ran the model.
    pub(crate) is_measured: bool,
    /// The name of the model that the user named.
    pub(crate) model: &'a str,
    /// Rows and width of its table of tokens.
    pub(crate) table: Option<(u64, u64)>,
}

/// The program that ran and the phases that it went through.
struct Resolved {
    program: Program,
    phases: Phases,
    shown: Option<ForwardPasses>,
}

impl Resolved {
    fn of_one_process(
        trace: &Trace,
        events: &DeviceEvents,
        launched: &EventLaunchTimes,
        repetitions: &Repetitions,
        said: &Said<'_>,
    ) -> Self {
        let shown = ForwardPasses::of_trace(trace);
        let mut program = Program::of_trace(trace, said.is_measured, shown.as_ref());
        let is_named = |shown: &ForwardPasses| said.table == Some(shown.table);
        if shown.as_ref().is_some_and(is_named) {
            program.add_model(said.model);
        }
        let shown = shown.filter(|_| program.generates_text());
        let shown = shown.filter(|shown| shown.generate_text() || is_named(shown));
        let repetitions = repetitions.unnamed();
        let phases = Phases::resolve(
            trace,
            events,
            launched,
            repetitions,
            shown.as_ref(),
            &program,
        );
        Self {
            program,
            phases,
            shown,
        }
    }

    /// Each process with its own devices. Nothing says how a model is divided among them, so that no forward passes are counted.
    fn of_processes(parts: &[ProcessPart], said: &Said<'_>) -> Self {
        let of_process = |part: &ProcessPart| {
            let events = DeviceEvents::from_trace(&part.trace);
            let calls = EventCalls::from_launches(&events, &Launches::from_trace(&part.trace));
            let launched = EventLaunchTimes::from_events(&part.trace, &events, &calls);
            let repetitions = Repetitions::from_trace(&part.trace);
            Self::of_one_process(&part.trace, &events, &launched, &repetitions, said)
        };
        let mut resolved: Vec<Self> = parts.iter().map(of_process).collect();
        if resolved.len() == 1 {
            return resolved.remove(0);
        }
        let (mut programs, mut phases) = (Vec::new(), Vec::new());
        for (part, own) in parts.iter().zip(resolved) {
            programs.push(own.program.on_devices(&part.devices));
            phases.push((part.devices.clone(), own.phases));
        }
        Self {
            program: Program::of_processes(programs),
            phases: Phases::of_processes(phases),
            shown: None,
        }
    }
}

impl Structure {
    pub(crate) fn from_trace(trace: &Trace, said: &Said<'_>) -> Self {
        let (events, nesting) = rayon::join(
            || DeviceEvents::from_trace(trace),
            || Nesting::from_trace(trace),
        );
        let (launches, repetitions) = rayon::join(
            || Launches::from_trace(trace),
            || Repetitions::from_trace(trace),
        );
        let calls = EventCalls::from_launches(&events, &launches);
        let launched = EventLaunchTimes::from_events(trace, &events, &calls);
        let resolve = || match TraceProcesses::of_trace(trace, &events, &calls) {
            TraceProcesses::One => {
                Resolved::of_one_process(trace, &events, &launched, &repetitions, said)
            }
            TraceProcesses::Apart(parts) => Resolved::of_processes(&parts, said),
            TraceProcesses::OnOneDevice(processes) => Resolved {
                program: Program::of_shared_device(&processes),
                phases: Phases::of_gpu_shared(trace, &events),
                shown: None,
            },
        };
        let (resolved, attribution) = rayon::join(resolve, || {
            Attribution::from_trace(trace, &events, &calls, &nesting)
        });
        let Resolved {
            program,
            phases,
            shown,
        } = resolved;
        let windows = EventWindows::of_events(&events, &launched, &phases);
        let early = before_launch(trace, &events, &launches);
        let intervals = if phases.are_of_devices() {
            phases.windows.len() / events.devices().count().max(1)
        } else {
            phases.windows.len()
        };
        let judged_devices = judged_devices(&events, intervals);
        let other_devices = events.devices().count() - judged_devices.len();
        Self {
            judged_devices,
            other_devices,
            events,
            nesting,
            phases,
            calls,
            attribution,
            windows,
            repetitions,
            early,
            clocks_disagree: launched.clocks_disagree,
            program,
            shown,
        }
    }
}

/// All that a trace says by itself; rooflines are of `device` where one is given.
pub(crate) fn analyze_structure(
    trace: &Trace,
    structure: &Structure,
    device: Option<&Device>,
) -> TraceAnalysis {
    let Structure {
        events,
        nesting,
        phases,
        attribution,
        windows,
        repetitions,
        early,
        ..
    } = structure;
    let (operators, parts) = rayon::join(
        || {
            let times =
                SliceTimes::from_trace(trace, nesting, events, |index| attribution.operator(index));
            operators::operator_rows(trace, &times, attribution, events, device)
        },
        || TraceParts::from_structure(trace, structure),
    );
    let TraceParts {
        mut phase_rows,
        devices,
        outside,
        api,
        kernels,
    } = parts;
    let totals = sum_totals(trace, events, attribution, windows, &devices);
    let is_sample = slices::are_a_sample(trace);
    let scaled = is_sample
        .then(|| scale_repetitions(trace, &repetitions.all))
        .flatten();
    phase_rows.retain(|row| row.instances > 0);
    TraceAnalysis {
        schema: SCHEMA,
        tool: trace.metadata.get("tool").cloned(),
        framework: Framework::of(trace),
        accelerator: trace.accelerator(),
        device_name: recorded_name(trace),
        roofline_device: device.map(|device| device.name.clone()),
        totals,
        phase_source: phases.source,
        phase_confidence: phases.confidence,
        clocks_disagree: structure.clocks_disagree,
        phases: phase_rows,
        steps: steps::summarize_patterns(trace, events, repetitions.unnamed()),
        devices,
        outside,
        outside_ranges: outside_ranges(trace, phases, events),
        attribution: origins::origin_rows(trace, events, attribution, phases, windows),
        unattributed: sum_unattributed(events, attribution),
        issues: early
            .iter()
            .cloned()
            .chain(phases.issues.iter().cloned())
            .chain((structure.other_devices > 0).then(|| {
                let folded = Issue::warning(IssueCode::AnalysisDevicesFolded);
                folded
                    .with("devices", structure.judged_devices.len())
                    .counting(structure.other_devices as u64)
            }))
            .chain(trace_issues(trace, events, &kernels, &operators))
            .chain((is_sample && scaled.is_none()).then(few_slices))
            .collect(),
        scaled,
        operators,
        kernels,
        transfers: sum_transfers(trace),
        source_lines: source_lines(trace, events, &structure.calls),
        api,
    }
}

/// The parts of the analysis that do not need the operators, computed in parallel with them.
struct TraceParts {
    phase_rows: Vec<PhaseRow>,
    devices: Vec<DeviceBreakdown>,
    outside: Option<OutsidePhases>,
    api: Vec<ApiRow>,
    kernels: Vec<KernelRow>,
}

impl TraceParts {
    fn from_structure(trace: &Trace, structure: &Structure) -> Self {
        let Structure {
            events,
            nesting,
            phases,
            calls,
            windows,
            ..
        } = structure;
        let has_one_clock = !structure.clocks_disagree;
        let activity = HostActivity::from_trace(trace, nesting, calls, has_one_clock);
        let is_judged = |device: &u32| structure.judged_devices.contains(device);
        let mut first = 0;
        let timelines: Vec<DeviceTimeline<'_>> = events
            .devices()
            .map(|events| {
                let device = events.first().map(|event| event.device);
                let timeline = DeviceTimeline {
                    trace,
                    calls,
                    activity: device.filter(is_judged).map(|_| &activity),
                    events,
                    first,
                    depths: queue_depths(trace, calls, events, first),
                };
                first += events.len();
                timeline
            })
            .collect();
        let slices = slices::recorded_slices(trace);
        let devices = timelines
            .iter()
            .map(|timeline| {
                let span = span_of(timeline.events);
                match &slices {
                    Some(slices) => {
                        let parts: Vec<_> = slices::recorded_parts(slices, span).collect();
                        timeline.break_down(&parts, true)
                    }
                    None => timeline.break_down(&[span], true),
                }
            })
            .collect();
        let api = api_calls(trace, nesting, phases);
        let judged = timelines.iter().filter(|one| one.activity.is_some());
        let mut by_phase: Vec<Vec<DeviceBreakdown>> = vec![Vec::new(); phases.names.len()];
        for timeline in judged {
            let own: Vec<&TraceWindow> = phases.windows_on(timeline.device()).collect();
            let windows = own.iter().map(|one| ((one.start, one.end), one.name));
            let breakdowns =
                timeline.break_down_groups(windows, by_phase.len(), !phases.by_launch());
            for (devices, breakdown) in by_phase.iter_mut().zip(breakdowns) {
                devices.push(breakdown);
            }
        }
        let by_phase = by_phase.into_iter().enumerate();
        let mut phase_rows: Vec<PhaseRow> = by_phase
            .map(|(name, devices)| phase_row(name, phases, devices, api.get(name + 1)))
            .collect();
        count_events(&mut phase_rows, events, windows, phases);
        Self {
            outside: find_outside(trace, phases, &timelines),
            phase_rows,
            devices,
            api: api.into_iter().next().unwrap_or_default(),
            kernels: kernels::kernel_rows(trace, events),
        }
    }
}

/// What the trace calls its device.
fn recorded_name(trace: &Trace) -> Option<String> {
    let mut names = trace.devices.iter().map(|device| &device.name);
    names.find(|name| !name.is_empty()).cloned()
}

pub(crate) fn span_of(events: &[DeviceEvent]) -> (i64, i64) {
    let start = events.first().map_or(0, |event| event.start);
    let end = events.iter().map(|event| event.end).max().unwrap_or(start);
    (start, end)
}
