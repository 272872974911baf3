//! Numbers that every reader of counters wants, from whichever page they are on.

use llmprof_record::counters::{Counters, ProfiledLaunch, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::row_order::sort_descending_f64;

const SPEED_OF_LIGHT_SECTION: &str = "GPU Speed Of Light Throughput";
const MEMORY_SECTION: &str = "Memory Workload Analysis";

/// Percentages: our name, that of the raw page, section and name of the details page.
pub(super) const PERCENTAGES: &[(&str, &str, &str, &str)] = &[
    (
        "sm_throughput_pct",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        SPEED_OF_LIGHT_SECTION,
        "Compute (SM) Throughput",
    ),
    (
        "dram_throughput_pct",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        SPEED_OF_LIGHT_SECTION,
        "DRAM Throughput",
    ),
    (
        "mem_throughput_pct",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        SPEED_OF_LIGHT_SECTION,
        "Memory Throughput",
    ),
    (
        "l1tex_throughput_pct",
        "l1tex__throughput.avg.pct_of_peak_sustained_active",
        SPEED_OF_LIGHT_SECTION,
        "L1/TEX Cache Throughput",
    ),
    (
        "l2_throughput_pct",
        "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        SPEED_OF_LIGHT_SECTION,
        "L2 Cache Throughput",
    ),
    (
        "tensor_pipe_pct",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "",
        "",
    ),
    (
        "mem_busy_pct",
        "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed",
        MEMORY_SECTION,
        "Mem Busy",
    ),
    (
        "max_bandwidth_pct",
        "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed",
        MEMORY_SECTION,
        "Max Bandwidth",
    ),
    (
        "l1tex_hit_rate_pct",
        "l1tex__t_sector_hit_rate.pct",
        MEMORY_SECTION,
        "L1/TEX Hit Rate",
    ),
    (
        "l2_hit_rate_pct",
        "lts__t_sector_hit_rate.pct",
        MEMORY_SECTION,
        "L2 Hit Rate",
    ),
    (
        "achieved_occupancy_pct",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "Occupancy",
        "Achieved Occupancy",
    ),
    (
        "theoretical_occupancy_pct",
        "sm__maximum_warps_per_active_cycle_pct",
        "Occupancy",
        "Theoretical Occupancy",
    ),
];

/// What keeps more blocks from an SM: our name, that of the raw page and of the details page.
const BLOCK_LIMITS: [(&str, &str, &str); 5] = [
    (
        "registers",
        "launch__occupancy_limit_registers",
        "Block Limit Registers",
    ),
    (
        "shared_memory",
        "launch__occupancy_limit_shared_mem",
        "Block Limit Shared Mem",
    ),
    (
        "warps",
        "launch__occupancy_limit_warps",
        "Block Limit Warps",
    ),
    ("blocks", "launch__occupancy_limit_blocks", "Block Limit SM"),
    (
        "barriers",
        "launch__occupancy_limit_barriers",
        "Block Limit Barriers",
    ),
];

/// The names of the percentages that every launch has, in their order.
pub fn percentages() -> impl Iterator<Item = &'static str> {
    PERCENTAGES.iter().map(|(name, ..)| *name)
}

/// Why warps did not issue, of all cycles that warps waited.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Stall {
    /// As Nsight Compute names it: `long_scoreboard`.
    pub reason: String,
    /// Share of the warp cycles.
    pub share: f64,
}

/// How the grid fills the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Fill {
    /// Number of blocks of the grid.
    pub blocks: Option<u64>,
    /// Streaming multiprocessors of the device.
    pub sms: Option<u64>,
    /// Blocks ÷ blocks that the device holds at once.
    pub waves: Option<f64>,
    /// Time that the last, partial wave leaves idle, as a part of all waves: 1 − waves ÷ ⌈waves⌉.
    pub tail_share: Option<f64>,
}

/// Efficiency of accesses to global and shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct MemoryAccess {
    /// 32-byte sectors of each global load request; 4 where 32 threads read 4 bytes side by side, 16 where each reads 16.
    pub sectors_per_load: Option<f64>,
    /// Sectors of 32 bytes per store request.
    pub sectors_per_store: Option<f64>,
    /// Wavefronts of shared memory that bank conflicts add, as a part of all.
    pub bank_conflict_share: Option<f64>,
}

/// One launch with the counters it is in.
#[derive(Clone, Copy)]
pub(super) struct LaunchCounters<'a> {
    pub(super) counters: &'a Counters,
    pub(super) launch: &'a ProfiledLaunch,
}

impl LaunchCounters<'_> {
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.counters.number(self.launch, name)
    }

    fn in_section(&self, section: &str, name: &str, unit: &str) -> Option<f64> {
        self.counters.number_in(self.launch, section, name, unit)
    }

    pub(super) fn percentages(&self) -> Vec<(String, Option<f64>)> {
        let all = PERCENTAGES.iter();
        all.map(|(name, raw, section, details)| {
            let value = self
                .number(raw)
                .or_else(|| self.in_section(section, details, "%"));
            ((*name).to_owned(), value)
        })
        .collect()
    }

    /// Number of blocks that each resource of an SM has room for.
    fn block_limits(&self) -> Vec<(&'static str, f64)> {
        let limits = BLOCK_LIMITS.iter().filter_map(|(name, raw, details)| {
            let limit = self
                .number(raw)
                .or_else(|| self.in_section("Occupancy", details, "block"))?;
            Some((*name, limit))
        });
        limits.collect()
    }

    /// The resources that allow the fewest blocks; several if they allow equally few.
    pub(super) fn occupancy_limiters(&self) -> Vec<String> {
        let limits = self.block_limits();
        let least = limits
            .iter()
            .map(|limit| limit.1)
            .fold(f64::INFINITY, f64::min);
        let tied = limits.iter().filter(|limit| limit.1 <= least);
        tied.map(|(name, _)| (*name).to_owned()).collect()
    }

    /// Reasons in the order of their shares.
    pub(super) fn stalls(&self) -> Vec<Stall> {
        let mut stalls: Vec<Stall> = self
            .launch
            .readings
            .iter()
            .filter_map(|reading| {
                let metric = self.counters.describe(reading.metric)?;
                let reason = metric
                    .name
                    .strip_prefix("smsp__average_warps_issue_stalled_")?
                    .strip_suffix("_per_issue_active.ratio")?;
                match reading.value {
                    Value::Number(share) => Some(Stall {
                        reason: reason.to_owned(),
                        share,
                    }),
                    _ => None,
                }
            })
            .collect();
        let total: f64 = stalls.iter().map(|stall| stall.share).sum();
        if total > 0.0 {
            for stall in &mut stalls {
                stall.share /= total;
            }
        }
        stalls.retain(|stall| stall.share > 0.0);
        sort_descending_f64(&mut stalls, |stall| stall.share);
        stalls
    }

    pub(super) fn fill(&self) -> Fill {
        let grid = self.launch.grid;
        let blocks = grid.map(|grid| {
            (grid.iter()).fold(1, |all: u64, side| all.saturating_mul(u64::from(*side)))
        });
        let sms = self.sms();
        let counted = || {
            let limits = self.block_limits().into_iter();
            let room = limits.map(|(_, limit)| limit).reduce(f64::min)?;
            let held = room * sms? as f64;
            (held > 0.0).then_some(blocks? as f64 / held)
        };
        let waves = self
            .number("launch__waves_per_multiprocessor")
            .or_else(|| self.in_section("Launch Statistics", "Waves Per SM", ""))
            .or_else(counted);
        Fill {
            blocks,
            sms,
            waves,
            tail_share: waves
                .filter(|waves| *waves > 1.0)
                .map(|waves| 1.0 - waves / waves.ceil()),
        }
    }

    /// SMs as a page states them, or as the FP32 lanes of its roofline chart give them.
    pub(super) fn sms(&self) -> Option<u64> {
        let stated = self
            .number("launch__sm_count")
            .or_else(|| self.number("device__attribute_multiprocessor_count"))
            .or_else(|| self.in_section("Launch Statistics", "# SMs", "SM"));
        let by_lanes = || {
            let operations = self.number("Theoretical Predicated-On FFMA Operations")?;
            // Lanes of an SM by compute capability, CUDA C++ Programming Guide, "Arithmetic Instructions".
            let lanes = match self.launch.compute_capability.as_str() {
                "7.0" | "7.2" | "7.5" | "8.0" => 64.0,
                "8.6" | "8.7" | "8.9" | "9.0" | "10.0" | "10.3" | "12.0" | "12.1" => 128.0,
                _ => return None,
            };
            Some(operations / (2.0 * lanes))
        };
        let sms = stated.or_else(by_lanes)?;
        (sms >= 1.0).then_some(sms.round() as u64)
    }

    pub(super) fn access(&self) -> MemoryAccess {
        let ratio = |above: &str, below: &str| {
            let (above, below) = self.number(above).zip(self.number(below))?;
            (below > 0.0).then(|| above / below)
        };
        let per_request = |kind: &str| {
            let name = |what: &str| format!("l1tex__t_{what}_pipe_lsu_mem_global_op_{kind}.sum");
            ratio(&name("sectors"), &name("requests"))
        };
        let conflicts = ratio(
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
            "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
        );
        MemoryAccess {
            sectors_per_load: per_request("ld"),
            sectors_per_store: per_request("st"),
            bank_conflict_share: conflicts,
        }
    }
}
