//! What counters of one kernel say to do, by name.

use llmprof_record::kernel_name::Category;
use serde::{Deserialize, Serialize};

use super::LaunchRow;

/// A conclusion from the counters of one launch. Values are percentages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "code")]
pub enum KernelFinding {
    /// Low SM throughput with high DRAM throughput and few L2 hits: the kernel streams data it uses once.
    StreamsDram {
        sm_pct: f64,
        dram_pct: f64,
        l2_hit_pct: f64,
    },
    /// A GEMM that leaves the tensor cores idle.
    LowTensorUse { tensor_pct: f64 },
    /// Warps wait for memory, and there are too few of them to hide it.
    MemoryStalls {
        stall_pct: f64,
        reason: String,
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

pub(super) fn of(row: &LaunchRow, category: Category) -> Vec<KernelFinding> {
    let mut found = Vec::new();
    let percentage = |name: &str| row.percentage(name);
    if let (Some(sm_pct), Some(dram_pct), Some(l2_hit_pct)) = (
        percentage("sm_throughput_pct"),
        percentage("dram_throughput_pct"),
        percentage("l2_hit_rate_pct"),
    ) && sm_pct < LOW_SM
        && dram_pct >= HIGH_DRAM
        && l2_hit_pct < LOW_L2_HITS
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
        (row.stalls.first(), percentage("achieved_occupancy_pct"))
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
