//! What limits a kernel, by its counters. `docs/kernels.md` has the rule in words.

use llmprof_record::plan::ClassifyPlan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantities::Fill;

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum KernelBottleneck {
    ComputeBound,
    /// DRAM bandwidth limits the kernel.
    MemoryBound,
    L2Bound,
    L1Bound,
    /// No unit is busy: warps wait.
    LatencyBound,
    /// The grid has fewer blocks than the device has SMs.
    UnderfilledGrid,
    /// Compute and memory are used alike.
    Balanced,
    /// Counters that decide it are missing.
    Unknown,
}

impl KernelBottleneck {
    pub const ALL: [Self; 8] = [
        Self::ComputeBound,
        Self::MemoryBound,
        Self::L2Bound,
        Self::L1Bound,
        Self::LatencyBound,
        Self::UnderfilledGrid,
        Self::Balanced,
        Self::Unknown,
    ];

    /// As files have it: `compute_bound`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ComputeBound => "compute_bound",
            Self::MemoryBound => "memory_bound",
            Self::L2Bound => "l2_bound",
            Self::L1Bound => "l1_bound",
            Self::LatencyBound => "latency_bound",
            Self::UnderfilledGrid => "underfilled_grid",
            Self::Balanced => "balanced",
            Self::Unknown => "unknown",
        }
    }
}

/// Margins of the rule, percent of peak.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassRule {
    /// A unit below this limits nothing.
    pub low_pct: f64,
    /// SM throughput from which a kernel is compute-bound regardless of its instructions; a grid that leaves SMs without a block
    /// and reaches it is not called under-filled.
    pub high_pct: f64,
    /// Uses closer than this are alike.
    pub margin_pct: f64,
}

impl Default for ClassRule {
    fn default() -> Self {
        ClassifyPlan::default().into()
    }
}

impl From<ClassifyPlan> for ClassRule {
    fn from(plan: ClassifyPlan) -> Self {
        Self {
            low_pct: plan.low_pct,
            high_pct: plan.high_pct,
            margin_pct: plan.margin_pct,
        }
    }
}

/// What the rule decides by, percent of peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Use {
    /// SM throughput in percent of peak.
    pub sm_pct: Option<f64>,
    /// Floating-point rate of the peak of its pipe and format: by the chip's own counters, or by the device's datasheet
    /// where that is higher.
    pub flops_pct: Option<f64>,
    /// Whether a pipe worked whose peak is not known: how busy it was cannot be said.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_peak: bool,
    /// DRAM throughput in percent of peak.
    pub dram_pct: Option<f64>,
    /// L2 cache throughput in percent of peak.
    pub l2_pct: Option<f64>,
    /// L1 cache throughput in percent of peak.
    pub l1_pct: Option<f64>,
}

impl ClassRule {
    pub fn classify_kernel(&self, used: &Use, fill: &Fill) -> KernelBottleneck {
        let (Some(sm), Some(dram)) = (used.sm_pct, used.dram_pct) else {
            return KernelBottleneck::Unknown;
        };
        let flops = used.flops_pct.unwrap_or(0.0);
        let compute = sm.max(flops);
        let (memory, by_level) = self.busiest_level(dram, used);
        let lead = compute.max(memory);
        let is_underfilled = fill
            .blocks
            .zip(fill.sms)
            .is_some_and(|(blocks, sms)| blocks < sms);
        if is_underfilled && lead < self.high_pct {
            return KernelBottleneck::UnderfilledGrid;
        }
        if used.lacks_peak && lead < self.high_pct {
            return KernelBottleneck::Unknown;
        }
        if lead < self.low_pct {
            return KernelBottleneck::LatencyBound;
        }
        let is_computing = sm >= self.high_pct || flops >= self.low_pct;
        if (compute - memory).abs() <= self.margin_pct {
            return KernelBottleneck::Balanced;
        }
        if memory > compute {
            return by_level;
        }
        // Busy SMs alone may be address arithmetic and waiting.
        if is_computing {
            KernelBottleneck::ComputeBound
        } else if memory >= self.low_pct {
            by_level
        } else {
            KernelBottleneck::LatencyBound
        }
    }

    /// The busiest level; of levels that are alike, the one farthest from the SM, which the others wait for.
    fn busiest_level(&self, dram: f64, used: &Use) -> (f64, KernelBottleneck) {
        let l2 = used.l2_pct.unwrap_or(0.0);
        let l1 = used.l1_pct.unwrap_or(0.0);
        let most = dram.max(l2).max(l1);
        let class = if dram + self.margin_pct >= most {
            KernelBottleneck::MemoryBound
        } else if l2 + self.margin_pct >= most {
            KernelBottleneck::L2Bound
        } else {
            KernelBottleneck::L1Bound
        };
        (most, class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(sm: f64, flops: f64, dram: f64, l2: f64, l1: f64, blocks: u64) -> KernelBottleneck {
        let used = Use {
            sm_pct: Some(sm),
            flops_pct: Some(flops),
            lacks_peak: false,
            dram_pct: Some(dram),
            l2_pct: Some(l2),
            l1_pct: Some(l1),
        };
        let fill = Fill {
            blocks: Some(blocks),
            sms: Some(132),
            ..Fill::default()
        };
        ClassRule::default().classify_kernel(&used, &fill)
    }

    #[test]
    fn the_busiest_unit_is_the_limit() {
        assert_eq!(
            class(85.0, 80.0, 20.0, 30.0, 30.0, 1000),
            KernelBottleneck::ComputeBound
        );
        assert_eq!(
            class(20.0, 1.0, 80.0, 40.0, 30.0, 1000),
            KernelBottleneck::MemoryBound
        );
        assert_eq!(
            class(20.0, 1.0, 20.0, 90.0, 40.0, 1000),
            KernelBottleneck::L2Bound
        );
        assert_eq!(
            class(20.0, 1.0, 20.0, 30.0, 90.0, 1000),
            KernelBottleneck::L1Bound
        );
        assert_eq!(
            class(70.0, 60.0, 68.0, 30.0, 30.0, 1000),
            KernelBottleneck::Balanced
        );
        assert_eq!(
            class(20.0, 1.0, 20.0, 30.0, 30.0, 1000),
            KernelBottleneck::LatencyBound
        );
    }

    #[test]
    fn a_grid_smaller_than_the_device_is_under_filled_unless_it_keeps_a_unit_busy() {
        assert_eq!(
            class(5.0, 0.0, 20.0, 10.0, 5.0, 131),
            KernelBottleneck::UnderfilledGrid
        );
        assert_eq!(
            class(5.0, 0.0, 61.0, 10.0, 5.0, 131),
            KernelBottleneck::MemoryBound
        );
        assert_eq!(
            class(5.0, 0.0, 20.0, 10.0, 5.0, 132),
            KernelBottleneck::LatencyBound
        );
    }

    /// A copy whose SMs are busy with addresses computes nothing.
    #[test]
    fn busy_sms_without_arithmetic_are_not_compute_bound() {
        assert_eq!(
            class(45.0, 0.0, 20.0, 20.0, 20.0, 1000),
            KernelBottleneck::LatencyBound
        );
        assert_eq!(
            class(45.0, 0.0, 38.0, 20.0, 20.0, 1000),
            KernelBottleneck::MemoryBound
        );
    }

    /// The same kernel by other margins: `pipeline.ncu.classify`.
    #[test]
    fn margins_decide() {
        let used = Use {
            sm_pct: Some(20.0),
            flops_pct: Some(1.0),
            dram_pct: Some(30.0),
            l2_pct: Some(28.0),
            l1_pct: Some(10.0),
            lacks_peak: false,
        };
        let fill = Fill {
            blocks: Some(100),
            sms: Some(132),
            ..Fill::default()
        };
        let by = |low_pct, high_pct, margin_pct| {
            let plan = ClassifyPlan {
                low_pct,
                high_pct,
                margin_pct,
            };
            ClassRule::from(plan).classify_kernel(&used, &fill)
        };
        assert_eq!(by(35.0, 60.0, 5.0), KernelBottleneck::UnderfilledGrid);
        assert_eq!(by(25.0, 30.0, 5.0), KernelBottleneck::MemoryBound);
        assert_eq!(by(25.0, 30.0, 12.0), KernelBottleneck::Balanced);
        assert_eq!(by(30.5, 30.5, 5.0), KernelBottleneck::UnderfilledGrid);
        assert_eq!(
            ClassRule::from(ClassifyPlan::default()),
            ClassRule::default()
        );
    }

    /// A GEMM of 113 TFLOP/s whose pipe has no known peak is not called idle.
    #[test]
    fn a_pipe_without_a_peak_is_not_called_idle() {
        let used = |sm: f64, dram: f64| Use {
            sm_pct: Some(sm),
            lacks_peak: true,
            dram_pct: Some(dram),
            ..Use::default()
        };
        let class = |used: &Use| ClassRule::default().classify_kernel(used, &Fill::default());
        assert_eq!(class(&used(32.0, 20.0)), KernelBottleneck::Unknown);
        assert_eq!(class(&used(32.0, 85.0)), KernelBottleneck::MemoryBound);
        assert_eq!(class(&used(85.0, 20.0)), KernelBottleneck::ComputeBound);
    }

    #[test]
    fn without_counters_there_is_no_class() {
        let class = ClassRule::default().classify_kernel(&Use::default(), &Fill::default());
        assert_eq!(class, KernelBottleneck::Unknown);
    }
}
