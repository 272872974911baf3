//! The analysis of a run whose captured pass is a trace: of a device, or of a framework on the host.
//!
//! [`analyze_trace`] gives the same [`RunAnalysis`] as a run of the native engine has. What the work of a waterfall is
//! comes from `items`: device events, or the innermost operators of the host's thread where the trace has no device.
//! `stretches` are the phases, `matching` says which operator of theory each piece of work belongs to (by ranges of
//! `modules` where the trace has some), `phase` puts it together, `first_use` finds what is paid once.

mod facts;
mod first_use;
mod glue;
mod host_operators;
mod items;
mod matching;
mod module_ranges;
mod modules;
mod phase;
mod plain;
mod recorded_part;
mod step_count;
mod stretches;
mod tables;

pub use facts::{FirstInstance, Glue, NewLengths, PhaseInstance, TracedPhase};
pub use recorded_part::RecordedPart;

use llmprof_record::issue::{Issue, Severity};
use llmprof_record::trace::Trace;
use llmprof_theory::device::Device;
use llmprof_theory::floor::{MemoryLevel, Roof};
use llmprof_theory::{Model, Pass, Workload};
use rustc_hash::FxHashMap;

use self::items::{Lane, lanes};
use self::matching::{Counted, Matching, Verdict};
use self::module_ranges::ModuleRanges;
use self::modules::ModuleTree;
use self::phase::Tracing;
use self::stretches::{TracePhase, count_passes, leave_out_parts, stretches};
use super::capture_cost;
use super::contention;
use super::finding_rules::{Facts, findings};
use super::latency::Latency;
use super::matching::Script;
use super::measured::{MeasuredRun, PassKind, RunPhase};
use super::phase_analysis::{Context, PhaseAnalysis};
use super::run_analysis::{RunAnalysis, RunAnalysisError, assumptions, load_time};
use super::throttling;
use crate::analysis::{Structure, analyze_structure};
use crate::operators::OperatorRow;

/// What is known of a traced pass beside its trace. Everything may be absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracedPass<'a> {
    /// What to call it, for people; the measured run's name for its model, or the tool's, where this is empty.
    pub name: &'a str,
    /// The model, and what was asked of it. Without it there are no floors, and operators are not matched.
    pub subject: Option<(&'a Model, &'a Workload)>,
    /// The device whose limits floors are of. Without it there are no floors.
    pub device: Option<&'a Device>,
    /// What the passes of the run measured. Plain ones give latencies and plain wall times; phases of captured ones that say
    /// what the decoder did in them ([`PhaseSpan::passes`](super::PhaseSpan::passes)) are believed, in order of time, where
    /// there are as many as the trace has. Its clock need not be the trace's.
    pub measured: Option<&'a MeasuredRun>,
}

/// Analyzes the trace of a captured pass.
///
/// Phases are the trace's ranges `prefill`, `decode`, `vision` (and what else it calls its parts); a range `decode_step`
/// is one step. Ranges `warmup` and `load` belong to none. Where the first stretch of a phase took longer than the later
/// ones for the same device time it is left out and told apart as first use.
///
/// Ranges named by module path (`model.layers.3.self_attn.q_proj`, by NVTX or `record_function`) match kernels to
/// operators; without any, kernels are matched to groups of operators by their names. A trace without device events is
/// of the host: the innermost operators of the thread with the most operator time are its events.
///
/// Each device has its own phases. Several devices have no floors, since nothing says how the model is divided.
///
/// [`RunAnalysis::timeline`] holds what the trace says by itself. Only a workload that theory refuses is an error.
pub fn analyze_trace(
    trace: &Trace,
    pass: &TracedPass<'_>,
) -> Result<RunAnalysis, RunAnalysisError> {
    if let Some((model, workload)) = pass.subject {
        model.costs(workload)?;
    }
    let mut structure = Structure::of(trace);
    let named = pass
        .subject
        .and_then(|(_, workload)| stretches::name_steps(&mut structure.phases, workload));
    let timeline = analyze_structure(trace, &structure, pass.device);
    let lanes = lanes(trace, &structure);
    // What was lost comes first. That a trace of the host has no device is no loss.
    let of_host = lanes.iter().any(|lane| lane.device.is_none());
    let mut issues = timeline.issues.clone();
    issues.extend(named);
    issues.retain(|issue| !(of_host && issue.code == "analysis.no_device_events"));
    if of_host && pass.measured.is_none() {
        issues.push(
            Issue::new(
                Severity::Info,
                "run.host_only",
                "the trace has no device events: its work is the operators of the host",
            )
            .with_hint("record with device activities switched on where there is a device"),
        );
    }
    let (latency, latency_issues) = pass.measured.map(Latency::of).unwrap_or_default();
    if let Some(run) = pass.measured {
        issues.extend(run.issues.iter().cloned());
        issues.extend(latency_issues);
        issues.extend(contention::issues(run.telemetry.as_ref()));
    }
    let roof = pass.device.map(Roof::new);
    let floors = roof.as_ref().filter(|_| lanes.len() <= 1);
    absent(pass, &lanes, &mut issues);

    let mut found = stretches(trace, &structure);
    leave_out_parts(&mut found, pass.subject.is_some(), &mut issues);
    issues.extend(recorded_part::unrecorded(&structure.phases, &found));
    let nothing = MeasuredRun::default();
    let context = pass.subject.map(|(model, workload)| Context {
        model,
        workload,
        roof: floors,
        run: pass.measured.unwrap_or(&nothing),
    });
    let counted = pass
        .subject
        .zip(context.as_ref())
        .map(|(subject, context)| {
            count_passes(&mut found, trace, subject.0, subject.1, pass.measured);
            // A run that was measured says itself what it did.
            let patterns = timeline.steps.as_ref().filter(|_| pass.measured.is_none());
            issues.extend(step_count::issue(&found, patterns, subject.0, subject.1));
            let most = lanes.iter().map(|lane| lane.items.len()).sum::<usize>();
            count(subject, context, &found, floors, most.saturating_mul(2))
        });
    let matching = match &counted {
        Some(counted) => {
            let tree_of = |window: usize| counted.tree_of.get(&window).copied();
            let ranges =
                ModuleRanges::of(trace, &structure.phases, &lanes, &counted.trees, tree_of);
            Matching::of(trace, &lanes, counted, &ranges)
        }
        None => Matching::by_name(trace, &lanes),
    };
    let first_events = first_events(&lanes, &matching);
    let tracing = Tracing {
        trace,
        timeline: &timeline,
        names: &structure.phases.names,
        lanes: &lanes,
        matching: &matching,
        first_events: &first_events,
        theory: context.as_ref().zip(counted.as_ref()),
        measured: pass.measured,
        prefills: found
            .iter()
            .filter(|phase| phase.phase == RunPhase::Prefill)
            .map(|phase| phase.stretches.len())
            .sum(),
        roof: floors,
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
        subject: pass.subject,
        roof: floors,
        latency: &latency,
        unrecorded_seconds: recorded_part::unrecorded_seconds(&found, pass.measured),
        phases: phases
            .iter()
            .map(|(phase, passes)| (phase, passes.clone()))
            .collect(),
    };
    let mut findings = findings(&facts);
    let telemetry = pass.measured.and_then(|run| run.telemetry.as_ref());
    findings.extend(throttling::findings(telemetry));
    // Without a model limits are those of single operators of the framework, where their shapes were recorded.
    let under_roofs = |row: &OperatorRow| row.work.is_some_and(|work| work.roofline.is_some());
    let has_limits = pass.subject.is_some() || timeline.operators.iter().any(under_roofs);
    let limits = pass.device.filter(|_| has_limits);
    Ok(RunAnalysis {
        schema_version: RunAnalysis::SCHEMA_VERSION,
        model: name(pass, trace),
        family: pass.subject.map(|(model, _)| model.family.to_owned()),
        device: pass.device.map(|device| device.name.clone()),
        workload: pass.subject.map(|(_, workload)| *workload),
        assumptions: assumptions(limits, &latency, pass.subject.is_some()),
        latency,
        load_ns: pass.measured.and_then(load_time),
        captured_pass: captured_pass(pass.measured),
        phases: phases.into_iter().map(|(phase, _)| phase).collect(),
        findings,
        telemetry: telemetry.cloned(),
        timeline: Some(Box::new(timeline)),
        issues,
    })
}

/// Says what cannot be worked out, and why.
fn absent(pass: &TracedPass<'_>, lanes: &[Lane], issues: &mut Vec<Issue>) {
    let mut warn = |code: &'static str, message: &str, hint: &str| {
        issues.push(Issue::new(Severity::Warning, code, message).with_hint(hint));
    };
    if pass.subject.is_none() {
        warn(
            "run.no_model",
            "no model was named: there are no floors, no MFU and no MBU, and work is told apart by its names",
            "name the model and its workload: `llmprof import FILE model=NAME workload.prompt_tokens=N`",
        );
    } else if pass.device.is_none() {
        warn(
            "run.no_device",
            "no device was named: there are no floors, no MFU and no MBU",
            "name one with `--device`, or `hardware.spec` of a run",
        );
    } else if lanes.len() > 1 {
        warn(
            "run.several_devices",
            "the trace has several devices and does not say how the model is divided among them: there are no floors",
            "import the trace of one device",
        );
    }
    if lanes.is_empty() {
        warn(
            "run.no_work",
            "the trace has neither device events nor operators of the host: there is no waterfall",
            "record with operators or device activities switched on",
        );
    }
}

/// What theory counts in every stretch.
fn count<'m>(
    (model, workload): (&'m Model, &Workload),
    context: &Context<'_>,
    found: &[TracePhase],
    roof: Option<&Roof<'_>>,
    most: usize,
) -> Counted<'m> {
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
        let levels = context
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

fn name(pass: &TracedPass<'_>, trace: &Trace) -> String {
    let measured = pass.measured.map(|run| run.model.as_str());
    [Some(pass.name), measured]
        .into_iter()
        .flatten()
        .find(|name| !name.is_empty())
        .map(str::to_owned)
        .or_else(|| {
            trace
                .metadata
                .get("tool")
                .map(|tool| format!("a trace of {tool}"))
        })
        .unwrap_or_else(|| "a trace".to_owned())
}

fn captured_pass(measured: Option<&MeasuredRun>) -> Option<u64> {
    let passes = &measured?.passes;
    let place = passes
        .iter()
        .position(|pass| pass.kind == PassKind::Captured);
    place.map(|place| place as u64)
}
