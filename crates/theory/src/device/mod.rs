//! Devices: what a machine can do at most, each figure with its source.
//!
//! One YAML file per device, in `devices/`; a user's own directory of such files overlays them ([`Catalog`]).
//! Peaks are dense; sparse rates are kept apart and never used. A figure without a source is not in the file, and
//! what needs it says so. `devices/custom_npu.yaml` documents every key.

mod calibration;
mod catalog;
mod error;
mod figure;
mod load;
mod nearest;
mod peak;
pub mod schema;

use std::collections::BTreeMap;

use llmprof_units::{Basis, Bytes, BytesPerSecond, DType, Hertz, Nanos, Watts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use calibration::DeviceCalibration;
pub use catalog::{Catalog, CatalogEntry, Origin};
pub use error::DeviceError;
pub use figure::Figure;
pub use peak::{Engine, MissingPeak, Peak, Recount};

/// What a device can do at most.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Device {
    /// Name in configs and on the command line: `h100_sxm`.
    pub name: String,
    /// Full name of the device.
    pub title: String,
    /// The names under which drivers and frameworks report it.
    pub driver_names: Vec<String>,
    /// Company that makes the device: `NVIDIA`, `AMD`, `Intel`.
    pub vendor: String,
    /// GPU, CPU or other accelerator.
    pub kind: DeviceKind,
    /// The maker's name for the design.
    pub architecture: Option<String>,
    /// Basis of the figures that do not state their own.
    pub basis: Basis,
    /// When a measured file was measured (RFC 3339).
    pub measured_at: Option<String>,
    /// How it was calibrated, where that was done here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<DeviceCalibration>,
    /// SMs, compute units or cores.
    pub units: Option<Units>,
    /// Clocks by name; peaks refer to them.
    pub clocks_hz: BTreeMap<String, Figure<Hertz>>,
    /// Most operations per second by format and engine.
    pub peaks: Vec<Peak>,
    /// Main memory: HBM or GDDR of a GPU, the DRAM of a CPU.
    pub memory: DeviceDram,
    /// Caches and scratchpads, nearest first.
    pub caches: Vec<Cache>,
    /// Links to other devices and to the host.
    pub interconnects: Vec<Interconnect>,
    /// Power limit of the whole device in watts; null where the maker states none.
    pub power_w: Option<Figure<Watts>>,
    /// Time from one kernel's end to the start of the next already queued one, where somebody measured it.
    pub launch_latency_ns: Option<Figure<Nanos>>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl Device {
    pub fn memory_bandwidth(&self) -> BytesPerSecond {
        self.memory.bandwidth_bytes_per_s.value
    }

    /// The dense peak for work in `dtype` on `engine`, by the first rule that finds one:
    ///
    /// 1. The peak stated for that format and engine. Where the maker states several accumulators, the widest one:
    ///    frameworks accumulate 16-bit and 8-bit floats in f32, so the faster f16 accumulator of GeForce cards is not a
    ///    limit that a model run by them can reach.
    /// 2. Matrix work falls to the vector units: a GEMM can always be done there (Apple GPUs, f32
    ///    without TF32).
    /// 3. 16-bit floats fall to f32 vector units: converting in registers is exact and moves no memory.
    ///
    /// Nothing else is assumed: 8-bit and 4-bit *weights* do not need an 8-bit peak, since the format an operator
    /// computes in is what counts, but an operator that computes in fp8 on a device without fp8 units is an error.
    pub fn dense_peak(&self, dtype: DType, engine: Engine) -> Result<&Peak, MissingPeak> {
        self.stated_peak(dtype, engine)
            .or_else(|| self.stated_peak(dtype, Engine::Vector))
            .or_else(|| {
                matches!(dtype, DType::F16 | DType::Bf16)
                    .then(|| self.stated_peak(DType::F32, Engine::Vector))?
            })
            .ok_or_else(|| self.missing_peak(dtype, engine))
    }

    fn stated_peak(&self, dtype: DType, engine: Engine) -> Option<&Peak> {
        self.peaks
            .iter()
            .filter(|peak| peak.dtype == dtype && peak.engine == engine)
            .max_by_key(|peak| peak.accumulate.map_or(0, DType::bits))
    }

    fn missing_peak(&self, dtype: DType, engine: Engine) -> MissingPeak {
        let mut stated_dtypes: Vec<_> = self
            .peaks
            .iter()
            .filter(|peak| peak.engine == engine || engine == Engine::Tensor)
            .map(|peak| peak.dtype.name())
            .collect();
        stated_dtypes.sort_unstable();
        stated_dtypes.dedup();
        MissingPeak {
            device: self.name.clone(),
            dtype,
            engine,
            known: if stated_dtypes.is_empty() {
                "none".to_owned()
            } else {
                stated_dtypes.join(", ")
            },
        }
    }
}

/// What sort of machine a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// Graphics processor, whether it still draws or not.
    Gpu,
    Cpu,
    /// Any other accelerator: TPU, NPU, Gaudi.
    Npu,
}

/// How many of which unit a device has.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Units {
    /// What the maker calls one: SM, CU, core.
    pub name: String,
    /// Number of these units in the device.
    pub count: Figure<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct DeviceDram {
    /// Kind of DRAM: `HBM3`, `GDDR6X`, `LPDDR5X`; null where the maker does not say.
    pub technology: Option<String>,
    /// Size. Makers' gigabytes are read as 10⁹ bytes; HBM parts often have a little more.
    pub capacity_bytes: Option<Figure<Bytes>>,
    /// Peak bandwidth of main memory in bytes per second, as the maker states it.
    pub bandwidth_bytes_per_s: Figure<BytesPerSecond>,
}

/// One level of on-chip memory.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Cache {
    /// Name of the level: `l1`, `l2`, `llc`, `sram`.
    pub level: String,
    /// Whether size and bandwidth are of one unit or of the whole device.
    pub scope: CacheScope,
    /// Size in bytes, of one unit or of the device as `scope` says; null where it is not stated.
    pub capacity_bytes: Option<Bytes>,
    /// Bandwidth, where stated or measured.
    pub bandwidth_bytes_per_s: Option<BytesPerSecond>,
    /// How the figures are known.
    pub basis: Basis,
    /// The document that states them.
    pub source: String,
}

/// What a cache's figures are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheScope {
    /// One SM, compute unit or core.
    Unit,
    Device,
}

/// A link to other devices or to the host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Interconnect {
    /// The maker's name for the link: `NVLink 4`, `PCIe 5.0 x16`.
    pub name: String,
    /// Bandwidth of all links together.
    pub bandwidth: Figure<BytesPerSecond>,
    /// Whether that counts one direction or both.
    pub counts: Counts,
}

/// Which directions a link's bandwidth counts; makers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counts {
    /// Each direction has this bandwidth.
    OneDirection,
    /// Both directions together have it.
    BothDirections,
}
