//! The one entry: a record in, an analysis out.
//!
//! Latencies and telemetry come from the passes; everything else from the first trace ([`traced`]). Its work is one lane per
//! device, or the operators of the host where it has no device. [`phase_intervals`] are the phases with what the decoder did in
//! each, [`count`] is what theory says of them, [`matching`](crate::matching) says which operator each piece of work belongs
//! to, [`phase`] puts one phase together, [`first_use`] finds what is paid once.

mod absent;
mod assumptions;
mod copies;
mod count;
mod diagnosis;
mod first_use;
mod gemm_count;
mod invariants;
mod judged;
mod kernels;
mod other_devices;
mod phase;
mod phase_intervals;
mod plain;
mod recorded;
mod routing;
mod shapes;
mod stated;
mod step_count;
mod subject;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod traced;
mod tracing;
mod training;
mod waterfall;
mod weight_format;

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::memory::MemoryHistory;
use llmprof_record::run::{RecordedModel, RunRecord, is_graph_capture, rank_of};
use llmprof_record::summary::SummaryTable;
use llmprof_record::trace::Trace;
use llmprof_theory::Workload;
use llmprof_theory::device::Device;

use self::absent::{no_device, report_uncounted};
use self::assumptions::{
    base_assumptions, compute_dtype, how_it_ran, measured_at, profiled_times, profiling_overhead,
};
pub use self::judged::{JudgedDevice, judged_device};
use self::stated::{BATCH, StatedWorkload};
use self::subject::AskedModel;
use self::traced::{name_by_tool, of_trace};
use crate::analysis::{Analysis, AnalysisError};
use crate::counters::{ClassRule, CountersAnalysis, against_model, derived};
use crate::findings::{Conclusion, Finding, throttling};
use crate::gemms;
use crate::graphs::{self, ModelOperators, StepRows};
use crate::latency::{Latency, load_time};
use crate::phases::engine::labelled_steps;
use crate::ranks;
use crate::serving::analyze_load;
use crate::statics;
use crate::telemetry::{self, HostTelemetry};
use crate::thresholds::MOSTLY_WAITING_MIN_SHARE;

/// Other traces of the run. Other ranks and captures of graphs have analyses of their own.
fn analyze_others(record: &RunRecord, device: Option<&Device>) -> Vec<Analysis> {
    let has_ranks = !record.ranks().is_empty();
    let is_rank = |trace: &Trace| has_ranks && rank_of(trace).is_some();
    let others = record.traces.iter().skip(1);
    others
        .filter(|recorded| !is_graph_capture(&recorded.trace) && !is_rank(&recorded.trace))
        .map(|recorded| of_trace(record, recorded, None, device))
        .collect()
}

/// Analyzes what was recorded, against the peaks of `device`, of the record's own device, or of the one that its trace
/// names. Only a workload that theory refuses is an error.
pub fn analyze(record: &RunRecord, device: Option<&Device>) -> Result<Analysis, AnalysisError> {
    if let Some(load) = &record.load {
        return Ok(analyze_load(record, load));
    }
    let JudgedDevice {
        device: judged,
        issue: of_device,
    } = judged_device(record, device);
    let judged = judged.as_ref();
    let ranks = record.ranks();
    // Nothing says how a model is divided among ranks, so no operator of it is counted for one of them.
    let whole = AskedModel::of_record(record)?;
    let is_one = ranks.is_empty() && shapes::is_one_of_ranks(record);
    let is_divided = whole.is_some() && (!ranks.is_empty() || is_one);
    let subject = whole.filter(|_| !is_divided);
    let mut analysis = match record.traces.first() {
        Some(recorded) => of_trace(record, recorded, subject.as_ref(), judged),
        None => analyze_passes(record, subject.as_ref(), judged),
    };
    if is_divided {
        analysis.workload = asked_workload(record);
        analysis.issues.push(if is_one {
            Issue::warning(IssueCode::RunOneOfRanks)
        } else {
            Issue::info(IssueCode::RanksModelDivided)
        });
    }
    if let Some((ranks, issues)) = ranks::analyze(record) {
        say_waiting(&mut analysis.findings, &ranks);
        analysis.ranks = Some(ranks);
        analysis.issues.extend(issues);
    } else if let Some(trace) = record.trace().filter(|one| !one.collectives.is_empty()) {
        analysis.collectives = ranks::own_collectives(trace);
    }
    say_transfers(&mut analysis.findings, record.trace());
    // No model facts apply if the trace belongs to another model.
    let is_other = analysis.issues.iter().any(shapes::is_other_model);
    if let Some(trace) = record.trace().filter(|_| is_other) {
        analysis.model = name_by_tool(trace);
    }
    let operators = subject.as_ref().filter(|_| !is_other);
    let operators = operators.map(|subject| {
        let rows = step_rows(record, &subject.workload);
        ModelOperators::from_model(subject.model, &subject.workload, rows)
    });
    if let Some((graphs, issue)) = graphs::analyze_graphs(record, judged, operators.as_ref()) {
        analysis.graphs = Some(graphs);
        analysis.issues.extend(issue);
    }
    analysis.beside = analyze_others(record, judged);
    let model = record.model.as_ref();
    if let Some(error) = model.and_then(RecordedModel::uncounted) {
        // It was asked for all the same.
        analysis.workload = asked_workload(record);
        analysis.issues.push(report_uncounted(&error));
    }
    let profiled = profiled_times(record, &analysis);
    analysis.assumptions.extend(profiled);
    analysis.assumptions.extend(how_it_ran(record));
    let overhead = profiling_overhead(&analysis);
    analysis.assumptions.extend(overhead);
    if device.is_none() {
        analysis
            .assumptions
            .extend(record.device.as_ref().and_then(measured_at));
    }
    let counters = record.counters.as_ref();
    analysis.counters = analyze_counters(record, &analysis, subject.as_ref(), judged);
    analysis.derived_kernels = derived::derive_kernels(record, &analysis.phases, judged);
    if let Some((gemms, issue)) = gemms::analyze_gemms(record, judged) {
        analysis.gemms = gemms;
        analysis.issues.extend(issue);
    }
    let tables = record.summaries.iter().map(|summary| &summary.table);
    // The order of calls is in `gemms.csv`.
    let without_order = |table: &SummaryTable| SummaryTable {
        order: Vec::new(),
        ..table.clone()
    };
    analysis.summaries = tables.clone().map(without_order).collect();
    analysis.communication.clone_from(&record.communication);
    let communication = record.communication.as_ref();
    let memory = record.memory.as_ref();
    analysis.memory = memory.map(MemoryHistory::without_timelines);
    // A run says by itself what its sampling missed.
    let sampled = record.samples.as_ref().filter(|_| record.passes.is_empty());
    let lost = counters
        .into_iter()
        .flat_map(|counters| &counters.issues)
        .chain(tables.flat_map(|table| &table.issues))
        .chain(
            communication
                .into_iter()
                .flat_map(|communication| &communication.issues),
        )
        .chain(memory.into_iter().flat_map(|memory| &memory.issues))
        .chain(sampled.into_iter().flat_map(|samples| &samples.issues));
    // Calls that were joined have the times of their kernels.
    let is_joined = analysis.gemms.is_some();
    let lost = lost.filter(|issue| !(is_joined && issue.code == IssueCode::CublasLogNoTimes));
    analysis
        .issues
        .extend(of_device.into_iter().chain(lost.cloned()));
    Ok(analysis)
}

/// What was asked for, where somebody said so.
fn asked_workload(record: &RunRecord) -> Option<Workload> {
    let workload = record.workload.as_ref()?;
    StatedWorkload::of_record(record).workload(workload, None)
}

/// Rows of the GEMMs of a step: by the engine's labels, else one for each sequence of the batch.
fn step_rows(record: &RunRecord, workload: &Workload) -> Option<StepRows> {
    let trace = record.trace()?;
    if !labelled_steps(trace).is_empty() {
        return graphs::labelled_rows(trace);
    }
    let batch = workload.batch;
    StatedWorkload::of_record(record)
        .has_key(BATCH)
        .then_some(StepRows {
            tokens: batch,
            sequences: batch,
        })
}

/// Waiting for slower ranks looks like communication to the rank that waits.
fn say_waiting(findings: &mut [Finding], ranks: &ranks::RanksAnalysis) {
    for finding in findings {
        if let Some(Conclusion::Communication {
            waiting_share,
            device,
            rank,
            ..
        }) = &mut finding.conclusion
        {
            *waiting_share = ranks.waiting_share(*device);
            // What the imported ranks do not wait for each other may be waiting for the others.
            if ranks.part_of_job().is_some()
                && waiting_share.is_none_or(|share| share <= MOSTLY_WAITING_MIN_SHARE)
            {
                (*waiting_share, *rank) = (None, ranks.part_of_job());
            }
        }
    }
}

/// Whether most communication is point-to-point, where there is a finding about it.
fn say_transfers(findings: &mut [Finding], trace: Option<&Trace>) {
    let conclusions = findings
        .iter_mut()
        .filter_map(|one| one.conclusion.as_mut());
    let points = conclusions.filter_map(|conclusion| match conclusion {
        Conclusion::Communication {
            is_point_to_point, ..
        } => Some(is_point_to_point),
        _ => None,
    });
    let points: Vec<&mut bool> = points.collect();
    let Some(trace) = trace.filter(|_| !points.is_empty()) else {
        return;
    };
    let (mut transfers, mut all) = (0, 0);
    for row in ranks::own_collectives(trace) {
        all += row.time_ns.0;
        if row.kind == ranks::CollectiveKind::SendReceive {
            transfers += row.time_ns.0;
        }
    }
    for is_point_to_point in points {
        *is_point_to_point = 2 * transfers > all;
    }
}

/// What hardware counters say, beside the model where profiled launches stand for its decode steps.
fn analyze_counters(
    record: &RunRecord,
    analysis: &Analysis,
    subject: Option<&AskedModel<'_>>,
    device: Option<&Device>,
) -> Option<CountersAnalysis> {
    let timeline = analysis.timeline.as_deref();
    let ncu = record.plan.as_ref().map(|plan| &plan.pipeline.ncu);
    let rule = ncu.map(|ncu| ClassRule::from(ncu.classify));
    let counters = record.counters.as_ref()?;
    let mut counted =
        CountersAnalysis::from_counters(counters, timeline, device, rule.unwrap_or_default());
    for row in &mut counted.launches {
        row.operators = analysis
            .places
            .operators_of(&row.kernel, row.grid, row.block);
    }
    if let (Some(subject), Some(ncu)) = (subject, ncu)
        && ncu.range.as_deref() == Some("decode")
        && let Ok(statics) = statics::analyze("", subject.model, &subject.workload, None)
    {
        // A batch of fewer tokens has fewer steps.
        let steps = ncu.steps.min(subject.workload.new_tokens.saturating_sub(1));
        counted.against_model =
            against_model::compare_with_model(&counted.launches, &statics, steps);
    }
    Some(counted)
}

/// What the passes say: latencies, loading, the machine.
fn analyze_passes(
    record: &RunRecord,
    subject: Option<&AskedModel<'_>>,
    device: Option<&Device>,
) -> Analysis {
    let telemetry = HostTelemetry::from_record(record);
    let (latency, latency_issues) = Latency::from_run(record);
    let mut issues = Vec::new();
    // Counters, sums and memory alone miss nothing of a run.
    if !record.passes.is_empty() {
        issues.clone_from(&record.issues);
        issues.extend(latency_issues);
        issues.extend(telemetry::contention_issues(telemetry.as_ref()));
        issues.push(Issue::warning(IssueCode::RunNoCapture));
        if subject.is_some() && device.is_none() {
            issues.push(no_device());
        }
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
        assumptions: base_assumptions(device, &latency, subject.is_some())
            .into_iter()
            .chain(stated.and_then(|(workload, device)| compute_dtype(&workload, device)))
            .collect(),
        latency,
        load_ns: load_time(record),
        findings: throttling::throttling_findings(telemetry.as_ref()),
        telemetry,
        issues,
        ..Analysis::default()
    }
}
