//! The YAML of a device file, as written. [`DeviceFile::to_device`] turns it into a [`Device`](super::Device).

use std::collections::BTreeMap;

use llmprof_units::{Basis, DType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CacheScope, Counts, DeviceCalibration, DeviceKind, Engine};

/// A device as its file describes it: `devices/custom_npu.yaml` is a template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceFile {
    /// Name in configs and on the command line.
    pub name: String,
    /// Full name of the device.
    pub title: String,
    /// Names under which drivers and frameworks report it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub driver_names: Vec<String>,
    /// Company that makes the device.
    pub vendor: String,
    /// GPU, CPU or other accelerator.
    pub kind: DeviceKind,
    /// The maker's name for the design.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// How figures are known that do not say so themselves.
    pub basis: Basis,
    /// When a measured file was measured (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<String>,
    /// How `llmprof hardware measure` measured this CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<DeviceCalibration>,
    /// Documents that figures name, by a short name.
    pub sources: BTreeMap<String, String>,
    /// Number of compute units (SMs, CUs or cores), with its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<UnitsEntry>,
    /// Clock rates in MHz by name; `peaks` refer to them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clocks_mhz: BTreeMap<String, FigureEntry>,
    /// Peak rates, one per number format and engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peaks: Vec<PeakEntry>,
    /// Size and bandwidth of the DRAM.
    pub memory: MemoryEntry,
    /// Caches and scratchpads, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheEntry>,
    /// Links to other devices or to the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interconnects: Vec<InterconnectEntry>,
    /// Thermal design power in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_w: Option<FigureEntry>,
    /// Time between two queued kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_latency_us: Option<FigureEntry>,
    /// What a reader should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A number and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FigureEntry {
    /// The number, in the unit of its key.
    pub value: f64,
    /// Short name of the document, in `sources`.
    pub source: String,
    /// Page, table or section of the document that states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// How the figure is known, where it differs from the basis of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

/// Number of compute units of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnitsEntry {
    /// What the maker calls one: SM, CU, core.
    pub name: String,
    /// Number of compute units of the device.
    pub value: f64,
    /// Short name of the document, in `sources`.
    pub source: String,
    /// Page, table or section of the document that states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// How the figure is known, where it differs from the basis of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

/// The peak rate of one number format on one kind of unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeakEntry {
    /// Number format of the factors.
    pub dtype: DType,
    /// Units that do the work.
    pub engine: Engine,
    /// Format of the accumulator, where the rate depends on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accumulate: Option<DType>,
    /// Dense rate; a multiply-add counts as two operations.
    #[schemars(extend("x-unit" = "TFLOP/s"))]
    pub tflops: f64,
    /// Rate the maker claims for 2:4 structured sparsity; never used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse_tflops: Option<f64>,
    /// Operations of one unit in one cycle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_per_clock: Option<f64>,
    /// Name of the clock in `clocks_mhz`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// Why the rate is not shown as units × operations per clock × clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_recounted: Option<String>,
    /// Short name of the document, in `sources`.
    pub source: String,
    /// Page, table or section of the document that states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// How the figure is known, where it differs from the basis of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

/// Size and bandwidth of the DRAM of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryEntry {
    /// Technology of the DRAM, such as `HBM3`, `GDDR6X` or `LPDDR5X`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub technology: Option<String>,
    /// Size of the DRAM, in 10⁹ bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_gb: Option<FigureEntry>,
    /// Peak bandwidth, in 10⁹ bytes per second.
    pub bandwidth_gb_s: FigureEntry,
}

/// One level of on-chip memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheEntry {
    /// Name of the level, such as `l1`, `l2`, `llc` or `sram`.
    pub level: String,
    /// Whether the figures are of one unit or of the whole device.
    pub scope: CacheScope,
    /// Size, in units of 1,024 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kib: Option<f64>,
    /// Bandwidth, in 10⁹ bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_gb_s: Option<f64>,
    /// Short name of the document, in `sources`.
    pub source: String,
    /// Page, table or section of the document that states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// How the figure is known, where it differs from the basis of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}

/// A link to other devices or to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterconnectEntry {
    /// Name of the link, such as `NVLink 4`.
    pub name: String,
    /// Bandwidth of all links together, in 10⁹ bytes per second.
    #[schemars(extend("x-unit" = "GB/s"))]
    pub gb_s: f64,
    /// Directions that the bandwidth counts.
    pub counts: Counts,
    /// Short name of the document, in `sources`.
    pub source: String,
    /// Page, table or section of the document that states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// How the figure is known, where it differs from the basis of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
}
