//! The changes that are considered.

use llmprof_predict::EfficiencyProfile;
use llmprof_record::plan::{ModelPlace, RuntimeType};
use llmprof_report::compose::advise::{AdvisedChange, ChangeAdvice};
use llmprof_theory::{
    AttentionConvention,
    device::{Catalog, DeviceKind},
};

use super::{AdvisedRequest, change::RequestChange, design};
use crate::failure::Failure;

/// Other devices that are kept: the fastest ones.
const DEVICES: usize = 3;

/// Every change worth predicting for a request of these overrides; what it already has is none.
pub(super) fn all(
    request: &AdvisedRequest,
    stated: &[String],
    profile: &EfficiencyProfile,
) -> Result<Vec<RequestChange>, Failure> {
    let mut changes = software(request, profile)?;
    let plan = &request.plan;
    let one = |code, line: String| RequestChange::new(code, vec![line]);
    let batch = plan.workload.batch_size;
    // The workload's batch is that of the runtime unless it is stated by itself.
    let is_own = |line: &String| line.starts_with("workload.batch_size=");
    for factor in [2, 4] {
        let more = batch.saturating_mul(factor);
        let mut lines = vec![format!("runtime.batch_size={more}")];
        if stated.iter().any(is_own) {
            lines.push(format!("workload.batch_size={more}"));
        }
        changes.push(RequestChange::new(AdvisedChange::Batch, lines));
    }
    if plan.workload.kv_dtype.is_none() {
        for dtype in ["fp8", "int8"] {
            changes.push(one(
                AdvisedChange::KvDtype,
                format!("workload.kv_dtype={dtype}"),
            ));
        }
    }
    if plan.workload.weights.is_none() {
        // What the native engine runs; elsewhere what checkpoints are published in.
        let formats: &[&str] = if plan.runtime.kind == RuntimeType::Native && is_cpu(request) {
            &["int8", "int4_g128"]
        } else {
            &["fp8", "int8", "awq"]
        };
        for format in formats {
            changes.push(one(
                AdvisedChange::Weights,
                format!("workload.weights={format}"),
            ));
        }
    }
    let more_ranks = [2, 4, 8]
        .into_iter()
        .filter(|&ranks| ranks > plan.parallel.tensor);
    changes.extend(more_ranks.map(|ranks| {
        let line = format!("parallel.tensor={ranks}");
        one(AdvisedChange::TensorParallel, line)
    }));
    changes.extend(devices(request));
    changes.extend(design::edits(request)?);
    Ok(changes)
}

fn is_cpu(request: &AdvisedRequest) -> bool {
    let device = request.subject.device.as_ref();
    device.is_some_and(|device| device.kind == DeviceKind::Cpu)
}

/// What another way of running the same model would gain. Only PyTorch has the keys, and captures and compiles decode alone.
fn software(
    request: &AdvisedRequest,
    profile: &EfficiencyProfile,
) -> Result<Vec<RequestChange>, Failure> {
    let runtime = &request.plan.runtime;
    let mut changes = Vec::new();
    // The times of another runtime may be those of eager mode all the same: on a GPU that is the default.
    let is_pytorch = runtime.kind == RuntimeType::Pytorch;
    if !is_pytorch && profile.name != "hf_eager" {
        return Ok(changes);
    }
    // A prediction needs no GPU to run on; a CUDA graph does.
    let on_gpu = |line: &str| {
        let place =
            (request.plan.device == ModelPlace::Cpu && !is_cpu(request)).then_some("device=cuda:0");
        let software = (!is_pytorch).then_some("runtime=pytorch");
        let lines = software.into_iter().chain(place).chain([line]);
        lines.map(str::to_owned).collect()
    };
    if profile.name == "hf_eager" && !runtime.cuda_graph {
        changes.push(RequestChange {
            profile: Some(embedded("hf_graph")?),
            ..RequestChange::new(AdvisedChange::CudaGraph, on_gpu("runtime.cuda_graph=true"))
        });
    }
    if profile.name == "hf_eager" {
        changes.push(RequestChange {
            profile: Some(embedded("torch_compile")?),
            ..RequestChange::new(
                AdvisedChange::Fusion,
                on_gpu("runtime.compile=reduce-overhead"),
            )
        });
    }
    if is_pytorch && request.plan.workload.attention == AttentionConvention::Full {
        changes.push(RequestChange::new(
            AdvisedChange::AttentionBackend,
            vec![
                "runtime.attn_implementation=sdpa".to_owned(),
                "workload.attention=causal".to_owned(),
            ],
        ));
    }
    Ok(changes)
}

fn embedded(name: &str) -> Result<EfficiencyProfile, Failure> {
    EfficiencyProfile::embedded(name).map_err(|error| Failure::new(error.to_string()))
}

/// Other devices of the same kind.
fn devices(request: &AdvisedRequest) -> Vec<RequestChange> {
    let Some(own) = &request.subject.device else {
        return Vec::new();
    };
    let catalog = Catalog::embedded();
    let entries = catalog.entries();
    let others = entries.iter().filter(|entry| entry.name != own.name);
    others
        .filter(|entry| {
            catalog
                .by_name(&entry.name)
                .is_ok_and(|device| device.kind == own.kind)
        })
        .map(|entry| {
            RequestChange::new(
                AdvisedChange::Device,
                vec![format!("hardware.spec={}", entry.name)],
            )
        })
        .collect()
}

/// Of all other devices the fastest: a list of every faster one would hide the rest.
pub(super) fn keep_best_devices(advice: &mut Vec<ChangeAdvice>) {
    let mut kept = 0;
    advice.retain(|one| {
        let is_device = one.code == AdvisedChange::Device;
        kept += usize::from(is_device);
        !is_device || kept <= DEVICES
    });
}

/// Makes one row of changes of a kind with the same prediction, which names the others.
pub(super) fn join_equal(advice: &mut Vec<ChangeAdvice>) {
    let mut joined: Vec<ChangeAdvice> = Vec::new();
    for one in advice.drain(..) {
        let is_same = |known: &&mut ChangeAdvice| {
            known.code == one.code && known.figures == one.figures && known.runs == one.runs
        };
        match joined.iter_mut().find(is_same) {
            Some(known) => known.alike.push(one.overrides),
            None => joined.push(one),
        }
    }
    *advice = joined;
}
