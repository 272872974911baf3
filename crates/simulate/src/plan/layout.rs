//! Engines that could serve a load: a device, how the model is spread over several, and formats.

use llmprof_predict::parallel::ParallelModel;
use llmprof_theory::{
    Model, Precision, WeightFormat, Workload,
    device::{Device, Engine},
    parallel::Parallel,
};
use llmprof_units::DType;

/// Ranks of one node: links between nodes are not modelled.
const NODE_RANKS: u64 = 8;
const TENSOR_RANKS: [u64; 4] = [1, 2, 4, 8];
const PIPELINE_STAGES: [u64; 3] = [1, 2, 4];

/// Formats that are tried in addition to those of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriedFormats {
    pub fp8_weights: bool,
    /// A KV cache in 8-bit floats.
    pub fp8_kv: bool,
}

/// Layouts of a model over up to a node, those that cannot be divided left out.
pub(super) fn list_layouts(
    model: &Model,
    device: &Device,
    max_gpus: u64,
) -> Vec<(Parallel, ParallelModel)> {
    let mut layouts = Vec::new();
    for tensor in TENSOR_RANKS {
        for pipeline in PIPELINE_STAGES {
            let ranks = tensor * pipeline;
            if ranks > NODE_RANKS.min(max_gpus) {
                continue;
            }
            // A mixture's experts are divided within each, or over the ranks.
            let experts: &[u64] = if model.has_experts() && tensor > 1 {
                &[1, tensor]
            } else {
                &[1]
            };
            for &expert in experts {
                let parallel = Parallel {
                    tensor,
                    pipeline,
                    expert,
                    data: 1,
                };
                if let Ok(spread) = ParallelModel::new(model, device, parallel) {
                    layouts.push((parallel, spread));
                }
            }
        }
    }
    layouts
}

/// The workload in its own formats, and in narrower ones that the device computes in.
pub(super) fn list_precisions(
    model: &Model,
    device: &Device,
    base: &Workload,
    formats: TriedFormats,
) -> Vec<Precision> {
    let base_precision = base.precision;
    let stored = model.number_formats(&base_precision);
    let fp8 = WeightFormat::Fp8 {
        rows: 0,
        columns: 0,
    };
    let narrow = Precision {
        weights: Some(fp8),
        ..base_precision
    };
    let has_fp8 = device.dense_peak(DType::F8E4m3, Engine::Tensor).is_ok();
    let is_wider = model.parameter_bytes(&narrow) < model.parameter_bytes(&base_precision);
    let weights = if formats.fp8_weights && has_fp8 && is_wider {
        vec![base_precision, narrow]
    } else {
        vec![base_precision]
    };
    let narrows_kv = formats.fp8_kv && has_fp8 && stored.kv.bits() > 8;
    let mut all = Vec::new();
    for precision in weights {
        all.push(precision);
        if narrows_kv {
            all.push(Precision {
                kv: Some(DType::F8E4m3),
                ..precision
            });
        }
    }
    all
}
