//! The whole analysis of a measured run: `analysis.json`.

use llmprof_record::issue::{Issue, Severity};
use llmprof_theory::device::{Device, Engine};
use llmprof_theory::floor::Roof;
use llmprof_theory::{Model, Routing, WeightFormat, Workload, WorkloadError};
use llmprof_units::Nanos;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::capture_cost;
use super::contention;
use super::finding_rules::{Facts, findings};
use super::findings::Finding;
use super::latency::Latency;
use super::measured::{MeasuredPass, MeasuredRun, PassKind, PhaseSpan, RunPhase};
use super::phase_analysis::{Context, PhaseAnalysis, length, wall};
use super::telemetry::HostTelemetry;
use super::throttling;
use super::utilization::{MBU_FORMULA, MFU_FORMULA};
use crate::analysis::Analysis;

/// Why a run cannot be analyzed.
#[derive(Debug, Error)]
pub enum RunAnalysisError {
    /// The workload does not suit the model.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// Everything that a measured run says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunAnalysis {
    /// Version of this layout.
    pub schema_version: u32,
    /// Name of the model, or of the program that was traced.
    pub model: String,
    /// Family that its config was read as; absent where the model is not known.
    pub family: Option<String>,
    /// Name of the device that floors are of; absent where none was named.
    pub device: Option<String>,
    /// What was asked for; absent where the model is not known. Routing is what was measured, where the run tells.
    pub workload: Option<Workload>,
    /// Latencies and rates.
    pub latency: Latency,
    /// Time that loading took, where the run has such a phase.
    pub load_ns: Option<Nanos>,
    /// Number of the pass that waterfalls are made from; absent where none was captured.
    pub captured_pass: Option<u64>,
    /// The phases, in the order of time.
    pub phases: Vec<PhaseAnalysis>,
    /// Conclusions, in the order of their gains.
    pub findings: Vec<Finding>,
    /// What the machine did meanwhile, where that was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<HostTelemetry>,
    /// What the trace of the captured pass says by itself: kernels, operators of the framework, idle causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Box<Analysis>>,
    /// What the derived numbers rest on.
    pub assumptions: Vec<String>,
    /// What was lost or should not be trusted.
    pub issues: Vec<Issue>,
}

impl RunAnalysis {
    /// The version of the layout that is written.
    pub const SCHEMA_VERSION: u32 = 1;

    /// One phase.
    pub fn phase(&self, phase: RunPhase) -> Option<&PhaseAnalysis> {
        self.phases.iter().find(|found| found.phase == phase)
    }
}

/// Analyzes what `run` measured of `workload` on `model`, against the limits of `device` where one is named.
///
/// Waterfalls are made from one captured pass, the median one by wall time. A device that states no peak for a format
/// gives an [`Issue`] and no floors. Only a workload that theory refuses is an error.
pub fn analyze_run(
    model: &Model,
    workload: &Workload,
    device: Option<&Device>,
    run: &MeasuredRun,
) -> Result<RunAnalysis, RunAnalysisError> {
    model.costs(workload)?;
    let (latency, latency_issues) = Latency::of(run);
    let mut issues = run.issues.clone();
    issues.extend(latency_issues);
    issues.extend(contention::issues(run.telemetry.as_ref()));
    let captured = captured_pass(run);
    let mut workload = *workload;
    if let Some(pass) = captured.map(|index| &run.passes[index]) {
        workload.routing = measured_routing(&workload, pass);
    }
    let roof = device.map(Roof::new);
    let context = Context {
        model,
        workload: &workload,
        roof: roof.as_ref(),
        run,
    };
    let mut phases = Vec::new();
    match captured {
        Some(index) => phases = context.phases(&run.passes[index], &mut issues),
        None => issues.push(no_capture()),
    }
    if device.is_none() {
        issues.push(
            Issue::new(
                Severity::Warning,
                "run.no_device",
                "no device was named: there are no floors, no MFU and no MBU",
            )
            .with_hint("name one with `hardware.spec`, or measure this machine with `llmprof hardware measure`"),
        );
    }
    issues.extend(capture_cost::issue(phases.iter().map(|(phase, _)| phase)));
    let facts = Facts {
        subject: Some((model, &workload)),
        roof: roof.as_ref(),
        latency: &latency,
        unrecorded_seconds: 0.0,
        phases: phases
            .iter()
            .map(|(phase, passes)| (phase, passes.clone()))
            .collect(),
    };
    let mut findings = findings(&facts);
    findings.extend(throttling::findings(run.telemetry.as_ref()));
    Ok(RunAnalysis {
        schema_version: RunAnalysis::SCHEMA_VERSION,
        model: run.model.clone(),
        family: Some(model.family.to_owned()),
        device: device.map(|device| device.name.clone()),
        workload: Some(workload),
        assumptions: assumptions(device, &latency, true)
            .into_iter()
            .chain(device.and_then(|device| arithmetic(&workload, device)))
            .collect(),
        latency,
        load_ns: load_time(run),
        captured_pass: captured.map(|index| index as u64),
        phases: phases.into_iter().map(|(phase, _)| phase).collect(),
        findings,
        telemetry: run.telemetry.clone(),
        timeline: None,
        issues,
    })
}

/// What passes say by themselves, where the model cannot be counted and nothing was recorded: latencies and the machine.
pub fn analyze_times(run: &MeasuredRun) -> RunAnalysis {
    let (latency, latency_issues) = Latency::of(run);
    let mut issues = run.issues.clone();
    issues.extend(latency_issues);
    issues.extend(contention::issues(run.telemetry.as_ref()));
    issues.push(no_capture());
    RunAnalysis {
        schema_version: RunAnalysis::SCHEMA_VERSION,
        model: run.model.clone(),
        family: None,
        device: None,
        workload: None,
        assumptions: assumptions(None, &latency, false),
        latency,
        load_ns: load_time(run),
        captured_pass: None,
        phases: Vec::new(),
        findings: throttling::findings(run.telemetry.as_ref()),
        telemetry: run.telemetry.clone(),
        timeline: None,
        issues,
    }
}

fn no_capture() -> Issue {
    Issue::new(
        Severity::Warning,
        "run.no_capture",
        "no pass recorded operators: there is no waterfall",
    )
}

/// Time that loading took.
pub(super) fn load_time(run: &MeasuredRun) -> Option<Nanos> {
    run.passes
        .iter()
        .map(|pass| wall(pass, RunPhase::Load))
        .find(|time| *time > 0)
        .map(Nanos)
}

pub(super) fn assumptions(
    device: Option<&Device>,
    latency: &Latency,
    is_counted: bool,
) -> Vec<String> {
    let mut assumptions = vec!["A multiply-add is two operations.".to_owned()];
    if latency.repeats > 0 {
        assumptions.extend([
            "TTFT = first token − request start; TPOT = (last token − first token) ÷ (output tokens − 1); ITL is the list of gaps.".to_owned(),
            "Intervals are of the mean over passes, 95 %, Student's t; percentiles interpolate between neighbours.".to_owned(),
        ]);
    }
    let Some(device) = device else {
        return assumptions;
    };
    if is_counted {
        assumptions.extend([format!("{MFU_FORMULA}."), format!("{MBU_FORMULA}.")]);
    }
    assumptions.push(format!(
        "Limits are those of `{}` ({}, {}).",
        device.name, device.title, device.basis
    ));
    if is_counted {
        assumptions.push(
            "The floor of an operator is the largest of matrix work ÷ peak, other work ÷ peak, and compulsory bytes ÷ bandwidth; compulsory are weights, KV cache and the model's inputs and outputs, activations between operators count nothing.".to_owned(),
        );
    }
    assumptions
}

/// In which format products were computed, where the device would be faster in the format that the weights are stored in: on
/// paper that one counts.
fn arithmetic(workload: &Workload, device: &Device) -> Option<String> {
    let computed = workload.precision.activations?;
    let WeightFormat::Plain(stored) = workload.precision.weights? else {
        return None;
    };
    let peak = |dtype| device.peak(dtype, Engine::Tensor).ok();
    let (used, unused) = (peak(computed)?, peak(stored)?);
    (unused.dense_flops_per_s.0 > used.dense_flops_per_s.0).then(|| {
        format!(
            "The engine multiplies in {computed}: floors and MFU are against the peak of that, {}. In {stored}, as the weights are stored \
             and static_compute.md counts, the device has {}.",
            used.dense_flops_per_s, unused.dense_flops_per_s
        )
    })
}

/// The pass that waterfalls are made from: of those that recorded operators outside warm-up, the median by wall time.
fn captured_pass(run: &MeasuredRun) -> Option<usize> {
    let mut candidates: Vec<(i64, usize)> = run
        .passes
        .iter()
        .enumerate()
        .filter(|(_, pass)| pass.kind != PassKind::WarmUp && !pass.operators.is_empty())
        .map(|(index, pass)| {
            let spans = pass
                .phases
                .iter()
                .filter(|span| span.phase != RunPhase::Load);
            (spans.map(length).fold(0, i64::saturating_add), index)
        })
        .collect();
    candidates.sort_unstable();
    let middle = candidates.len().checked_sub(1)? / 2;
    Some(candidates[middle].1)
}

/// The mean number of distinct experts that the calls of each phase reached, where they tell.
fn measured_routing(workload: &Workload, pass: &MeasuredPass) -> Routing {
    if workload.routing != Routing::Uniform {
        return workload.routing;
    }
    let mean = |phase: RunPhase| {
        let mut touched = (0.0, 0.0);
        for event in &pass.operators {
            let inside = |span: &PhaseSpan| {
                span.phase == phase && (span.start_ns..span.end_ns).contains(&event.start_ns)
            };
            if let Some(count) = event.touched
                && pass.phases.iter().any(inside)
            {
                touched.0 += f64::from(count);
                touched.1 += 1.0;
            }
        }
        (touched.1 > 0.0).then(|| touched.0 / touched.1)
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

#[cfg(test)]
#[path = "run_analysis_tests.rs"]
pub(crate) mod tests;
