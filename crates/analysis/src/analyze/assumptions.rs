//! What the derived numbers of an analysis rest on.

use llmprof_record::run::RunRecord;
use llmprof_theory::device::{Device, Engine};
use llmprof_theory::{Routing, WeightFormat, Workload};

use crate::analysis::Analysis;
use crate::analyze::subject::AskedModel;
use crate::assumption::{Assumption, PhaseOverhead, PlainPhase};
use crate::capture_cost::CaptureCost;
use crate::graphs::ModelOperators;
use crate::latency::Latency;

pub(super) fn base_assumptions(
    device: Option<&Device>,
    latency: &Latency,
    is_counted: bool,
) -> Vec<Assumption> {
    let mut assumptions = vec![Assumption::MultiplyAdd];
    if latency.repeats > 0 {
        assumptions.extend([Assumption::Latency, Assumption::Intervals]);
    }
    let Some(device) = device else {
        return assumptions;
    };
    if is_counted {
        assumptions.extend([Assumption::Mfu, Assumption::Mbu]);
    }
    assumptions.push(Assumption::Device {
        name: device.name.clone(),
        title: device.title.clone(),
        basis: device.basis,
    });
    if is_counted {
        assumptions.push(Assumption::Roofline);
    }
    assumptions
}

/// How experts are chosen, where the model has some and nothing recorded how many were reached.
pub(super) fn uniform_routing(subject: &AskedModel<'_>, workload: &Workload) -> Option<Assumption> {
    let is_uniform = workload.routing == Routing::Uniform;
    let operators = ModelOperators::from_model(subject.model, workload, None);
    (is_uniform && operators.has_experts()).then_some(Assumption::UniformRouting)
}

/// In which format GEMMs ran, where the device would be faster in the format that the weights are stored in: the static
/// analysis uses that one.
pub(super) fn compute_dtype(workload: &Workload, device: &Device) -> Option<Assumption> {
    let dtype = workload.precision.activations?;
    let WeightFormat::Plain(stored_dtype) = workload.precision.weights? else {
        return None;
    };
    let peak = |dtype| {
        Some(
            device
                .dense_peak(dtype, Engine::Tensor)
                .ok()?
                .dense_flops_per_s,
        )
    };
    let (peak_flops_per_s, stored_peak_flops_per_s) = (peak(dtype)?, peak(stored_dtype)?);
    (stored_peak_flops_per_s.0 > peak_flops_per_s.0).then_some(Assumption::ComputeDtype {
        dtype,
        peak_flops_per_s,
        stored_dtype,
        stored_peak_flops_per_s,
    })
}

/// When the peaks of this CPU were measured.
pub(super) fn measured_at(device: &Device) -> Option<Assumption> {
    let at = device.measured_at.clone()?;
    Some(Assumption::MeasuredPeaks { at })
}

/// How the worker ran the model, which is where runs of one model differ; by the keys of the configuration.
pub(super) fn how_it_ran(record: &RunRecord) -> Option<Assumption> {
    let facts = &record.host.as_ref()?.worker;
    let known = |names: &[&str]| -> Vec<(String, String)> {
        let known = names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), facts.get(*name)?.clone())));
        known.collect()
    };
    Some(Assumption::Worker {
        model_class: facts.get("model_class")?.clone(),
        versions: known(&["torch", "transformers"]),
        options: known(&[
            "attn_implementation",
            "experts_implementation",
            "compile",
            "cuda_graph",
            "kv_cache",
        ]),
    })
}

/// What torch's profiler cost the pass that it recorded.
pub(super) fn profiling_overhead(analysis: &Analysis) -> Option<Assumption> {
    let profiled = analysis.profiled_by_torch()?;
    let costs = CaptureCost::of(profiled).into_iter();
    let phases: Vec<PhaseOverhead> = costs
        .map(|cost| PhaseOverhead {
            phase: cost.phase,
            ratio: cost.ratio,
        })
        .collect();
    (!phases.is_empty()).then_some(Assumption::ProfilingOverhead {
        phases,
        plain_passes: profiled.latency.repeats,
    })
}

/// What the times of a trace that no plain pass accompanies include: the profiler, but for phases whose steps between slices show
/// what they take without it.
pub(super) fn profiled_times(record: &RunRecord, analysis: &Analysis) -> Vec<Assumption> {
    let Some(trace) = record.trace().filter(|_| record.passes.is_empty()) else {
        return Vec::new();
    };
    let mut phases: Vec<PlainPhase> = Vec::new();
    for phase in &analysis.phases {
        let traced = phase.traced.as_ref();
        phases.extend(traced.and_then(|traced| {
            Some(PlainPhase {
                phase: phase.name().to_owned(),
                steps: traced.between_slices?,
            })
        }));
    }
    let is_all = !phases.is_empty() && phases.len() == analysis.phases.len();
    let tool = trace.metadata.get("tool").cloned();
    let on_host = trace.kernels.is_empty() && trace.copies.is_empty() && trace.memsets.is_empty();
    let profiled = (!is_all).then_some(Assumption::ProfiledTimes { tool, on_host });
    let plain = (!phases.is_empty()).then_some(Assumption::BetweenSlices { phases });
    plain.into_iter().chain(profiled).collect()
}
