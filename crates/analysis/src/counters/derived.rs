//! Classification of kernels where counters are forbidden, by FLOPs and bytes of the model and times of the timeline.
//!
//! Bytes are the least that must cross DRAM, so that DRAM use is a lower bound; caches, stalls and grids are not known.

use llmprof_record::run::RunRecord;
use llmprof_theory::Kind;
use llmprof_theory::device::{Device, Engine};
use llmprof_units::{Basis, Bytes, DType, Flops, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantities::Fill;
use super::{ClassRule, KernelBottleneck, Use};
use crate::matching::OperatorGroup;
use crate::phase_analysis::PhaseAnalysis;
use crate::row_order::sort_descending;

/// The kernels of matched operators, without counters.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct DerivedKernels {
    /// Always `derived`: no counter was read.
    pub basis: Basis,
    /// The margins that classes were decided by.
    pub rule: ClassRule,
    /// The device whose peaks rates are compared with.
    pub device: String,
    /// One row per operator and phase, the longest time first.
    pub rows: Vec<DerivedRow>,
}

/// The kernels of one place in the model, in one phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct DerivedRow {
    /// Name of the phase that the operator ran in.
    pub phase: String,
    /// The path with `*` for the number of the layer; the kind where kernels cannot be separated.
    pub operator: String,
    /// What the operator does in the model.
    pub kind: Kind,
    /// Number format of the arithmetic.
    pub dtype: DType,
    /// Matched calls of the operator.
    pub calls: u64,
    /// Measured time of its kernels.
    pub total_ns: Nanos,
    /// Floating-point operations; a multiply-add is two.
    pub flops: Flops,
    /// Least bytes that must cross DRAM for these calls.
    pub min_dram_bytes: Bytes,
    /// FLOP rate and minimum DRAM traffic in percent of peak.
    pub flops_pct: Option<f64>,
    /// DRAM traffic of the model ÷ what the bandwidth allows; a lower bound.
    pub dram_pct: f64,
    /// What limits the kernels, by the least traffic that they can have.
    pub class: KernelBottleneck,
}

impl DerivedRow {
    pub fn flops_per_s(&self) -> f64 {
        self.flops.0 as f64 / self.total_ns.seconds().max(1e-12)
    }

    /// FLOPs per byte; absent where no byte must cross DRAM.
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.min_dram_bytes.0;
        (bytes > 0).then(|| self.flops.0 as f64 / bytes as f64)
    }
}

/// `None` if counters were not asked for, were recorded, or no operator has a time.
pub(crate) fn derive_kernels(
    record: &RunRecord,
    phases: &[PhaseAnalysis],
    device: Option<&Device>,
) -> Option<DerivedKernels> {
    let ncu = &record.plan.as_ref()?.pipeline.ncu;
    if !ncu.is_enabled() || record.counters.is_some() {
        return None;
    }
    let device = device?;
    let rule = ClassRule::from(ncu.classify);
    let mut rows: Vec<DerivedRow> = phases
        .iter()
        .flat_map(|phase| phase.by_path.iter().map(move |group| (phase, group)))
        .filter(|(_, group)| group.measured_ns.0 > 0)
        .map(|(phase, group)| derived_row(phase.name(), group, device, rule))
        .collect();
    sort_descending(&mut rows, |row| row.total_ns.0);
    (!rows.is_empty()).then(|| DerivedKernels {
        basis: Basis::Derived,
        rule,
        device: device.name.clone(),
        rows,
    })
}

fn derived_row(phase: &str, group: &OperatorGroup, device: &Device, rule: ClassRule) -> DerivedRow {
    let seconds = group.measured_ns.seconds();
    let engine = match group.kind {
        Kind::Linear
        | Kind::Experts
        | Kind::Route
        | Kind::Attention
        | Kind::DeltaRule
        | Kind::Conv2d => Engine::Tensor,
        _ => Engine::Vector,
    };
    let peak = device.dense_peak(group.dtype, engine).ok();
    let flops_pct = peak.map(|peak| 100.0 * (group.flops / peak.dense_flops_per_s) / seconds);
    let dram_pct = 100.0 * (group.min_dram_bytes / device.memory_bandwidth()) / seconds;
    let used = Use {
        // Busy SMs that compute nothing are not known.
        sm_pct: flops_pct,
        flops_pct,
        lacks_peak: false,
        dram_pct: Some(dram_pct),
        l2_pct: None,
        l1_pct: None,
    };
    DerivedRow {
        phase: phase.to_owned(),
        operator: group.name.clone(),
        kind: group.kind,
        dtype: group.dtype,
        calls: group.calls,
        total_ns: group.measured_ns,
        flops: group.flops,
        min_dram_bytes: group.min_dram_bytes,
        flops_pct,
        dram_pct,
        class: rule.classify_kernel(&used, &Fill::default()),
    }
}
