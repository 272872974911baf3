//! The causes of a trace: its phases handed to the replay.

use llmprof_record::run::{RunPhase, RunRecord};
use llmprof_record::trace::{HostKind, Trace};
use llmprof_theory::Pass;
use llmprof_theory::device::Device;
use llmprof_units::DType;
use rustc_hash::FxHashMap;

use crate::analyze::phase_intervals::{Interval, TracePhase};
use crate::bottleneck::ClassReason;
use crate::causes::{Diagnosis, PhaseInput, Purpose, Subject, diagnose};
use crate::phase_analysis::PhaseAnalysis;
use crate::phases::PhaseSource;
use crate::phases::forward::ForwardPasses;
use crate::replay::{PhaseWindows, Window};
use crate::thresholds::{WITHOUT_CALL_MAX_SHARE, WORK_OF_LAUNCHES_MIN_SHARE};
use crate::timeline::launches::{ApiKind, ApiKinds, is_api, is_memory_call};
use crate::trace::Structure;

/// Causes of all phases of a device. A recording without phases includes the program's start, where everything is done once:
/// nothing there need be a cause.
pub(super) fn diagnosed(
    record: &RunRecord,
    trace: &Trace,
    structure: &Structure,
    found: &[TracePhase],
    judged: &[(PhaseAnalysis, Vec<Pass>)],
    device: Option<&Device>,
) -> Option<Diagnosis> {
    let graph_steps = prompt_and_graphs(trace, structure);
    let purpose = match &graph_steps {
        Some(_) => Purpose::GeneratesText,
        None => purpose(trace, structure)?,
    };
    if structure.clocks_disagree() || !are_times_addable(trace) || !is_recorded(trace, structure) {
        return None;
    }
    let are_by_shapes = graph_steps.is_some() || structure.phases.source == PhaseSource::Shapes;
    let of_phases = || {
        let inputs = found.iter();
        let inputs = inputs.filter_map(|phase| input(trace, structure, phase, judged));
        inputs.collect()
    };
    let mut inputs: Vec<PhaseInput> = graph_steps.unwrap_or_else(of_phases);
    if are_by_shapes {
        begin_with_preparation(trace, &mut inputs);
    }
    let subject = Subject {
        purpose,
        weights: stated_format(record),
    };
    let found = diagnose(trace, &inputs, device, &subject).filter(|_| !inputs.is_empty())?;
    (purpose != Purpose::Unknown || found.has_own_evidence()).then_some(found)
}

/// What need not be done is known of programs that generate text: training and others do what looks alike for reasons of their own.
fn purpose(trace: &Trace, structure: &Structure) -> Option<Purpose> {
    match structure.phases.source {
        PhaseSource::Whole => None,
        _ if structure.phases.are_of_devices() => None,
        _ if structure.program.generates_text() => Some(Purpose::GeneratesText),
        _ if !structure.program.is_training() && reads_tokens(trace) => Some(Purpose::ReadsTokens),
        PhaseSource::Inferred if !structure.program.is_training() => Some(Purpose::Unknown),
        _ => None,
    }
}

/// Whether tokens are looked up in a vocabulary, and attend to each other or lead to logits over it, with nothing that computes
/// gradients.
fn reads_tokens(trace: &Trace) -> bool {
    const VOCABULARY_MIN: i64 = 1_000;
    let hosts = &trace.hosts;
    let operators = || (0..hosts.len()).filter(|&row| hosts.kind[row] == HostKind::OPERATOR);
    let name = |row: usize| trace.text(hosts.name[row]);
    let tensors = |row: usize| {
        let arguments = trace.inputs.arguments(hosts.inputs[row]);
        arguments.flat_map(|argument| argument.tensors().map(|tensor| tensor.dims))
    };
    let vocabulary = |row: usize| {
        let table = tensors(row).next().filter(|dims| dims.len() == 2)?;
        let is_table = name(row) == "aten::embedding" && table[0] >= VOCABULARY_MIN;
        is_table.then_some(table)
    };
    let Some(table) = operators().find_map(vocabulary) else {
        return false;
    };
    let uses_tokens = |row: usize| match name(row) {
        "aten::scaled_dot_product_attention" | "aten::_softmax" => true,
        // The projection onto the vocabulary.
        "aten::linear" => tensors(row).nth(1) == Some(table),
        _ => false,
    };
    operators().any(uses_tokens) && !operators().any(|row| name(row).ends_with("Backward0"))
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

fn input(
    trace: &Trace,
    structure: &Structure,
    phase: &TracePhase,
    judged: &[(PhaseAnalysis, Vec<Pass>)],
) -> Option<PhaseInput> {
    let of_phase = judged
        .iter()
        .map(|(phase, _)| phase)
        .find(|found| found.phase == phase.phase && is_labelled(found, phase))?;
    if of_phase.class.why == ClassReason::Cut {
        return None;
    }
    let traced = of_phase.traced.as_ref()?;
    let instances = phase.intervals.iter().zip(&traced.instances);
    let included: Vec<&Interval> = instances
        .filter(|(_, instance)| !instance.left_out)
        .map(|(interval, _)| interval)
        .collect();
    let windows = included
        .iter()
        .filter_map(|interval| host_window(trace, structure, interval.window))
        .collect();
    Some(PhaseInput {
        phase: phase.phase,
        label: phase.label.clone(),
        windows: PhaseWindows {
            windows,
            steps: steps(phase.phase, &included),
        },
        plain_ns: of_phase.unrecorded_wall().map(|wall| wall.0),
    })
}

/// The phases of a program without ranges that reads a prompt operator by operator and launches a graph for each token after it.
fn prompt_and_graphs(trace: &Trace, structure: &Structure) -> Option<Vec<PhaseInput>> {
    const NODES_MIN: usize = 20;
    const LAUNCHES_MIN: usize = 3;
    let phases = &structure.phases;
    let is_open = matches!(phases.source, PhaseSource::Whole | PhaseSource::Shapes);
    let is_known = !is_open || phases.are_of_devices();
    if is_known || structure.program.is_training() || !reads_tokens(trace) {
        return None;
    }
    let passes = ForwardPasses::of(trace)?.passes;
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
    if most < NODES_MIN || steps.len() < LAUNCHES_MIN || begin < last {
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
            windows: vec![Window { start, end }],
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
    let starts_up = |row: usize| {
        let name = trace.text(hosts.name[row]);
        let loads = ["ModuleLoad", "LibraryLoad"];
        is_memory_call(name) || loads.iter().any(|part| name.contains(part))
    };
    if before.clone().any(starts_up) {
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

/// Labels of phases on one of several devices end in its name.
fn is_labelled(found: &PhaseAnalysis, phase: &TracePhase) -> bool {
    match (&found.label, &phase.label) {
        (None, None) => true,
        (Some(found), Some(label)) => found.starts_with(label.as_str()),
        (Some(found), None) => found.starts_with(phase.phase.name()),
        (None, Some(_)) => false,
    }
}

/// Steps where ranges or an engine show each; 0 where nothing does.
fn steps(phase: RunPhase, included: &[&Interval]) -> u64 {
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

/// When the host launched the work of a window. Windows that patterns of kernels show are times of the device: their host time
/// goes from the first launch of their own work to that of the next window.
fn host_window(trace: &Trace, structure: &Structure, window: usize) -> Option<Window> {
    let phases = &structure.phases;
    if phases.by_launch() {
        let (start, end) = phases.host_window(window);
        return Some(Window { start, end });
    }
    let first = |window: usize| {
        let events = structure.events.all().iter().enumerate();
        let own = events.filter(|(index, _)| structure.windows.get(*index) == Some(window));
        let calls = own.filter_map(|(index, _)| structure.calls.call(index));
        calls.map(|call| trace.hosts.start[call as usize]).min()
    };
    let start = first(window)?;
    let next = phases
        .windows
        .get(window + 1)
        .and_then(|_| first(window + 1));
    let end = if let Some(next) = next {
        next
    } else {
        let ends = trace.hosts.start.iter().zip(trace.hosts.duration.iter());
        ends.map(|(start, duration)| start + duration).max()?
    };
    (end > start).then_some(Window { start, end })
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
