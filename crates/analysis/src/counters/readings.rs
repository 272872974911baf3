//! What counters of one kernel say to do, by name.

use llmprof_record::kernel_name::Category;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClassRule, KernelClass, LaunchRow};

/// A conclusion from the counters of one launch. Values are percentages.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case", tag = "code")]
pub enum KernelFinding {
    /// Low SM throughput with high DRAM throughput and few L2 hits: the kernel streams data it uses once.
    StreamsDram {
        /// SM throughput of peak.
        sm_pct: f64,
        /// DRAM throughput of peak.
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
        /// What warps wait for.
        reason: String,
        /// Warps of those that fit.
        occupancy_pct: f64,
    },
}

/// SM throughput below which SMs count as little used, and DRAM throughput from which memory counts as busy, percent.
const LOW_SM: f64 = 40.0;
const HIGH_DRAM: f64 = 40.0;
const LOW_L2_HITS: f64 = 50.0;
const LOW_TENSOR: f64 = 30.0;
const LOW_OCCUPANCY: f64 = 50.0;
/// A stall of this part of all waiting is worth naming.
const HIGH_STALL: f64 = 0.3;

/// Waits for memory, as Nsight Compute names them; `not_selected` would mean that there are warps enough.
const MEMORY_STALLS: [&str; 4] = ["long_scoreboard", "lg_throttle", "tex_throttle", "membar"];

/// A finding says what the class does not contradict: a kernel of few blocks does not need fewer bytes, and one that keeps a
/// memory level busy does not need more warps.
pub(super) fn of(row: &LaunchRow, category: Category, rule: ClassRule) -> Vec<KernelFinding> {
    let mut found = Vec::new();
    let limits_elsewhere = matches!(
        row.class,
        KernelClass::UnderfilledGrid
            | KernelClass::L2Bound
            | KernelClass::L1Bound
            | KernelClass::ComputeBound
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
    ) && sm_pct < LOW_SM
        && dram_pct >= HIGH_DRAM
        && l2_hit_pct < LOW_L2_HITS
        && !limits_elsewhere
    {
        found.push(KernelFinding::StreamsDram {
            sm_pct,
            dram_pct,
            l2_hit_pct,
        });
    }
    if category == Category::Gemm
        && let Some(tensor_pct) = row.tensor_use_pct
        && tensor_pct < LOW_TENSOR
    {
        found.push(KernelFinding::LowTensorUse { tensor_pct });
    }
    if let (Some(stall), Some(occupancy_pct)) =
        (row.limiting_stall(), percentage("achieved_occupancy_pct"))
        && !is_saturated
        && MEMORY_STALLS.contains(&stall.reason.as_str())
        && stall.share >= HIGH_STALL
        && occupancy_pct < LOW_OCCUPANCY
    {
        found.push(KernelFinding::MemoryStalls {
            stall_pct: 100.0 * stall.share,
            reason: stall.reason.clone(),
            occupancy_pct,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use llmprof_record::counters::{Counters, ProfiledLaunch};

    use super::*;
    use crate::counters::{CountersAnalysis, Stall};

    /// A launch with these percentages; nothing else is known of it.
    fn row(class: KernelClass, sm: f64, dram: f64, occupancy: f64) -> LaunchRow {
        let counters = Counters {
            launches: vec![ProfiledLaunch::default()],
            ..Counters::default()
        };
        let found = CountersAnalysis::of(&counters, None, None, ClassRule::default());
        let mut row = found.launches[0].clone();
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

    fn codes(row: &LaunchRow) -> Vec<&'static str> {
        let found = of(row, Category::Gemm, ClassRule::default());
        let code = |finding: &KernelFinding| match finding {
            KernelFinding::StreamsDram { .. } => "streams_dram",
            KernelFinding::LowTensorUse { .. } => "low_tensor_use",
            KernelFinding::MemoryStalls { .. } => "memory_stalls",
        };
        found.iter().map(code).collect()
    }

    #[test]
    fn findings_follow_the_class() {
        let memory = row(KernelClass::MemoryBound, 10.0, 80.0, 20.0);
        assert_eq!(codes(&memory), ["streams_dram"], "DRAM is busy already");
        let half = row(KernelClass::MemoryBound, 10.0, 45.0, 20.0);
        assert_eq!(codes(&half), ["streams_dram", "memory_stalls"]);
        let few_blocks = row(KernelClass::UnderfilledGrid, 10.0, 45.0, 20.0);
        assert_eq!(codes(&few_blocks), ["memory_stalls"]);
        let latency = row(KernelClass::LatencyBound, 10.0, 20.0, 20.0);
        assert_eq!(codes(&latency), ["memory_stalls"]);
        let many_warps = row(KernelClass::LatencyBound, 10.0, 20.0, 80.0);
        assert!(codes(&many_warps).is_empty());
        // Tensor cores matter to GEMMs, below 30 % of their peak.
        let mut gemm = many_warps.clone();
        gemm.tensor_use_pct = Some(12.5);
        let found = of(&gemm, Category::Gemm, ClassRule::default());
        assert_eq!(found, [KernelFinding::LowTensorUse { tensor_pct: 12.5 }]);
        for other in [Category::Attention, Category::Elementwise] {
            assert!(of(&gemm, other, ClassRule::default()).is_empty());
        }
        gemm.tensor_use_pct = Some(30.0);
        assert!(codes(&gemm).is_empty());
    }
}
