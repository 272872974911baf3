//! Conclusions from the counters of one kernel.

use llmprof_record::kernel_name::Category;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClassRule, CountedLaunch, KernelBottleneck};
use crate::thresholds::{
    DRAM_HIGH_PERCENT, L2_HITS_LOW_PERCENT, OCCUPANCY_LOW_PERCENT, SM_LOW_PERCENT,
    STALL_HIGH_SHARE, TENSOR_LOW_PERCENT,
};

/// A conclusion from the counters of one launch. Values are percentages.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case", tag = "code")]
pub enum KernelFinding {
    /// Low SM throughput with high DRAM throughput and few L2 hits: the kernel streams data it uses once.
    StreamsDram {
        /// SM throughput in percent of peak.
        sm_pct: f64,
        /// DRAM throughput in percent of peak.
        dram_pct: f64,
        /// Hits of the L2 cache.
        l2_hit_pct: f64,
    },
    /// A GEMM that leaves the tensor cores idle.
    LowTensorUse {
        /// Use of the tensor cores.
        tensor_pct: f64,
    },
    /// Warps wait for memory, and there are too few of them to hide it.
    MemoryStalls {
        /// Share of warp cycles that wait.
        stall_pct: f64,
        /// What the warps wait for, as Nsight Compute names it.
        reason: String,
        /// Warps of those that fit.
        occupancy_pct: f64,
    },
}

/// Waits for memory, as Nsight Compute names them; `not_selected` would mean that there are warps enough.
const MEMORY_STALLS: [&str; 4] = ["long_scoreboard", "lg_throttle", "tex_throttle", "membar"];

/// A finding says what the class does not contradict: a kernel of few blocks does not need fewer bytes, and one that keeps a
/// memory level busy does not need more warps.
pub(super) fn conclude_launch(
    row: &CountedLaunch,
    category: Category,
    rule: ClassRule,
) -> Vec<KernelFinding> {
    let mut findings = Vec::new();
    let limits_elsewhere = matches!(
        row.class,
        KernelBottleneck::UnderfilledGrid
            | KernelBottleneck::L2Bound
            | KernelBottleneck::L1Bound
            | KernelBottleneck::ComputeBound
    );
    let memory = [row.used.dram_pct, row.used.l2_pct, row.used.l1_pct];
    let is_saturated = memory
        .into_iter()
        .flatten()
        .any(|percent| percent >= rule.high_pct);
    let percentage = |name: &str| row.percentage(name);
    if let (Some(sm_pct), Some(dram_pct), Some(l2_hit_pct)) = (
        percentage("sm_throughput_pct"),
        percentage("dram_throughput_pct"),
        percentage("l2_hit_rate_pct"),
    ) && sm_pct < SM_LOW_PERCENT
        && dram_pct >= DRAM_HIGH_PERCENT
        && l2_hit_pct < L2_HITS_LOW_PERCENT
        && !limits_elsewhere
    {
        findings.push(KernelFinding::StreamsDram {
            sm_pct,
            dram_pct,
            l2_hit_pct,
        });
    }
    if category == Category::Gemm
        && let Some(tensor_pct) = row.tensor_use_pct
        && tensor_pct < TENSOR_LOW_PERCENT
    {
        findings.push(KernelFinding::LowTensorUse { tensor_pct });
    }
    if let (Some(stall), Some(occupancy_pct)) =
        (row.limiting_stall(), percentage("achieved_occupancy_pct"))
        && !is_saturated
        && MEMORY_STALLS.contains(&stall.reason.as_str())
        && stall.share >= STALL_HIGH_SHARE
        && occupancy_pct < OCCUPANCY_LOW_PERCENT
    {
        findings.push(KernelFinding::MemoryStalls {
            stall_pct: 100.0 * stall.share,
            reason: stall.reason.clone(),
            occupancy_pct,
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use llmprof_record::counters::{Counters, ProfiledLaunch};

    use super::*;
    use crate::counters::{CountersAnalysis, Stall};

    /// A launch with these percentages; nothing else is known of it.
    fn row(class: KernelBottleneck, sm: f64, dram: f64, occupancy: f64) -> CountedLaunch {
        let counters = Counters {
            launches: vec![ProfiledLaunch::default()],
            ..Counters::default()
        };
        let analysis = CountersAnalysis::from_counters(&counters, None, None, ClassRule::default());
        let mut row = analysis.launches[0].clone();
        for (name, value) in &mut row.percentages {
            *value = match name.as_str() {
                "sm_throughput_pct" => Some(sm),
                "dram_throughput_pct" => Some(dram),
                "l2_hit_rate_pct" => Some(5.0),
                "achieved_occupancy_pct" => Some(occupancy),
                _ => None,
            };
        }
        row.class = class;
        row.used.dram_pct = Some(dram);
        row.stalls = [("selected", 0.5), ("long_scoreboard", 0.4)]
            .map(|(reason, share)| Stall {
                reason: reason.to_owned(),
                share,
            })
            .to_vec();
        row
    }

    fn codes(row: &CountedLaunch) -> Vec<&'static str> {
        let findings = conclude_launch(row, Category::Gemm, ClassRule::default());
        let code = |finding: &KernelFinding| match finding {
            KernelFinding::StreamsDram { .. } => "streams_dram",
            KernelFinding::LowTensorUse { .. } => "low_tensor_use",
            KernelFinding::MemoryStalls { .. } => "memory_stalls",
        };
        findings.iter().map(code).collect()
    }

    #[test]
    fn findings_follow_the_class() {
        let memory = row(KernelBottleneck::MemoryBound, 10.0, 80.0, 20.0);
        assert_eq!(codes(&memory), ["streams_dram"], "DRAM is busy already");
        let half = row(KernelBottleneck::MemoryBound, 10.0, 45.0, 20.0);
        assert_eq!(codes(&half), ["streams_dram", "memory_stalls"]);
        let few_blocks = row(KernelBottleneck::UnderfilledGrid, 10.0, 45.0, 20.0);
        assert_eq!(codes(&few_blocks), ["memory_stalls"]);
        let latency = row(KernelBottleneck::LatencyBound, 10.0, 20.0, 20.0);
        assert_eq!(codes(&latency), ["memory_stalls"]);
        let many_warps = row(KernelBottleneck::LatencyBound, 10.0, 20.0, 80.0);
        assert!(codes(&many_warps).is_empty());
        // Tensor cores matter to GEMMs, below 30 % of their peak.
        let mut gemm = many_warps.clone();
        gemm.tensor_use_pct = Some(12.5);
        let findings = conclude_launch(&gemm, Category::Gemm, ClassRule::default());
        assert_eq!(findings, [KernelFinding::LowTensorUse { tensor_pct: 12.5 }]);
        for other in [Category::Attention, Category::Elementwise] {
            assert!(conclude_launch(&gemm, other, ClassRule::default()).is_empty());
        }
        gemm.tensor_use_pct = Some(30.0);
        assert!(codes(&gemm).is_empty());
    }
}
