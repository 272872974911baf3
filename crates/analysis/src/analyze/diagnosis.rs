//! The causes of a trace: its phases handed to the replay.

use crate::thresholds::{
    DECODE_GRAPH_LAUNCHES_MIN, DECODE_GRAPH_NODES_MIN, WITHOUT_CALL_MAX_SHARE,
    WORK_OF_LAUNCHES_MIN_SHARE,
};
use llmprof_record::kernel_name::{Category, classify};
use llmprof_record::run::{RunPhase, RunRecord};
use llmprof_record::trace::{HostKind, Trace};
use llmprof_theory::Pass;
use llmprof_theory::device::Device;
use llmprof_units::DType;
use rustc_hash::FxHashMap;

use crate::analyze::phase_intervals::{PhaseInterval, TracePhase};
use crate::bottleneck::ClassReason;
use crate::causes::{Diagnosis, PhaseInput, ProgramFacts, ProgramPurpose, diagnose};
use crate::labels::is_preparation;
use crate::matching::operator_category::operator_category;
use crate::phase_analysis::PhaseAnalysis;
use crate::phases::PhaseSource;
use crate::phases::forward::ForwardPasses;
use crate::program::named_rows;
use crate::replay::{HostWindow, PhaseWindows};
use crate::timeline::launches::{ApiKind, ApiKinds, is_api, is_memory_call, loads_code};
use crate::trace::Structure;

/// Causes of all phases of a device. A recording without phases includes the program's start, where everything is done once:
/// nothing there need be a cause.
pub(super) fn diagnose_phases(
    record: &RunRecord,
    trace: &Trace,
    structure: &Structure,
    trace_phases: &[TracePhase],
    judged: &[(PhaseAnalysis, Vec<Pass>)],
    device: Option<&Device>,
) -> Option<Diagnosis> {
    let graph_steps = prompt_and_graphs(trace, structure);
    let purpose = match &graph_steps {
        Some(_) => ProgramPurpose::GeneratesText,
        None => program_purpose(trace, structure)?,
    };
    if structure.clocks_disagree() || !are_times_addable(trace) || !is_recorded(trace, structure) {
        return None;
    }
    let are_by_shapes = graph_steps.is_some() || structure.phases.source == PhaseSource::Shapes;
    let of_phases = || {
        let host_windows = HostWindows::of_structure(trace, structure);
        let inputs = trace_phases.iter();
        let inputs = inputs.filter_map(|phase| phase_input(&host_windows, phase, judged));
        inputs.collect()
    };
    let mut inputs: Vec<PhaseInput> = graph_steps.unwrap_or_else(of_phases);
    if are_by_shapes {
        begin_with_preparation(trace, &mut inputs);
    }
    if structure.phases.source == PhaseSource::Whole {
        begin_after_start(trace, structure, &mut inputs);
    }
    leave_out_start(trace, &mut inputs);
    let subject = ProgramFacts {
        purpose,
        are_steps_inferred: structure.phases.source == PhaseSource::Inferred,
        weights: stated_format(record),
    };
    let diagnosis = diagnose(trace, &inputs, device, &subject).filter(|_| !inputs.is_empty())?;
    let is_vague =
        purpose == ProgramPurpose::Unknown || structure.phases.source == PhaseSource::Whole;
    (!is_vague || diagnosis.has_own_evidence()).then_some(diagnosis)
}

/// What need not be done is known of programs that generate text: training and others do what looks alike for reasons of their own.
fn program_purpose(trace: &Trace, structure: &Structure) -> Option<ProgramPurpose> {
    match structure.phases.source {
        // A recording without phases may hold the program's start, where everything is done once.
        PhaseSource::Whole
            if structure.program.computes_gradients()
                || end_of_start(trace, structure).is_none() =>
        {
            None
        }
        PhaseSource::Whole => runs_model(trace).then_some(ProgramPurpose::RunsModel),
        _ if structure.phases.are_of_devices() => None,
        _ if structure.program.generates_text() => Some(ProgramPurpose::GeneratesText),
        _ if !structure.program.computes_gradients() && runs_model(trace) => {
            Some(ProgramPurpose::RunsModel)
        }
        PhaseSource::Inferred if !structure.program.computes_gradients() => {
            Some(ProgramPurpose::Unknown)
        }
        _ => None,
    }
}

/// Whether operators with recorded shapes multiply, and none computes gradients; in a recording without operators, whether kernels
/// multiply.
fn runs_model(trace: &Trace) -> bool {
    let hosts = &trace.hosts;
    let operators = || (0..hosts.len()).filter(|&row| hosts.kind[row] == HostKind::OPERATOR);
    let name = |row: usize| trace.text(hosts.name[row]);
    if operators().next().is_none() {
        let is_product = |name: &str| {
            let category = classify(name).category;
            matches!(category, Category::Gemm | Category::Conv)
        };
        return named_rows(trace, &trace.kernels.name, is_product)
            .next()
            .is_some();
    }
    let multiplies = |row: usize| {
        let category = operator_category(name(row));
        let has_shapes = || trace.inputs.arguments(hosts.inputs[row]).next().is_some();
        matches!(category, Category::Gemm | Category::Conv) && has_shapes()
    };
    operators().any(multiplies) && !operators().any(|row| name(row).ends_with("Backward0"))
}

/// Whether the trace holds both the calls and the work of the phases: a replay of one without the other says what is not so.
fn is_recorded(trace: &Trace, structure: &Structure) -> bool {
    let phases = &structure.phases;
    let events = structure.events.all().iter().enumerate();
    let within = events.filter(|(_, event)| phases.at(event.start).is_some());
    let (mut work, mut without_call) = (0_usize, 0_usize);
    for (index, _) in within {
        work += 1;
        without_call += usize::from(structure.calls.call(index).is_none());
    }
    let mut kinds = ApiKinds::default();
    let hosts = &trace.hosts;
    let is_launch = |row: &usize| {
        is_api(hosts.kind[*row])
            && phases.at_launch(hosts.start[*row]).is_some()
            && kinds.get(trace, hosts.name[*row]) == ApiKind::Launch
    };
    let launches = (0..hosts.len()).filter(is_launch).count();
    without_call as f64 <= WITHOUT_CALL_MAX_SHARE * work as f64
        && work as f64 >= WORK_OF_LAUNCHES_MIN_SHARE * launches as f64
}

/// Whether no sum of the trace's times overflows: a damaged or invented file may state any.
fn are_times_addable(trace: &Trace) -> bool {
    // A quarter of the range of `i64`, so that starts, durations and their differences add up.
    const SUM_MAX_NS: i128 = (i64::MAX / 4) as i128;
    let columns = [
        (&trace.hosts.start, &trace.hosts.duration),
        (&trace.kernels.start, &trace.kernels.duration),
        (&trace.copies.start, &trace.copies.duration),
        (&trace.memsets.start, &trace.memsets.duration),
        (&trace.ranges.start, &trace.ranges.duration),
    ];
    let durations = columns.iter().flat_map(|(_, durations)| durations.iter());
    let sum: i128 = durations.map(|&duration| i128::from(duration)).sum();
    let mut starts = columns.iter().flat_map(|(starts, _)| starts.iter());
    sum < SUM_MAX_NS && starts.all(|&start| i128::from(start).abs() < SUM_MAX_NS)
}

fn phase_input(
    host_windows: &HostWindows<'_>,
    phase: &TracePhase,
    judged: &[(PhaseAnalysis, Vec<Pass>)],
) -> Option<PhaseInput> {
    let of_phase = judged
        .iter()
        .map(|(phase, _)| phase)
        .find(|judged| judged.phase == phase.phase && is_labelled(judged, phase))?;
    if of_phase.class.why == ClassReason::Cut || phase.label.as_deref().is_some_and(is_preparation)
    {
        return None;
    }
    let traced = of_phase.traced.as_ref()?;
    let instances = phase.intervals.iter().zip(&traced.instances);
    let included: Vec<&PhaseInterval> = instances
        .filter(|(_, instance)| !instance.left_out)
        .map(|(interval, _)| interval)
        .collect();
    let windows: Vec<HostWindow> = included
        .iter()
        .filter_map(|interval| host_windows.of_window(interval.window))
        .collect();
    let steps = match shown_steps(phase.phase, &included) {
        0 if phase.phase == RunPhase::Decode => host_windows.repeated_steps(&windows),
        shown => shown,
    };
    Some(PhaseInput {
        phase: phase.phase,
        label: phase.label.clone(),
        windows: PhaseWindows { windows, steps },
        plain_ns: of_phase.unrecorded_wall().map(|wall| wall.0),
    })
}

/// The phases of a program without ranges that reads a prompt operator by operator and launches a graph for each token after it.
fn prompt_and_graphs(trace: &Trace, structure: &Structure) -> Option<Vec<PhaseInput>> {
    let phases = &structure.phases;
    let is_open = matches!(phases.source, PhaseSource::Whole | PhaseSource::Shapes);
    let is_known = !is_open || phases.are_of_devices();
    if is_known || structure.program.computes_gradients() || !runs_model(trace) {
        return None;
    }
    let passes = ForwardPasses::of_trace(trace)?.passes;
    // Shapes show the prompt alone: operators of a graph are not recorded when it is launched.
    if phases.source == PhaseSource::Shapes && passes.len() != 1 {
        return None;
    }
    let (first, last) = (passes.first()?.start, passes.last()?.start);
    let mut nodes: FxHashMap<u32, usize> = FxHashMap::default();
    for &correlation in trace.kernels.correlation.iter() {
        *nodes.entry(correlation).or_default() += 1;
    }
    let hosts = &trace.hosts;
    let rows = (0..hosts.len()).filter(|&row| is_api(hosts.kind[row]));
    let launches: Vec<(i64, usize)> = rows
        .filter(|&row| trace.text(hosts.name[row]).contains("GraphLaunch"))
        .filter_map(|row| Some((hosts.start[row], *nodes.get(&hosts.correlation[row])?)))
        .collect();
    let most = launches.iter().map(|(_, nodes)| *nodes).max()?;
    let steps = launches.iter().filter(|(_, nodes)| 2 * nodes >= most);
    let steps: Vec<i64> = steps.map(|(start, _)| *start).collect();
    let begin = steps.iter().copied().min()?;
    if most < DECODE_GRAPH_NODES_MIN || steps.len() < DECODE_GRAPH_LAUNCHES_MIN || begin < last {
        return None;
    }
    let ends = hosts.start.iter().zip(hosts.duration.iter());
    let end = ends
        .map(|(start, duration)| start.saturating_add(*duration))
        .max()?;
    let phase = |phase, start, end, steps| PhaseInput {
        phase,
        label: None,
        windows: PhaseWindows {
            windows: vec![HostWindow { start, end }],
            steps,
        },
        plain_ns: None,
    };
    Some(vec![
        phase(RunPhase::Prefill, first, begin, 1),
        phase(RunPhase::Decode, begin, end, steps.len() as u64),
    ])
}

/// Without ranges a pass begins with its first operator, and what the program does for the first pass of a recording lies before it:
/// reading a file, making tensors of a text. The phase of that pass begins with the first operator of the recording. Taking memory
/// from the driver or loading code are signs of a program that starts, where everything is done once.
fn begin_with_preparation(trace: &Trace, inputs: &mut [PhaseInput]) {
    let of_phases = inputs.iter_mut().filter(|input| input.plain_ns.is_none());
    let windows = of_phases.flat_map(|input| &mut input.windows.windows);
    let Some(first) = windows.min_by_key(|window| window.start) else {
        return;
    };
    let hosts = &trace.hosts;
    let within = |row: &usize| (first.start..first.end).contains(&hosts.start[*row]);
    let is_operator = |row: &usize| hosts.kind[*row] == HostKind::OPERATOR;
    let mut operators = (0..hosts.len()).filter(is_operator);
    let Some(thread) = operators.find(within).map(|row| hosts.thread[row]) else {
        return;
    };
    let before = (0..hosts.len())
        .filter(|&row| hosts.thread[row] == thread && hosts.start[row] < first.start);
    if before.clone().any(|row| is_of_start(trace, row)) {
        return;
    }
    let operators = before.filter(is_operator);
    let start = operators.map(|row| hosts.start[row]).min();
    // Libraries prepare every pass for a few milliseconds.
    let is_long = |start: &i64| 2 * (first.start - start) >= first.end - first.start;
    if let Some(start) = start.filter(is_long) {
        first.start = start;
    }
}

/// Whether a row takes memory from the driver or loads code, as when a program starts.
fn is_of_start(trace: &Trace, row: usize) -> bool {
    let name = trace.text(trace.hosts.name[row]);
    is_memory_call(name) || loads_code(name)
}

/// When the program has started: it takes no memory and loads no code from then on. `None` where it does so until most of its work is
/// launched. The beginning of time where nothing of a start was recorded.
fn end_of_start(trace: &Trace, structure: &Structure) -> Option<i64> {
    let hosts = &trace.hosts;
    let rows = (0..hosts.len()).filter(|&row| is_of_start(trace, row));
    let Some(end) = rows
        .map(|row| hosts.start[row].saturating_add(hosts.duration[row]))
        .max()
    else {
        return Some(i64::MIN);
    };
    let (mut after, mut all) = (0_i128, 0_i128);
    for (index, event) in structure.events.all().iter().enumerate() {
        let duration = i128::from(event.duration());
        let launch = structure.calls.call(index);
        let is_after = launch.is_some_and(|row| hosts.start[row as usize] >= end);
        all += duration;
        after += if is_after { duration } else { 0 };
    }
    (2 * after >= all).then_some(end)
}

/// Leaves out a range of the program that comes once and loads code, where another comes again: it prepares the work.
fn leave_out_start(trace: &Trace, inputs: &mut Vec<PhaseInput>) {
    let hosts = &trace.hosts;
    let comes_again = |input: &PhaseInput| input.windows.windows.len() > 1;
    if !inputs.iter().any(comes_again) {
        return;
    }
    inputs.retain(|input| {
        let [window] = &input.windows.windows[..] else {
            return true;
        };
        let is_inside = |row: usize| (window.start..window.end).contains(&hosts.start[row]);
        let mut loads = named_rows(trace, &hosts.name, loads_code);
        input.phase != RunPhase::Other || !loads.any(is_inside)
    });
}

/// A recording without phases begins for causes when the program has started: nothing that is done once need be a cause.
fn begin_after_start(trace: &Trace, structure: &Structure, inputs: &mut [PhaseInput]) {
    let Some(end) = end_of_start(trace, structure) else {
        return;
    };
    for window in inputs
        .iter_mut()
        .flat_map(|input| &mut input.windows.windows)
    {
        window.start = window.start.max(end.min(window.end));
    }
}

/// Labels of phases on one of several devices end in its name.
fn is_labelled(judged: &PhaseAnalysis, phase: &TracePhase) -> bool {
    match (&judged.label, &phase.label) {
        (None, None) => true,
        (Some(judged), Some(label)) => judged.starts_with(label.as_str()),
        (Some(judged), None) => judged.starts_with(phase.phase.name()),
        (None, Some(_)) => false,
    }
}

/// Steps where ranges or an engine show each; 0 where nothing does.
fn shown_steps(phase: RunPhase, included: &[&PhaseInterval]) -> u64 {
    let shown: u64 = included
        .iter()
        .map(|interval| interval.steps.len() as u64)
        .sum();
    let labelled = included.iter().filter(|one| one.step.is_some()).count();
    let is_pass = phase == RunPhase::Prefill;
    match (shown, labelled) {
        (0, 0) if is_pass => included.len() as u64,
        (0, labelled) => labelled as u64,
        (shown, _) => shown,
    }
}

/// When the host launched the work of windows. Windows that patterns of kernels show are times of the device: their host time
/// goes from the first launch of their own work to that of the next window, or where something else comes before that, to the end of the
/// last call before it.
struct HostWindows<'a> {
    trace: &'a Trace,
    structure: &'a Structure,
    /// By window: the rows of the first and the last call that launches its work, where windows are times of the device.
    launches: Vec<Option<(u32, u32)>>,
    /// When all device events were launched, in order.
    launch_times: Vec<i64>,
    /// When steps were launched that only their launches show; empty where operators show forward passes.
    launched_steps: Vec<i64>,
}

impl<'a> HostWindows<'a> {
    fn of_structure(trace: &'a Trace, structure: &'a Structure) -> Self {
        let hosts = &trace.hosts;
        let mut launches: Vec<Option<(u32, u32)>> = vec![None; structure.phases.windows.len()];
        let mut launch_times = Vec::new();
        let start = |row: u32| hosts.start[row as usize];
        for event in 0..structure.events.all().len() {
            let Some(call) = structure.calls.call(event) else {
                continue;
            };
            launch_times.push(start(call));
            if let Some(window) = structure.windows.window_of(event) {
                let (first, last) = launches[window].get_or_insert((call, call));
                if start(call) < start(*first) {
                    *first = call;
                }
                if start(call) > start(*last) {
                    *last = call;
                }
            }
        }
        launch_times.sort_unstable();
        Self {
            trace,
            structure,
            launches,
            launch_times,
            launched_steps: if hosts.kind.contains(&HostKind::OPERATOR) {
                Vec::new()
            } else {
                structure.step_launches()
            },
        }
    }

    fn of_window(&self, window: usize) -> Option<HostWindow> {
        let phases = &self.structure.phases;
        if phases.by_launch() {
            let (start, end) = phases.host_window(window);
            return Some(HostWindow { start, end });
        }
        let (first, last) = self.launches[window]?;
        let start = self.trace.hosts.start[first as usize];
        let end = self.end_of_calls(last as usize);
        let next = self.launches.get(window + 1).copied().flatten();
        let next = next.map(|(first, _)| self.trace.hosts.start[first as usize]);
        // Nothing else was launched before the next window.
        let end = next
            .filter(|&next| next <= self.next_launch(last as usize))
            .unwrap_or(end);
        (end > start).then_some(HostWindow { start, end })
    }

    /// When the first call after `row` launches something.
    fn next_launch(&self, row: usize) -> i64 {
        let start = self.trace.hosts.start[row];
        let next = self.launch_times.partition_point(|&time| time <= start);
        self.launch_times.get(next).copied().unwrap_or(i64::MAX)
    }

    /// The end of the last call of a thread before something is launched again.
    fn end_of_calls(&self, row: usize) -> i64 {
        let hosts = &self.trace.hosts;
        let until = self.next_launch(row);
        let rows = (row..hosts.len()).take_while(|&next| {
            hosts.thread[next] == hosts.thread[row] && hosts.start[next] < until
        });
        let ends = rows.filter(|&row| is_api(hosts.kind[row]));
        ends.map(|row| hosts.start[row].saturating_add(hosts.duration[row]))
            .max()
            .unwrap_or(i64::MIN)
    }

    /// Steps that were launched in windows, where each of these holds some; else 0.
    fn repeated_steps(&self, windows: &[HostWindow]) -> u64 {
        let steps = |window: &HostWindow| {
            let launches = self.launched_steps.iter();
            launches
                .filter(|time| (window.start..window.end).contains(time))
                .count() as u64
        };
        let counts: Vec<u64> = windows.iter().map(steps).collect();
        if counts.contains(&0) {
            return 0;
        }
        counts.iter().sum()
    }
}

/// The format of weights that the model's config states.
fn stated_format(record: &RunRecord) -> Option<DType> {
    let design = &record.model.as_ref()?.design;
    let mut stated = ["dtype", "torch_dtype"].iter();
    let name = stated.find_map(|key| design.get(*key)?.as_str())?;
    Some(match name.trim_start_matches("torch.") {
        "bfloat16" => DType::Bf16,
        "float16" | "half" => DType::F16,
        "float32" | "float" => DType::F32,
        _ => return None,
    })
}
