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
use crate::attribution::{Attribution, Reason, kernels, operators};
use crate::framework::Framework;
use crate::phases::forward::ForwardPasses;
use crate::phases::processes::{ProcessPart, Processes};
use crate::phases::{EventWindows, PhaseSource, Phases};
use crate::program::Program;
use crate::steps;
use crate::steps::{Repetition, StepPatterns};
use crate::timeline::breakdown::{DeviceBreakdown, DeviceTimeline, queue_depths};
use crate::timeline::device_events::{DeviceEvent, DeviceEvents};
use crate::timeline::idle::HostActivity;
use crate::timeline::launch_times::LaunchTimes;
use crate::timeline::launches::{ApiKind, EventCalls, Launches};
use crate::timeline::nesting::Nesting;
use crate::timeline::slices;
use crate::timeline::source_lines::{SourceRow, source_lines};
use crate::trace::scaled::{Scaled, scaled_by};

use crate::thresholds::{DEVICE_INTERVALS_MIN, DEVICES_MAX, EVENTS_PER_DEVICE_INTERVAL_MIN};
use crate::trace::issues::{before_launch, few_slices, issues};
pub use crate::trace::origins::OriginRow;
use crate::trace::outside::{OutsidePhases, outside, outside_ranges};
use crate::trace::phase_rows::{api_calls, count_events, phase_row};
use crate::trace::sums::{totals, transfers, unattributed};
use crate::waterfall::idle_parts::NamedTime;

/// What a trace says: `analysis.json`. Times are integer ns, on the clock of the trace where they are moments.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct TraceAnalysis {
    /// The version of this layout.
    pub schema: u32,
    /// The tool that wrote the trace, where known.
    pub tool: Option<String>,
    /// What launched the kernels.
    #[serde(default)]
    pub framework: Framework,
    /// What its devices are.
    #[serde(default)]
    pub accelerator: AcceleratorKind,
    /// What the trace calls its device; absent where it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The device that rooflines are of, where one was given.
    pub roofline_device: Option<String>,
    /// Sums over the whole trace.
    pub totals: Totals,
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
    /// What slices say of the whole, where recording kept within a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled: Option<Scaled>,
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
    /// Operators of the framework.
    pub operators: Vec<OperatorRow>,
    /// Kernels by name.
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
#[schemars(rename = "TraceTotals")]
pub struct Totals {
    /// Events that were read.
    pub events: u64,
    /// Host slices.
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
    /// Kernels.
    pub kernels: u64,
    /// Copies.
    pub copies: u64,
    /// Memory fills.
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
    /// From the first host slice to the first device event: the start of the program, or work on the host alone.
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
    /// Its name.
    pub name: String,
    /// How often it occurs.
    pub instances: u64,
    /// All intervals together.
    pub span_ns: Nanos,
    /// Device events that belong to it: launched in it, or begun in it where phases are inferred.
    pub events: u64,
    /// Kernels among them.
    pub kernels: u64,
    /// The sum of the times of those events, whole.
    pub device_time_ns: Nanos,
    /// Calls that launched device events, per occurrence: per step, and per token where a step makes one.
    pub launches_per_instance: f64,
    /// The intervals, in order of time.
    pub windows: Vec<PhaseWindow>,
    /// What each device did.
    pub devices: Vec<DeviceBreakdown>,
    /// Calls of the CUDA API that began in it.
    pub api: Vec<ApiRow>,
}

/// One interval of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseWindow {
    /// When it begins.
    pub start_ns: Nanos,
    /// How long it lasts.
    pub span_ns: Nanos,
    /// Kernels that belong to it.
    pub kernels: u64,
    /// The sum of the times of device events that belong to it, whole.
    pub device_time_ns: Nanos,
}

/// Device time without an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct UnattributedRow {
    /// Why.
    pub reason: Reason,
    /// Events.
    pub events: u64,
    /// The sum of their times.
    pub total_ns: Nanos,
}

/// Copies or memory fills with one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct TransferRow {
    /// The name as the tool wrote it.
    pub name: String,
    /// How many.
    pub calls: u64,
    /// The sum of their times.
    pub total_ns: Nanos,
    /// Bytes.
    pub bytes: Bytes,
}

/// Calls of one API function. A driver call inside a runtime call is part of that call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct ApiRow {
    /// The function.
    pub name: String,
    /// What it is for.
    pub kind: ApiKind,
    /// Calls.
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
    /// See [`LaunchTimes::clocks_disagree`].
    clocks_disagree: bool,
    /// What ran.
    pub(crate) program: Program,
    /// The devices whose phases are analyzed, and how many are left.
    pub(crate) judged_devices: FxHashSet<u32>,
    other_devices: usize,
    /// Forward passes that shapes show.
    pub(crate) shown: Option<ForwardPasses>,
}

impl Structure {
    /// See [`LaunchTimes::clocks_disagree`].
    pub(crate) fn clocks_disagree(&self) -> bool {
        self.clocks_disagree
    }
}

/// Steps and layers by the pattern of launches.
struct Repetitions {
    found: Vec<Repetition>,
    /// Whether a range says what a step is, which is believed.
    are_named: bool,
}

impl Repetitions {
    fn of(trace: &Trace) -> Self {
        let are_named = steps::has_step_ranges(trace);
        let are_needed = !are_named || slices::are_a_sample(trace);
        Self {
            found: if are_needed {
                steps::find(trace)
            } else {
                Vec::new()
            },
            are_named,
        }
    }

    /// What no range shows.
    fn unnamed(&self) -> &[Repetition] {
        if self.are_named { &[] } else { &self.found }
    }
}

/// The devices with most events, as many as can be analyzed in all intervals.
fn judged_devices(events: &DeviceEvents, intervals: usize) -> FxHashSet<u32> {
    let mut devices: Vec<(usize, u32)> = events
        .devices()
        .filter_map(|events| Some((events.len(), events.first()?.device)))
        .collect();
    devices.sort_by_key(|&(count, device)| (std::cmp::Reverse(count), device));
    let rows = (events.all().len() / EVENTS_PER_DEVICE_INTERVAL_MIN).max(DEVICE_INTERVALS_MIN);
    devices.truncate((rows / intervals.max(1)).clamp(1, DEVICES_MAX));
    devices.into_iter().map(|(_, device)| device).collect()
}

/// What is known of a run beside its trace.
#[derive(Clone, Copy, Default)]
pub(crate) struct Said<'a> {
    /// Whether llmprof itself ran the model.
    pub(crate) is_measured: bool,
    /// The name of the model that the user named.
    pub(crate) model: &'a str,
    /// Rows and width of its table of tokens.
    pub(crate) table: Option<(u64, u64)>,
}

/// What ran and when.
struct Resolved {
    program: Program,
    phases: Phases,
    shown: Option<ForwardPasses>,
}

impl Resolved {
    fn of_one_process(
        trace: &Trace,
        events: &DeviceEvents,
        launched: &LaunchTimes,
        repetitions: &Repetitions,
        said: &Said<'_>,
    ) -> Self {
        let shown = ForwardPasses::of(trace);
        let mut program = Program::of(trace, said.is_measured, shown.as_ref());
        let is_named = |shown: &ForwardPasses| said.table == Some(shown.table);
        if shown.as_ref().is_some_and(is_named) {
            program.add_model(said.model);
        }
        let shown = shown.filter(|_| program.generates_text());
        let shown = shown.filter(|shown| shown.generate() || is_named(shown));
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
            let events = DeviceEvents::of(&part.trace);
            let calls = EventCalls::of(&events, &Launches::of(&part.trace));
            let launched = LaunchTimes::of(&part.trace, &events, &calls);
            let repetitions = Repetitions::of(&part.trace);
            Self::of_one_process(&part.trace, &events, &launched, &repetitions, said)
        };
        let mut resolved: Vec<Self> = parts.iter().map(of_process).collect();
        if resolved.len() == 1 {
            return resolved.remove(0);
        }
        let (mut programs, mut phases) = (Vec::new(), Vec::new());
        for (part, own) in parts.iter().zip(resolved) {
            programs.push(own.program.on(&part.devices));
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
    pub(crate) fn of(trace: &Trace, said: &Said<'_>) -> Self {
        let (events, nesting) = rayon::join(|| DeviceEvents::of(trace), || Nesting::of(trace));
        let (launches, repetitions) =
            rayon::join(|| Launches::of(trace), || Repetitions::of(trace));
        let calls = EventCalls::of(&events, &launches);
        let launched = LaunchTimes::of(trace, &events, &calls);
        let Resolved {
            program,
            phases,
            shown,
        } = match Processes::of(trace, &events, &calls) {
            Processes::One => {
                Resolved::of_one_process(trace, &events, &launched, &repetitions, said)
            }
            Processes::Apart(parts) => Resolved::of_processes(&parts, said),
            Processes::OnOneDevice => Resolved {
                program: Program::of(trace, said.is_measured, None),
                phases: Phases::of_shared_device(trace, &events),
                shown: None,
            },
        };
        let attribution = Attribution::of(trace, &events, &calls, &nesting);
        let windows = EventWindows::of(&events, &launched, &phases);
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
            let times = SliceTimes::of(trace, nesting, events, |index| attribution.operator(index));
            operators::operators(trace, &times, attribution, events, device)
        },
        || Parts::of(trace, structure),
    );
    let Parts {
        mut phase_rows,
        devices,
        outside,
        api,
        kernels,
    } = parts;
    let totals = totals(trace, events, attribution, windows, &devices);
    let is_sample = slices::are_a_sample(trace);
    let scaled = is_sample
        .then(|| scaled_by(trace, &repetitions.found))
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
        steps: steps::patterns(trace, events, repetitions.unnamed()),
        devices,
        outside,
        outside_ranges: outside_ranges(trace, phases, events),
        attribution: origins::rows(trace, events, attribution, phases, windows),
        unattributed: unattributed(events, attribution),
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
            .chain(issues(trace, events, &kernels, &operators))
            .chain((is_sample && scaled.is_none()).then(few_slices))
            .collect(),
        scaled,
        operators,
        kernels,
        transfers: transfers(trace),
        source_lines: source_lines(trace, events, &structure.calls),
        api,
    }
}

/// What does not need the operators, worked out beside them.
struct Parts {
    phase_rows: Vec<PhaseRow>,
    devices: Vec<DeviceBreakdown>,
    outside: Option<OutsidePhases>,
    api: Vec<ApiRow>,
    kernels: Vec<KernelRow>,
}

impl Parts {
    fn of(trace: &Trace, structure: &Structure) -> Self {
        let Structure {
            events,
            nesting,
            phases,
            calls,
            windows,
            ..
        } = structure;
        let has_one_clock = !structure.clocks_disagree;
        let activity = HostActivity::of(trace, nesting, calls, has_one_clock);
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
        let judged = timelines.iter().filter(|one| one.activity.is_some());
        let judged: Vec<&DeviceTimeline<'_>> = judged.collect();
        let mut phase_rows: Vec<PhaseRow> = (0..phases.names.len())
            .map(|name| phase_row(name, phases, &judged, api.get(name + 1)))
            .collect();
        count_events(&mut phase_rows, events, windows, phases);
        Self {
            outside: outside(trace, phases, &timelines),
            phase_rows,
            devices,
            api: api.into_iter().next().unwrap_or_default(),
            kernels: kernels::kernels(trace, events),
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
