//! What the derived numbers of an analysis rest on.

use llmprof_record::run::RunRecord;
use llmprof_theory::device::{Device, Engine};
use llmprof_theory::{WeightFormat, Workload};
use llmprof_units::Times;

use crate::analysis::Analysis;
use crate::capture_cost::CaptureCost;
use crate::latency::Latency;
use crate::roofline::{MBU_FORMULA, MFU_FORMULA};

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
            "The roofline time of an operator is the larger of FLOPs ÷ peak of the units that run them and minimum DRAM traffic ÷ bandwidth. Minimum DRAM traffic is weights, KV cache and the model's inputs and outputs; activations between operators do not count.".to_owned(),
        );
    }
    assumptions
}

/// In which format products were computed, where the device would be faster in the format that the weights are stored in: on
/// paper that one counts.
pub(super) fn arithmetic(workload: &Workload, device: &Device) -> Option<String> {
    let computed = workload.precision.activations?;
    let WeightFormat::Plain(stored) = workload.precision.weights? else {
        return None;
    };
    let peak = |dtype| device.peak(dtype, Engine::Tensor).ok();
    let (used, unused) = (peak(computed)?, peak(stored)?);
    (unused.dense_flops_per_s.0 > used.dense_flops_per_s.0).then(|| {
        format!(
            "GEMMs run in {computed}: roofline times and MFU use its peak, {}. static_compute.md uses the peak of {stored}, in which the \
             weights are stored: {}.",
            used.dense_flops_per_s, unused.dense_flops_per_s
        )
    })
}

/// When the peaks of this CPU were measured.
pub(super) fn measured_at(device: &Device) -> Option<String> {
    let time = device.measured_at.as_ref()?;
    Some(format!(
        "The peaks of this CPU were measured at {time}; `llmprof hardware measure` does it again."
    ))
}

/// How the worker ran the model, which is where runs of one model differ; in the words of the configuration.
pub(super) fn how_it_ran(record: &RunRecord) -> Option<String> {
    let facts = &record.host.as_ref()?.worker;
    let class = facts.get("model_class")?;
    let versions = ["torch", "transformers"]
        .into_iter()
        .filter_map(|name| Some(format!("{name} {}", facts.get(name)?)));
    let options = ["attn_implementation", "compile", "cuda_graph", "kv_cache"]
        .into_iter()
        .filter_map(|name| Some(format!("{name} {}", facts.get(name)?)));
    Some(format!(
        "{class} ran on {}: {}.",
        versions.collect::<Vec<_>>().join(" and "),
        options.collect::<Vec<_>>().join(", ")
    ))
}

/// What torch's profiler cost the pass that it recorded.
pub(super) fn profiling_overhead(analysis: &Analysis) -> Option<String> {
    let profiled = analysis.profiled_by_torch()?;
    let costs = CaptureCost::of(profiled);
    let parts: Vec<String> = costs
        .iter()
        .map(|cost| format!("{} {}", cost.phase, Times(cost.ratio)))
        .collect();
    let plain = match profiled.latency.repeats {
        1 => "the plain pass".to_owned(),
        passes => format!("mean of {passes} plain passes"),
    };
    (!parts.is_empty()).then(|| {
        format!(
            "Profiling overhead of torch.profiler: {} wall time (profiled batch ÷ {plain}, same work).",
            parts.join(", ")
        )
    })
}

/// That the times of a trace include its profiler, which no plain pass shows, and by how much such profilers slow a program.
///
/// Factors are of host-bound decode on an H200 (Qwen2.5-0.5B, eager, batch 1), where they are largest.
pub(super) fn profiled_times(record: &RunRecord) -> Option<String> {
    let trace = record.trace().filter(|_| record.passes.is_empty())?;
    let slowed = match trace.metadata.get("tool").map(String::as_str) {
        Some("kineto") => "torch.profiler slows host-bound decode 1.9 to 2.5 times on an H200",
        Some("nsys") => "Nsight Systems slows host-bound decode 1.7 to 1.9 times on an H200",
        Some("llmprof") => {
            "recording slows host-bound decode 1.4 times on an H200, less with --overhead"
        }
        _ => "profilers slow host-bound programs most",
    };
    Some(format!(
        "Times include the profiler's overhead, since no pass ran without it: {slowed}; GPU-bound work is slowed by a few percent."
    ))
}
