//! The analysis of one trace, together with the passes around it.

use llmprof_record::issue::Issue;
use llmprof_record::run::{RecordedTrace, RunPhase, RunRecord};
use llmprof_record::trace::Trace;
use llmprof_theory::device::Device;
use llmprof_theory::roofline::Roof;
use llmprof_theory::{Pass, Workload};

use crate::analysis::Analysis;
use crate::analyze::absent::{report_absent, trace_issues};
use crate::analyze::assumptions::{base_assumptions, compute_dtype, uniform_routing};
use crate::analyze::count::count_operators;
use crate::analyze::diagnosis::diagnose_phases;
use crate::analyze::gemm_count::leave_fewer_gemms;
use crate::analyze::phase_intervals::{
    TracePhase, count_passes, leave_out_parts, name_repetitions, phase_intervals,
};
use crate::analyze::recorded::{self, unrecorded_seconds};
use crate::analyze::routing::{fewer_experts, measured_routing};
use crate::analyze::shapes::{believe_trace, count_shown, leave_other_rows};
use crate::analyze::stated::{NEW_TOKENS, StatedWorkload};
use crate::analyze::step_count;
use crate::analyze::subject::AskedModel;
use crate::analyze::tracing::TraceContext;
use crate::analyze::training::TrainingPlaces;
use crate::assumption::Assumption;
use crate::attribution::operators::OperatorRow;
use crate::capture_cost;
use crate::findings::gemm_shapes::ShapedGemms;
use crate::findings::{Finding, FindingFacts, contended, draw_findings, throttling};
use crate::latency::{Latency, load_time};
use crate::matching::lanes::{WorkLane, list_lanes};
use crate::matching::module_ranges::ModuleRanges;
use crate::matching::places::KernelPlaces;
use crate::matching::units::{CountedCalls, MatchVerdict, Matching};
use crate::phase_analysis::PhaseAnalysis;
use crate::phases::Phases;
use crate::program::{Program, uses_device};
use crate::roofline::{ExpertsRead, Theory};
use crate::steps::StepPatterns;
use crate::telemetry::{self, HostTelemetry};
use crate::timeline::host_gaps::HostGaps;
use crate::timeline::open_ranges::ProgramRanges;
use crate::trace::{Said, Structure, TraceAnalysis, analyze_structure};

/// What a trace says together with the passes around it.
///
/// Phases are the trace's ranges `prefill`, `decode`, `vision` (and what else it calls its parts); a range `decode_step`
/// is one step. Ranges `warmup` and `load` belong to none. Where the first instance of a phase took longer than the later
/// ones for the same device time it is left out and reported apart as first use.
///
/// Operators are matched by their identity where the recorder knows it (llmprof's engine), by ranges named by module path
/// (`model.layers.3.self_attn.q_proj`, NVTX or `record_function`), else by kernel names to groups of operators. Each
/// device has its own phases. Several devices have no roofline times, since nothing says how the model is divided.
pub(super) fn of_trace(
    record: &RunRecord,
    recorded: &RecordedTrace,
    subject: Option<&AskedModel<'_>>,
    device: Option<&Device>,
) -> Analysis {
    let trace = &recorded.trace;
    // A run that was measured says itself what it did.
    let is_measured = !record.passes.is_empty();
    let mut structure = Structure::from_trace(
        trace,
        &Said {
            is_measured,
            model: &record.name,
            table: subject.and_then(AskedModel::token_table),
        },
    );
    let named_model = subject.is_some();
    let (subject, contradicted) = believe_trace(&mut structure, trace, subject, record);
    let said = StatedWorkload::of_record(record);
    // A default does not say what steps are.
    let named = subject.filter(|_| said.has_key(NEW_TOKENS));
    let named =
        named.and_then(|subject| name_repetitions(&mut structure.phases, &subject.workload));
    if named.is_some() {
        structure.program.add_model(&record.name);
    }
    let (timeline, lanes) = rayon::join(
        || analyze_structure(trace, &structure, device),
        || list_lanes(trace, &structure),
    );
    let mut issues = trace_issues(&timeline, &lanes, is_measured);
    issues.extend(named.into_iter().chain(contradicted));
    let (telemetry, latency, told) = read_passes(record);
    issues.extend(told);
    let program = structure.program.kind;
    // One may be named though nothing is counted by it.
    let needs_model = !named_model && record.model.is_none() && program.generates_text();
    report_absent(named_model, needs_model, device, &lanes, &mut issues);

    let roof = device.map(Roof::new);
    let roof = roof.as_ref().filter(|_| lanes.len() <= 1);
    let workload = subject.map(|subject| measured_workload(subject, trace, &structure));
    let theory = subject.zip(workload.as_ref());
    let theory = theory.map(|(subject, workload)| subject.theory(workload, roof));
    let mut trace_phases = judged_intervals(trace, &structure, subject.is_some(), &mut issues);
    let mut windows = PassWindows {
        phases: &mut trace_phases,
        trace,
        structure: &structure,
        lanes: &lanes,
        subject: subject.filter(|_| !is_measured),
        patterns: timeline.steps.as_ref().filter(|_| !is_measured),
    };
    let experts = theory.as_ref().map(|theory| {
        let (experts, told) = windows.count_passes(theory, record, recorded.pass);
        issues.extend(told);
        experts
    });
    let experts = experts.unwrap_or_default();
    let theory = theory.map(|theory| theory.with_experts(&experts));
    let counted = theory.map(|theory| count_operators(&theory, &trace_phases, most_calls(&lanes)));
    let is_counted = counted.as_ref().is_some_and(CountedCalls::has_calls);
    let matching = match_work(trace, &structure, &lanes, counted.as_ref());
    let places = KernelPlaces::from_matching(trace, &lanes, &matching, counted.as_ref());
    let mut programs = std::iter::once(&structure.program).chain(&structure.program.others);
    let training = programs.any(Program::is_training);
    let training = training.then(|| TrainingPlaces::of_trace(trace, &structure.phases));
    let tracing = TraceContext {
        trace,
        training: training.as_ref(),
        program: &structure.program,
        uses_device: lanes.iter().any(|lane| lane.device.is_some()) || uses_device(trace),
        timeline: &timeline,
        names: &structure.phases.names,
        plain: &structure.phases.plain,
        open_ranges: &ProgramRanges::from_trace(trace, Some(&structure.phases)),
        lanes: &lanes,
        first_events: &first_events(&lanes, &matching),
        matching: &matching,
        theory: theory.zip(counted.as_ref()),
        record,
        captured: recorded.pass,
        telemetry: telemetry.as_ref(),
        prefills: count_prefills(&trace_phases),
        roof,
        device,
    };
    let mut phases = judge_phases(&tracing, &trace_phases, &structure.phases, &mut issues);
    issues.extend(capture_cost::issues(phases.iter().map(|(phase, _)| phase)));
    let counted_theory = theory.filter(|_| is_counted);
    let shares_device = structure.program.shares_device();
    let diagnosis = (!shares_device)
        .then(|| diagnose_phases(record, trace, &structure, &trace_phases, &phases, device))
        .flatten();
    if let Some(diagnosis) = &diagnosis {
        for (phase, _) in &mut phases {
            let share = diagnosis.host_share(phase.phase, phase.label.as_deref());
            phase.class.explain_idle(share);
        }
    }
    let facts = FindingFacts {
        subject: counted_theory.map(|theory| (theory.model, theory.workload)),
        is_named: named_model,
        program: structure.program.kind,
        rank: lone_rank(record, trace).filter(|_| !structure.phases.are_of_devices()),
        is_cut: trace.issues.iter().any(|issue| issue.code.is_cut_file()),
        roof,
        latency: &latency,
        unrecorded_seconds: unrecorded_seconds(&trace_phases, record),
        gemms: ShapedGemms::of_trace(&timeline),
        phases: clone_passes(&phases),
        host_gaps: (tracing.is_host_alone() && !is_measured)
            .then(|| HostGaps::from_trace(trace, tracing.open_ranges))
            .flatten(),
        diagnosis: diagnosis.as_ref(),
    };
    let findings = if shares_device {
        Vec::new()
    } else {
        draw_findings(&facts)
    };
    let findings = qualify_findings(findings, telemetry.as_ref(), &lanes);
    let known = workload.and_then(|workload| said.workload(&workload, structure.shown.as_ref()));
    let counted = workload.filter(|_| is_counted);
    Analysis {
        schema_version: Analysis::SCHEMA_VERSION,
        model: record_name(record, trace),
        family: subject.map(|subject| subject.model.family.to_owned()),
        device: device.map(|device| device.name.clone()),
        workload: known,
        assumptions: list_assumptions(device, counted.as_ref().zip(subject), &latency, &timeline),
        latency,
        load_ns: load_time(record),
        captured_pass: recorded.pass.map(|pass| pass as u64),
        phases: phases.into_iter().map(|(phase, _)| phase).collect(),
        findings,
        replays: diagnosis
            .map(|diagnosis| diagnosis.phases)
            .unwrap_or_default(),
        telemetry,
        program: structure.program,
        timeline: Some(Box::new(timeline)),
        places,
        issues,
        ..Analysis::default()
    }
}

/// The intervals of phases, of which parts are left out where there are whole ones.
fn judged_intervals(
    trace: &Trace,
    structure: &Structure,
    is_counted: bool,
    issues: &mut Vec<Issue>,
) -> Vec<TracePhase> {
    let mut trace_phases = phase_intervals(trace, structure);
    let is_sampled = structure.phases.spans.is_some();
    leave_out_parts(&mut trace_phases, is_counted, is_sampled, issues);
    issues.extend(recorded::unrecorded_phases(
        &structure.phases,
        &trace_phases,
    ));
    trace_phases
}

/// What the passes of a run say, with what about it should not be trusted.
fn read_passes(record: &RunRecord) -> (Option<HostTelemetry>, Latency, Vec<Issue>) {
    let telemetry = HostTelemetry::from_record(record);
    let (latency, told) = Latency::from_run(record);
    let mut issues = record.issues.clone();
    if !record.passes.is_empty() {
        issues.extend(told);
        issues.extend(telemetry::contention_issues(telemetry.as_ref()));
    }
    (telemetry, latency, issues)
}

/// Windows of phases, and what says which passes ran in them.
struct PassWindows<'a> {
    phases: &'a mut Vec<TracePhase>,
    trace: &'a Trace,
    structure: &'a Structure,
    lanes: &'a [WorkLane],
    /// Absent of a run that was measured, which says itself what it did; so are the patterns.
    subject: Option<&'a AskedModel<'a>>,
    patterns: Option<&'a StepPatterns>,
}

impl PassWindows<'_> {
    /// Counts the passes of each window: by the run, by shapes, by launch patterns, by what was stated; and the experts that they can
    /// have read.
    fn count_passes(
        &mut self,
        theory: &Theory<'_>,
        record: &RunRecord,
        pass: Option<usize>,
    ) -> (Vec<ExpertsRead>, Vec<Issue>) {
        let phases = &self.structure.phases;
        count_passes(self.phases, self.trace, theory, record, pass);
        if let Some(shown) = self
            .structure
            .shown
            .as_ref()
            .filter(|_| self.subject.is_some())
        {
            count_shown(self.phases, phases, shown, theory.workload);
        }
        let stated = &record.workload_keys;
        let mut issues: Vec<Issue> = Vec::new();
        issues.extend(step_count::follow_patterns(
            self.phases,
            self.patterns,
            theory.model,
            theory.workload,
            stated,
        ));
        if let Some(subject) = self.subject {
            issues.extend(StatedWorkload::of_record(record).leave_unknown(self.phases));
            issues.extend(leave_other_rows(self.phases, phases, self.trace, subject));
            issues.extend(leave_fewer_gemms(self.phases, theory, self.lanes));
        }
        let (experts, told) = fewer_experts(theory, self.phases, self.trace, self.lanes);
        issues.extend(told);
        (experts, issues)
    }
}

fn clone_passes(phases: &[(PhaseAnalysis, Vec<Pass>)]) -> Vec<(&PhaseAnalysis, Vec<Pass>)> {
    let pairs = phases.iter();
    pairs
        .map(|(phase, passes)| (phase, passes.clone()))
        .collect()
}

/// Findings with what telemetry of the machine says of them, and its own.
fn qualify_findings(
    mut findings: Vec<Finding>,
    telemetry: Option<&HostTelemetry>,
    lanes: &[WorkLane],
) -> Vec<Finding> {
    if telemetry::is_contended(telemetry) {
        let on_device = lanes.iter().any(|lane| lane.device.is_some());
        contended::qualify_host_times(&mut findings, on_device);
    }
    findings.extend(throttling::throttling_findings(telemetry));
    findings
}

/// The rank of a trace and how many there are, where no other rank was recorded.
fn lone_rank(record: &RunRecord, trace: &Trace) -> Option<(u64, u64)> {
    let number = |key: &str| trace.metadata.get(key)?.parse::<u64>().ok();
    let ranks = number("distributed_world_size").filter(|&ranks| ranks > 1)?;
    let rank = number("distributed_rank")?;
    let is_alone = record.ranks().is_empty() && record.rank_summaries.is_empty();
    is_alone.then_some((rank, ranks))
}

/// The workload with the experts that the trace shows to be reached.
fn measured_workload(subject: &AskedModel<'_>, trace: &Trace, structure: &Structure) -> Workload {
    Workload {
        routing: measured_routing(&subject.workload, trace, structure),
        ..subject.workload
    }
}

/// More calls of operators than the trace can show.
fn most_calls(lanes: &[WorkLane]) -> usize {
    let items: usize = lanes.iter().map(|lane| lane.items.len()).sum();
    items.saturating_mul(2)
}

fn count_prefills(trace_phases: &[TracePhase]) -> usize {
    trace_phases
        .iter()
        .filter(|phase| phase.phase == RunPhase::Prefill)
        .map(|phase| phase.intervals.len())
        .sum()
}

fn works_in(lane: &WorkLane, phase: &TracePhase) -> bool {
    let mut intervals = phase.intervals.iter();
    intervals.any(|interval| !lane.items_around(interval.window()).is_empty())
}

/// All phases on all lanes, each with the passes that it ran.
fn judge_phases(
    tracing: &TraceContext<'_>,
    trace_phases: &[TracePhase],
    phases: &Phases,
    issues: &mut Vec<Issue>,
) -> Vec<(PhaseAnalysis, Vec<Pass>)> {
    let mut all = Vec::new();
    for phase in trace_phases {
        for lane in 0..tracing.lanes.len() {
            let Some(phase) = phase.on_device(tracing.lanes[lane].device) else {
                continue;
            };
            // A device that does nothing in a phase is not idle in it: the program does not use it there.
            if !works_in(&tracing.lanes[lane], &phase)
                && tracing.lanes.iter().any(|lane| works_in(lane, &phase))
            {
                continue;
            }
            let (mut judged, passes) = tracing.analyze_phase(&phase, lane, issues);
            if let Some(traced) = &mut judged.traced {
                let is_judged = |number: usize| !traced.instances[number].left_out;
                let part = recorded::recorded_part(tracing.trace, phases, &phase, is_judged);
                traced.recorded = part;
                issues.extend(part.and_then(|part| recorded::too_small(&part, judged.name())));
            }
            all.push((judged, passes));
        }
    }
    all
}

/// What the derived numbers rest on. Without a model rooflines are those of single operators of the framework, where their
/// shapes were recorded.
fn list_assumptions(
    device: Option<&Device>,
    counted: Option<(&Workload, &AskedModel<'_>)>,
    latency: &Latency,
    timeline: &TraceAnalysis,
) -> Vec<Assumption> {
    let workload = counted.map(|(workload, _)| workload);
    let has_roofline = |row: &OperatorRow| row.work.is_some_and(|work| work.roofline.is_some());
    let has_rooflines = workload.is_some() || timeline.operators.iter().any(has_roofline);
    let judged = device.filter(|_| has_rooflines);
    let mut assumptions = base_assumptions(judged, latency, workload.is_some());
    assumptions.extend(counted.and_then(|(workload, subject)| uniform_routing(subject, workload)));
    let counted = workload.zip(device);
    assumptions.extend(counted.and_then(|(workload, device)| compute_dtype(workload, device)));
    assumptions
}

fn match_work(
    trace: &Trace,
    structure: &Structure,
    lanes: &[WorkLane],
    counted: Option<&CountedCalls<'_>>,
) -> Matching {
    match (counted, lanes) {
        (Some(counted), [lane]) if lane.is_exact => Matching::by_identity(trace, lane, counted),
        (Some(counted), _) => {
            let tree_of = |window: usize| counted.tree_of.get(&window).copied();
            let ranges =
                ModuleRanges::from_trace(trace, &structure.phases, lanes, &counted.trees, tree_of);
            Matching::by_model(trace, lanes, counted, &ranges)
        }
        (None, _) => Matching::by_name(trace, lanes),
    }
}

/// When the first event of each unit began.
fn first_events(lanes: &[WorkLane], matching: &Matching) -> Vec<i64> {
    let mut first = vec![i64::MAX; matching.units.len()];
    for (lane, verdicts) in lanes.iter().zip(&matching.verdicts) {
        for (item, verdict) in lane.items.iter().zip(verdicts) {
            if let MatchVerdict::Unit(unit) = verdict {
                let first = &mut first[*unit as usize];
                *first = (*first).min(item.start);
            }
        }
    }
    first
}

fn record_name(record: &RunRecord, trace: &Trace) -> String {
    if !record.name.is_empty() {
        return record.name.clone();
    }
    name_by_tool(trace)
}

/// What a trace is called of which no model is known.
pub(super) fn name_by_tool(trace: &Trace) -> String {
    let tool = trace.metadata.get("tool");
    tool.map_or_else(|| "a trace".to_owned(), |tool| format!("a trace of {tool}"))
}
