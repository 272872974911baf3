//! The one entry: a record in, an analysis out.
//!
//! Latencies and telemetry come from the passes; everything else from the first trace. Its work is one lane per device, or
//! the operators of the host where it has no device. [`stretches`] are the phases with what the decoder did in each,
//! [`matching`](crate::matching) says which operator each piece of work belongs to, [`phase`] puts one phase together,
//! [`first_use`] finds what is paid once.

mod assumptions;
mod first_use;
mod glue;
mod phase;
mod plain;
mod step_count;
pub(crate) mod stretches;
mod tables;
#[cfg(test)]
pub(crate) mod tests;

use llmprof_record::issue::{Issue, Severity};
use llmprof_record::run::{RecordedTrace, RunPhase, RunRecord};
use llmprof_record::trace::Trace;
use llmprof_theory::device::{Catalog, Device};
use llmprof_theory::floor::{MemoryLevel, Roof};
use llmprof_theory::{Model, ModelError, Pass, Routing, Workload};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

use self::assumptions::{arithmetic, assumptions};
use self::phase::Tracing;
use self::stretches::{TracePhase, count_passes, leave_out_parts, stretches};
use crate::analysis::{Analysis, AnalysisError};
use crate::attribution::operators::OperatorRow;
use crate::capture_cost;
use crate::counters::CountersAnalysis;
use crate::findings::{Facts, findings, throttling};
use crate::latency::{Latency, wall};
use crate::matching::lanes::{Lane, lanes};
use crate::matching::module_ranges::ModuleRanges;
use crate::matching::modules::ModuleTree;
use crate::matching::script::Script;
use crate::matching::units::{Counted, Matching, Verdict};
use crate::phase_analysis::PhaseAnalysis;
use crate::recorded_part::{self, RecordedPart};
use crate::roofline::Theory;
use crate::telemetry::{self, HostTelemetry};
use crate::trace::{Structure, TraceAnalysis, analyze_structure};

/// Analyzes what was recorded, against the peaks of `device`, of the record's own device, or of the one that its trace
/// names. Only a workload that theory refuses is an error.
pub fn analyze(record: &RunRecord, device: Option<&Device>) -> Result<Analysis, AnalysisError> {
    let own = device.is_none().then_some(record.device.as_ref()).flatten();
    let (named, unknown) = match (device.or(own), record.trace()) {
        (None, Some(trace)) => described(trace),
        _ => (None, None),
    };
    let judged = device.or(own).or(named.as_ref());
    let subject = Subject::of(record)?;
    let mut analysis = match record.traces.first() {
        Some(recorded) => of_trace(record, recorded, subject.as_ref(), judged),
        None => of_passes(record, subject.as_ref(), judged),
    };
    let has_time = !record.traces.is_empty() || !record.passes.is_empty();
    if !has_time {
        analysis.issues.clear();
    }
    for recorded in record.traces.iter().skip(1) {
        let device = judged;
        analysis
            .beside
            .push(of_trace(record, recorded, None, device));
    }
    if let Some(error) = record.model.as_ref().and_then(|model| model.uncounted()) {
        // It was asked for all the same.
        analysis.workload = record.workload;
        let issues = &mut analysis.issues;
        issues.retain(|issue| issue.code != "run.no_model");
        issues.push(uncounted(&error));
    }
    // What the run knew beside its data, such as what a profiler cost, holds for its own device.
    if device.is_none() {
        for note in &record.notes {
            if !analysis.assumptions.contains(note) {
                analysis.assumptions.push(note.clone());
            }
        }
    }
    let timeline = analysis.timeline.as_deref();
    let counters = record.counters.as_ref();
    analysis.counters = counters.map(|counters| CountersAnalysis::of(counters, timeline));
    let tables = record.summaries.iter().map(|summary| &summary.table);
    analysis.summaries = tables.clone().cloned().collect();
    let memory = record.memory.as_ref();
    analysis.memory = memory.map(|memory| memory.without_timelines());
    let lost = counters
        .into_iter()
        .flat_map(|counters| &counters.issues)
        .chain(tables.flat_map(|table| &table.issues))
        .chain(memory.into_iter().flat_map(|memory| &memory.issues));
    analysis
        .issues
        .extend(unknown.into_iter().chain(lost.cloned()));
    Ok(analysis)
}

/// A model that theory counts, and what was asked of it.
struct Subject<'a> {
    model: &'a Model,
    workload: Workload,
}

impl<'a> Subject<'a> {
    fn of(record: &'a RunRecord) -> Result<Option<Self>, AnalysisError> {
        let model = record.model.as_ref().and_then(|model| model.model.as_ref());
        let Some((model, workload)) = model.zip(record.workload) else {
            return Ok(None);
        };
        model.costs(&workload)?;
        Ok(Some(Self { model, workload }))
    }
}

/// That theory cannot count a model which ran all the same.
pub(crate) fn uncounted(error: &ModelError) -> Issue {
    let kind = match error {
        ModelError::UnknownFamily { found, .. } => format!("models of type `{found}`"),
        ModelError::NoModelType { .. } => "a model whose config has no `model_type`".to_owned(),
        other => format!("this model ({other})"),
    };
    Issue::new(
        Severity::Warning,
        "model.uncounted",
        format!(
            "llmprof cannot count {kind}: there are no roofline times, no MFU and no MBU, and operators are classified by kernel name"
        ),
    )
}

/// The description of the device that a trace names, or why there is none.
fn described(trace: &Trace) -> (Option<Device>, Option<Issue>) {
    let mut names = trace.devices.iter().map(|device| device.name.as_str());
    let Some(name) = names.find(|name| !name.is_empty()) else {
        return (None, None);
    };
    match Catalog::embedded().by_driver_name(name) {
        Ok(device) => (Some(device), None),
        Err(error) => {
            let issue = Issue::new(
                Severity::Warning,
                "hardware.unknown",
                format!("no rooflines: {error}"),
            )
            .with_hint("--device NAME compares with another device");
            (None, Some(issue))
        }
    }
}

/// What the passes say: latencies, loading, the machine.
fn of_passes(
    record: &RunRecord,
    subject: Option<&Subject<'_>>,
    device: Option<&Device>,
) -> Analysis {
    let telemetry = HostTelemetry::of(record);
    let (latency, latency_issues) = Latency::of(record);
    let mut issues = record.issues.clone();
    issues.extend(latency_issues);
    issues.extend(telemetry::issues(telemetry.as_ref()));
    issues.push(Issue::new(
        Severity::Warning,
        "run.no_capture",
        "no pass recorded operators: there is no waterfall",
    ));
    if subject.is_some() && device.is_none() {
        issues.push(no_device());
    }
    let device = device.filter(|_| subject.is_some());
    let workload = subject.map(|subject| subject.workload);
    let stated = workload.zip(device);
    Analysis {
        schema_version: Analysis::SCHEMA_VERSION,
        model: record.name.clone(),
        family: subject.map(|subject| subject.model.family.to_owned()),
        device: device.map(|device| device.name.clone()),
        workload,
        assumptions: assumptions(device, &latency, subject.is_some())
            .into_iter()
            .chain(stated.and_then(|(workload, device)| arithmetic(&workload, device)))
            .collect(),
        latency,
        load_ns: load_time(record),
        findings: throttling::findings(telemetry.as_ref()),
        telemetry,
        issues,
        ..Analysis::default()
    }
}

/// What a trace says together with the passes around it.
///
/// Phases are the trace's ranges `prefill`, `decode`, `vision` (and what else it calls its parts); a range `decode_step`
/// is one step. Ranges `warmup` and `load` belong to none. Where the first instance of a phase took longer than the later
/// ones for the same device time it is left out and reported apart as first use.
///
/// Operators are matched by their identity where the recorder knows it (llmprof's engine), by ranges named by module path
/// (`model.layers.3.self_attn.q_proj`, NVTX or `record_function`), else by kernel names to groups of operators. Each
/// device has its own phases. Several devices have no roofline times, since nothing says how the model is divided.
fn of_trace(
    record: &RunRecord,
    recorded: &RecordedTrace,
    subject: Option<&Subject<'_>>,
    device: Option<&Device>,
) -> Analysis {
    let trace = &recorded.trace;
    let mut structure = Structure::of(trace);
    let named =
        subject.and_then(|subject| stretches::name_steps(&mut structure.phases, &subject.workload));
    let timeline = analyze_structure(trace, &structure, device);
    let lanes = lanes(trace, &structure);
    let is_measured = !record.passes.is_empty();
    let mut issues = trace_issues(&timeline, &lanes, is_measured);
    issues.extend(named);
    let telemetry = HostTelemetry::of(record);
    let (latency, latency_issues) = Latency::of(record);
    issues.extend(record.issues.iter().cloned());
    if is_measured {
        issues.extend(latency_issues);
        issues.extend(telemetry::issues(telemetry.as_ref()));
    }
    absent(subject.is_some(), device, &lanes, &mut issues);

    let roof = device.map(Roof::new);
    let roof = roof.as_ref().filter(|_| lanes.len() <= 1);
    let workload = subject.map(|subject| {
        let mut workload = subject.workload;
        workload.routing = measured_routing(&workload, trace, &structure);
        workload
    });
    let theory = subject
        .zip(workload.as_ref())
        .map(|(subject, workload)| Theory {
            model: subject.model,
            workload,
            roof,
        });
    let mut found = stretches(trace, &structure);
    leave_out_parts(&mut found, subject.is_some(), &mut issues);
    issues.extend(recorded_part::unrecorded(&structure.phases, &found));
    let counted = theory.map(|theory| {
        count_passes(&mut found, trace, &theory, record, recorded.pass);
        // A run that was measured says itself what it did.
        let patterns = timeline.steps.as_ref().filter(|_| !is_measured);
        issues.extend(step_count::issue(
            &found,
            patterns,
            theory.model,
            theory.workload,
        ));
        let most = lanes.iter().map(|lane| lane.items.len()).sum::<usize>();
        count(&theory, &found, most.saturating_mul(2))
    });
    let matching = matched(trace, &structure, &lanes, counted.as_ref());
    let first_events = first_events(&lanes, &matching);
    let tracing = Tracing {
        trace,
        timeline: &timeline,
        names: &structure.phases.names,
        lanes: &lanes,
        matching: &matching,
        first_events: &first_events,
        theory: theory.zip(counted.as_ref()),
        record,
        captured: recorded.pass,
        telemetry: telemetry.as_ref(),
        prefills: found
            .iter()
            .filter(|phase| phase.phase == RunPhase::Prefill)
            .map(|phase| phase.stretches.len())
            .sum(),
        roof,
    };
    let mut phases: Vec<(PhaseAnalysis, Vec<Pass>)> = Vec::new();
    for phase in &found {
        for lane in 0..lanes.len() {
            let (mut judged, passes) = tracing.phase(phase, lane, &mut issues);
            if let Some(traced) = &mut judged.traced {
                let is_judged = |number: usize| !traced.instances[number].left_out;
                traced.recorded = RecordedPart::of(trace, &structure.phases, phase, is_judged);
                let part = traced.recorded;
                issues.extend(part.and_then(|part| part.issue(judged.name())));
            }
            phases.push((judged, passes));
        }
    }
    issues.extend(capture_cost::issue(phases.iter().map(|(phase, _)| phase)));
    let facts = Facts {
        subject: theory.map(|theory| (theory.model, theory.workload)),
        roof,
        latency: &latency,
        unrecorded_seconds: recorded_part::unrecorded_seconds(&found, record),
        phases: phases
            .iter()
            .map(|(phase, passes)| (phase, passes.clone()))
            .collect(),
    };
    let mut findings = findings(&facts);
    findings.extend(throttling::findings(telemetry.as_ref()));
    // Without a model rooflines are those of single operators of the framework, where their shapes were recorded.
    let under_roofs = |row: &OperatorRow| row.work.is_some_and(|work| work.roofline.is_some());
    let has_rooflines = subject.is_some() || timeline.operators.iter().any(under_roofs);
    let stated = workload.zip(device);
    Analysis {
        schema_version: Analysis::SCHEMA_VERSION,
        model: name(record, trace),
        family: subject.map(|subject| subject.model.family.to_owned()),
        device: device.map(|device| device.name.clone()),
        workload,
        assumptions: assumptions(
            device.filter(|_| has_rooflines),
            &latency,
            subject.is_some(),
        )
        .into_iter()
        .chain(stated.and_then(|(workload, device)| arithmetic(&workload, device)))
        .collect(),
        latency,
        load_ns: load_time(record),
        captured_pass: recorded.pass.map(|pass| pass as u64),
        phases: phases.into_iter().map(|(phase, _)| phase).collect(),
        findings,
        telemetry,
        timeline: Some(Box::new(timeline)),
        issues,
        ..Analysis::default()
    }
}

/// What was dropped comes first. That a trace of the host has no device is no loss.
fn trace_issues(timeline: &TraceAnalysis, lanes: &[Lane], is_measured: bool) -> Vec<Issue> {
    let of_host = lanes.iter().any(|lane| lane.device.is_none());
    let mut issues = timeline.issues.clone();
    issues.retain(|issue| !(of_host && issue.code == "analysis.no_device_events"));
    if of_host && !is_measured {
        issues.push(
            Issue::new(
                Severity::Info,
                "run.host_only",
                "the trace has no device events: its work is the operators of the host",
            )
            .with_hint("record with device activities switched on where there is a device"),
        );
    }
    let outside = lanes
        .iter()
        .filter(|lane| lane.is_exact)
        .flat_map(|lane| &lane.items)
        .filter(|item| item.window.is_none())
        .count();
    if outside > 0 {
        let issue = Issue::new(
            Severity::Warning,
            "run.outside_phases",
            "operator calls lie in no phase",
        );
        issues.push(issue.counting(outside as u64));
    }
    issues
}

fn no_device() -> Issue {
    Issue::new(
        Severity::Warning,
        "run.no_device",
        "no device was named: there are no roofline times, no MFU and no MBU",
    )
    .with_hint("name one with `--device` or `hardware.spec`, or measure this machine with `llmprof hardware measure`")
}

/// Says what cannot be worked out, and why.
fn absent(is_counted: bool, device: Option<&Device>, lanes: &[Lane], issues: &mut Vec<Issue>) {
    if !is_counted {
        issues.push(
            Issue::new(
                Severity::Warning,
                "run.no_model",
                "no model was named: there are no roofline times, no MFU and no MBU, and work is classified by kernel name",
            )
            .with_hint(
                "name the model and its workload: `llmprof import FILE model=NAME workload.prompt_tokens=N`",
            ),
        );
    } else if device.is_none() {
        issues.push(no_device());
    } else if lanes.len() > 1 {
        issues.push(
            Issue::new(
                Severity::Warning,
                "run.several_devices",
                "the trace has several devices and does not say how the model is divided among them: there are no roofline times",
            )
            .with_hint("import the trace of one device"),
        );
    }
    if lanes.is_empty() {
        issues.push(
            Issue::new(
                Severity::Warning,
                "run.no_work",
                "the trace has neither device events nor operators of the host: there is no waterfall",
            )
            .with_hint("record with operators or device activities switched on"),
        );
    }
}

fn matched(
    trace: &Trace,
    structure: &Structure,
    lanes: &[Lane],
    counted: Option<&Counted<'_>>,
) -> Matching {
    match (counted, lanes) {
        (Some(counted), [lane]) if lane.is_exact => Matching::exact(trace, lane, counted),
        (Some(counted), _) => {
            let tree_of = |window: usize| counted.tree_of.get(&window).copied();
            let ranges = ModuleRanges::of(trace, &structure.phases, lanes, &counted.trees, tree_of);
            Matching::of(trace, lanes, counted, &ranges)
        }
        (None, _) => Matching::by_name(trace, lanes),
    }
}

/// What theory counts in every stretch.
fn count<'m>(theory: &Theory<'m>, found: &[TracePhase], most: usize) -> Counted<'m> {
    let (model, workload, roof) = (theory.model, theory.workload, theory.roof);
    let mut script = Script::empty();
    let mut windows = FxHashMap::default();
    let mut tree_of = FxHashMap::default();
    let mut order: Vec<_> = found
        .iter()
        .flat_map(|phase| phase.stretches.iter().map(|stretch| (phase.phase, stretch)))
        .collect();
    order.sort_by_key(|(phase, stretch)| (*phase == RunPhase::Vision, stretch.start));
    let mut towers = 0;
    for (phase, stretch) in order {
        let begin = script.calls.len();
        // What a floor cannot be made of is told when the phase is put together.
        let levels = theory
            .floor(phase, &stretch.passes, &mut Vec::new())
            .map(|(_, levels)| levels);
        let level = |index: usize| -> Option<(&Roof<'_>, MemoryLevel)> {
            Some((roof?, *levels.as_ref()?.get(index)?))
        };
        if phase == RunPhase::Vision {
            towers = begin;
            script.add_vision(model, workload, level(0));
            tree_of.insert(stretch.window, 1);
        } else {
            for (index, pass) in stretch.passes.iter().enumerate() {
                script.add_pass(model, workload, pass, level(index), most);
            }
            tree_of.insert(stretch.window, 0);
        }
        windows.insert(stretch.window, begin..script.calls.len());
    }
    let towers = if towers == 0 && !found.iter().any(|phase| phase.phase == RunPhase::Vision) {
        script.calls.len()
    } else {
        towers
    };
    let trees = vec![
        ModuleTree::of(&script, 0..towers),
        ModuleTree::of(&script, towers..script.calls.len()),
    ];
    Counted {
        script,
        windows,
        trees,
        tree_of,
    }
}

/// When the first event of each unit began.
fn first_events(lanes: &[Lane], matching: &Matching) -> Vec<i64> {
    let mut first = vec![i64::MAX; matching.units.len()];
    for (lane, verdicts) in lanes.iter().zip(&matching.verdicts) {
        for (item, verdict) in lane.items.iter().zip(verdicts) {
            if let Verdict::Unit(unit) = verdict {
                let first = &mut first[*unit as usize];
                *first = (*first).min(item.start);
            }
        }
    }
    first
}

fn name(record: &RunRecord, trace: &Trace) -> String {
    if !record.name.is_empty() {
        return record.name.clone();
    }
    let tool = trace.metadata.get("tool");
    tool.map_or_else(|| "a trace".to_owned(), |tool| format!("a trace of {tool}"))
}

/// Time that loading took.
fn load_time(record: &RunRecord) -> Option<Nanos> {
    let walls = record.passes.iter().map(|pass| wall(pass, RunPhase::Load));
    walls.filter(|time| time.0 > 0).find(|_| true)
}

/// The mean number of distinct experts that the calls of each phase reached, where the recorder counts them.
fn measured_routing(workload: &Workload, trace: &Trace, structure: &Structure) -> Routing {
    if workload.routing != Routing::Uniform {
        return workload.routing;
    }
    let calls = &trace.operator_calls;
    let mut sums: FxHashMap<&str, (f64, f64)> = FxHashMap::default();
    for row in 0..trace.hosts.len() {
        let external = trace.hosts.external[row];
        let at = calls.external.partition_point(|&known| known < external);
        let experts = match calls.external.get(at) {
            Some(&known) if known == external => calls.experts[at],
            _ => 0,
        };
        let window = structure.phases.at(trace.hosts.start[row]);
        if let Some(window) = window.filter(|_| experts > 0) {
            let name = structure.phases.windows[window].name;
            let sum = sums.entry(&structure.phases.names[name]).or_default();
            sum.0 += f64::from(experts);
            sum.1 += 1.0;
        }
    }
    let mean = |phase: RunPhase| {
        let &(sum, count) = sums.get(phase.name())?;
        Some(sum / count)
    };
    match (mean(RunPhase::Prefill), mean(RunPhase::Decode)) {
        (Some(prefill), Some(decode)) => Routing::Measured { prefill, decode },
        // Without decode steps the second figure is used nowhere.
        (Some(prefill), None) if workload.decode_steps() == 0 => Routing::Measured {
            prefill,
            decode: 0.0,
        },
        _ => Routing::Uniform,
    }
}
