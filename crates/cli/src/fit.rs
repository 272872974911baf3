//! Whether what is asked for fits into memory, as far as that can be known before anything is loaded.

use llmprof_capture::{host, telemetry::nvml};
use llmprof_record::{
    issue::{Issue, IssueCode},
    plan::{ModelPlace, Plan, RuntimeType},
};
use llmprof_theory::{MemoryFootprint, Model, Workload};
use llmprof_units::{Bytes, DType};

use crate::{failure::Failure, subject::RunSubject};

/// Refuses a run whose weights and KV cache (of the native engine with logits and activations) are more than the memory it would run in. Where it does not fit the device
/// that it is compared with, that is an issue: the comparison is with something that could not be run there.
pub(crate) fn check(plan: &Plan, subject: &RunSubject) -> Result<Option<Issue>, Failure> {
    let Some(model) = &subject.model else {
        return Ok(None);
    };
    if matches!(
        plan.runtime.kind,
        RuntimeType::Native | RuntimeType::Pytorch
    ) {
        let needed = least(plan, model, &subject.workload)?;
        if let Some((place, memory)) = memory_of(plan.device)
            && needed.total_bytes() > memory.0
        {
            return Err(refusal(plan, &needed, &place, memory));
        }
    }
    let asked = memory(model, &subject.workload, plan)?;
    let Some(device) = &subject.device else {
        return Ok(None);
    };
    let capacity = device.memory.capacity_bytes.as_ref();
    let too_small = capacity.filter(|capacity| asked.total_bytes() > capacity.value.0);
    Ok(too_small.map(|capacity| {
        Issue::warning(IssueCode::MemoryDoesNotFit)
            .with("model", plan.model.name.as_str())
            .with("device", device.name.as_str())
            .with("needs", parts(&asked))
            .with("capacity_bytes", capacity.value.0)
    }))
}

/// The least that a run must hold: shorter prompts and fewer of them than asked for are run where a dataset has no more, and
/// mapped weights need no memory of their own.
fn least(plan: &Plan, model: &Model, workload: &Workload) -> Result<MemoryFootprint, Failure> {
    let mut workload = *workload;
    if plan.dataset.root.is_some() {
        workload.batch = 1;
        workload.prompt = workload.prompt.min(1);
    } else {
        let samples = plan.dataset.sampling.num_samples_per_epoch;
        workload.batch = samples.map_or(workload.batch, |samples| workload.batch.min(samples));
        workload.prompt = plan.dataset.min_prompt_tokens.unwrap_or(workload.prompt);
    }
    let is_native = plan.runtime.kind == RuntimeType::Native;
    if is_native {
        workload.precision.kv = Some(DType::F32);
        workload.precision.activations = Some(DType::F32);
    }
    let mut needed = memory(model, &workload, plan)?;
    // PyTorch and what it compiles may keep less than the cost model counts; the native engine keeps more.
    if !is_native {
        needed.activations_peak = 0;
    }
    if is_native && plan.model.reads_weights() {
        needed.weights = 0;
    }
    Ok(needed)
}

fn memory(model: &Model, workload: &Workload, plan: &Plan) -> Result<MemoryFootprint, Failure> {
    model
        .count_memory(workload)
        .map_err(|error| Failure::new(format!("model {}: {error}", plan.model.name)))
}

/// Whose memory a run is in, and how much that is; nothing where it cannot be known.
fn memory_of(place: ModelPlace) -> Option<(String, Bytes)> {
    match place {
        ModelPlace::Cpu => Some(("this machine".to_owned(), host::memory_limit()?)),
        ModelPlace::Mps | ModelPlace::Xpu(_) | ModelPlace::Hpu(_) => None,
        ModelPlace::Cuda(index) => {
            let facts = nvml::gpu_facts(None).ok()?;
            let gpu = facts.gpus.into_iter().find(|gpu| gpu.index == index)?;
            let name = gpu.name.unwrap_or_else(|| "GPU".to_owned());
            Some((format!("{name} ({place})"), gpu.memory_bytes?))
        }
    }
}

fn refusal(plan: &Plan, needed: &MemoryFootprint, place: &str, memory: Bytes) -> Failure {
    let hint = if needed.weights > memory.0 {
        "a smaller model, or a device with more memory"
    } else {
        "lower runtime.batch_size, workload.prompt_tokens or infer.max_new_tokens"
    };
    Failure::new(format!(
        "model {} with runtime.batch_size={} does not fit {place}: {} of {memory}",
        plan.model.name,
        plan.workload.batch_size,
        parts(needed)
    ))
    .hint(hint.to_owned())
}

/// What is needed: `weights 15.2 GB + KV cache 3.1 GB need 18.3 GB`.
fn parts(needed: &MemoryFootprint) -> String {
    let named = [
        (needed.weights, "weights"),
        (needed.kv_cache, "KV cache"),
        (needed.activations_peak, "activations"),
    ];
    let named: Vec<String> = named
        .into_iter()
        .filter(|(bytes, _)| *bytes > 0)
        .map(|(bytes, what)| format!("{what} {}", Bytes(bytes)))
        .collect();
    format!("{} need {}", named.join(" + "), Bytes(needed.total_bytes()))
}
