//! Work and traffic of one decode step by the counters, compared with what the model needs.

use llmprof_record::kernel_name::Category;
use llmprof_units::{Bytes, Flops};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CountedLaunch;
use crate::statics::Statics;

/// Work and traffic of some operators: by counters, and by the model. A ratio above 1 is waste or an error of the model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct AgainstModel {
    /// Compared operators: `gemm` or `attention`.
    pub kind: String,
    /// Decode steps that the profiled launches stand for.
    pub steps: u64,
    /// DRAM bytes and FLOPs of one step by the counters.
    pub counted_bytes: Bytes,
    /// Floating-point operations of one step by the counters.
    pub counted_flops: Flops,
    /// Weights, keys and values that the model reads in one step, and its FLOPs.
    pub model_bytes: Bytes,
    /// Operations that the model needs.
    pub model_flops: Flops,
    /// Counted ÷ needed DRAM traffic.
    pub bytes_ratio: Option<f64>,
    /// Operations by the counters ÷ operations that the model needs.
    pub flops_ratio: Option<f64>,
}

/// Compares kinds whose kernels were classified by name. `steps` is how many decode steps the launches stand for.
pub(crate) fn compare_with_model(
    rows: &[CountedLaunch],
    statics: &Statics,
    steps: u64,
) -> Vec<AgainstModel> {
    let kinds = [
        (
            "gemm",
            &[Category::Gemm, Category::Gemv][..],
            &["linear"][..],
        ),
        ("attention", &[Category::Attention], &["attention"]),
    ];
    let step = &statics.phases.decode_step;
    kinds
        .into_iter()
        .filter_map(|(kind, categories, names)| {
            let own = rows
                .iter()
                .filter(|row| categories.contains(&row.category()));
            let (mut bytes, mut flops, mut has_launches) = (0.0, 0.0, false);
            for row in own {
                let launches = row.launches? as f64;
                bytes += launches * row.dram_bytes?.0 as f64;
                let rate: f64 = row.pipes.iter().map(|pipe| pipe.flops_per_s.0).sum();
                flops += launches * rate * row.duration_ns?.seconds();
                has_launches = true;
            }
            let theory = step
                .kinds
                .iter()
                .filter(|one| names.contains(&one.kind.to_string().as_str()));
            let (mut model_bytes, mut model_flops) = (0, 0);
            for one in theory {
                model_bytes += one.sums.weight_bytes.0 + one.sums.kv_read_bytes.0;
                model_flops += one.sums.flops.0;
            }
            let per_step = |sum: f64| (sum / steps.max(1) as f64).round() as u64;
            let (counted_bytes, counted_flops) = (per_step(bytes), per_step(flops));
            let ratio =
                |counted: u64, model: u64| (model > 0).then(|| counted as f64 / model as f64);
            has_launches.then(|| AgainstModel {
                kind: kind.to_owned(),
                steps,
                counted_bytes: Bytes(counted_bytes),
                counted_flops: Flops(counted_flops),
                model_bytes: Bytes(model_bytes),
                model_flops: Flops(model_flops),
                bytes_ratio: ratio(counted_bytes, model_bytes),
                flops_ratio: ratio(counted_flops, model_flops),
            })
        })
        .collect()
}
