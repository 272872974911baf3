//! The changes that are considered.

use llmprof_predict::EfficiencyProfile;
use llmprof_record::plan::{Place, RuntimeType};
use llmprof_report::compose::advise::{AdvisedChange, ChangeAdvice};
use llmprof_theory::{
    AttentionConvention,
    device::{Catalog, DeviceKind},
};

use super::{Request, change::Change, design};
use crate::failure::Failure;

/// Other devices that are kept: the fastest ones.
const DEVICES: usize = 3;

/// Every change worth predicting for a request of these overrides; what it already has is none.
pub(super) fn all(
    request: &Request,
    stated: &[String],
    profile: &EfficiencyProfile,
) -> Result<Vec<Change>, Failure> {
    let mut found = software(request, profile)?;
    let plan = &request.plan;
    let one = |code, line: String| Change::new(code, vec![line]);
    let batch = plan.workload.batch_size;
    // The workload's batch is that of the runtime unless it is stated by itself.
    let is_own = |line: &String| line.starts_with("workload.batch_size=");
    for factor in [2, 4] {
        let more = batch.saturating_mul(factor);
        let mut lines = vec![format!("runtime.batch_size={more}")];
        if stated.iter().any(is_own) {
            lines.push(format!("workload.batch_size={more}"));
        }
        found.push(Change::new(AdvisedChange::Batch, lines));
    }
    if plan.workload.kv_dtype.is_none() {
        for dtype in ["fp8", "int8"] {
            found.push(one(
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
            found.push(one(
                AdvisedChange::Weights,
                format!("workload.weights={format}"),
            ));
        }
    }
    let more_ranks = [2, 4, 8]
        .into_iter()
        .filter(|&ranks| ranks > plan.parallel.tensor);
    found.extend(more_ranks.map(|ranks| {
        let line = format!("parallel.tensor={ranks}");
        one(AdvisedChange::TensorParallel, line)
    }));
    found.extend(devices(request));
    found.extend(design::edits(request)?);
    Ok(found)
}

fn is_cpu(request: &Request) -> bool {
    let device = request.subject.device.as_ref();
    device.is_some_and(|device| device.kind == DeviceKind::Cpu)
}

/// What another way of running the same model would gain. Only PyTorch has the keys, and captures and compiles decode alone.
fn software(request: &Request, profile: &EfficiencyProfile) -> Result<Vec<Change>, Failure> {
    let runtime = &request.plan.runtime;
    let mut found = Vec::new();
    if runtime.kind != RuntimeType::Pytorch {
        return Ok(found);
    }
    // A prediction needs no GPU to run on; a CUDA graph does.
    let on_gpu = |line: &str| {
        let place =
            (request.plan.device == Place::Cpu && !is_cpu(request)).then_some("device=cuda:0");
        let lines = place.into_iter().chain([line]);
        lines.map(str::to_owned).collect()
    };
    if profile.name == "hf_eager" && !runtime.cuda_graph {
        found.push(Change {
            profile: Some(embedded("hf_graph")?),
            ..Change::new(AdvisedChange::CudaGraph, on_gpu("runtime.cuda_graph=true"))
        });
    }
    if profile.name == "hf_eager" {
        found.push(Change {
            profile: Some(embedded("torch_compile")?),
            ..Change::new(
                AdvisedChange::Fusion,
                on_gpu("runtime.compile=reduce-overhead"),
            )
        });
    }
    if request.plan.workload.attention == AttentionConvention::Full {
        found.push(Change::new(
            AdvisedChange::AttentionBackend,
            vec![
                "runtime.attn_implementation=sdpa".to_owned(),
                "workload.attention=causal".to_owned(),
            ],
        ));
    }
    Ok(found)
}

fn embedded(name: &str) -> Result<EfficiencyProfile, Failure> {
    EfficiencyProfile::embedded(name).map_err(|error| Failure::new(error.to_string()))
}

/// Other devices of the same kind.
fn devices(request: &Request) -> Vec<Change> {
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
            Change::new(
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
