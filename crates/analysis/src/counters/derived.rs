//! What kernels would be classified as where counters are forbidden: FLOPs and bytes of the model, times of the timeline.
//!
//! Bytes are the least that must cross DRAM, so that DRAM use is a lower bound; caches, stalls and grids are not known.

use llmprof_record::run::RunRecord;
use llmprof_theory::Kind;
use llmprof_theory::device::{Device, Engine};
use llmprof_units::{Basis, Bytes, DType, Flops, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantities::Fill;
use super::{ClassRule, KernelClass, Use};
use crate::matching::OperatorGroup;
use crate::phase_analysis::PhaseAnalysis;

/// The kernels of matched operators, without counters.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct DerivedKernels {
    /// Always `derived`.
    pub basis: Basis,
    /// The margins that classes were decided by.
    pub rule: ClassRule,
    /// The device whose peaks rates are compared with.
    pub device: String,
    /// The longest first.
    pub rows: Vec<DerivedRow>,
}

/// The kernels of one place in the model, in one phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct DerivedRow {
    /// Phase of the operator.
    pub phase: String,
    /// The path with `*` for the number of the layer; the kind where kernels cannot be separated.
    pub operator: String,
    /// Kind of operator.
    pub kind: Kind,
    /// Number format of the arithmetic.
    pub dtype: DType,
    /// Number of calls.
    pub calls: u64,
    /// Time of its kernels.
    pub total_ns: Nanos,
    /// Floating-point operations; a multiply-add is two.
    pub flops: Flops,
    /// Minimum DRAM traffic.
    pub min_dram_bytes: Bytes,
    /// FLOP rate and minimum DRAM traffic in percent of peak.
    pub flops_pct: Option<f64>,
    /// DRAM traffic of the model ÷ what the bandwidth allows; a lower bound.
    pub dram_pct: f64,
    /// Bottleneck class.
    pub class: KernelClass,
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

/// Nothing where counters were not asked for, or are there, or operators have no times.
pub(crate) fn derive(
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
        .map(|(phase, group)| row(phase.name(), group, device, rule))
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
    (!rows.is_empty()).then(|| DerivedKernels {
        basis: Basis::Derived,
        rule,
        device: device.name.clone(),
        rows,
    })
}

fn row(phase: &str, group: &OperatorGroup, device: &Device, rule: ClassRule) -> DerivedRow {
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
        class: rule.class(&used, &Fill::default()),
    }
}
