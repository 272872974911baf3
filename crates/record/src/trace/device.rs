//! Devices as a profiler describes them.

use llmprof_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of processor a device is, where the tool says that it is not a GPU.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    JsonSchema,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum AcceleratorKind {
    #[default]
    Gpu,
    Tpu,
    Npu,
    Mtia,
    /// A device that the tool gives no name to that is known here.
    Other,
}

impl AcceleratorKind {
    /// What people call such a device.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Gpu => "GPU",
            Self::Tpu => "TPU",
            Self::Npu => "NPU",
            Self::Mtia => "MTIA",
            Self::Other => "accelerator",
        }
    }
}

/// What a tool reports of a device. A figure that it does not report is absent, never guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceProperties {
    /// The number that events of this device carry.
    pub id: u32,
    /// The driver's name of it: `NVIDIA H200`. Empty where the tool gives none.
    pub name: String,
    pub kind: AcceleratorKind,
    pub memory_bytes: Option<Bytes>,
    /// Compute capability, major and minor.
    pub compute_capability: Option<(u32, u32)>,
    pub sm_count: Option<u32>,
    /// Number of threads in a warp.
    pub warp_size: Option<u32>,
    /// Threads a block may have.
    pub max_threads_per_block: Option<u32>,
    /// Threads that may be resident on one multiprocessor.
    pub max_threads_per_sm: Option<u32>,
    /// Blocks that may be resident on one multiprocessor.
    pub max_blocks_per_sm: Option<u32>,
    /// 32-bit registers of a multiprocessor.
    pub registers_per_sm: Option<u32>,
    /// 32-bit registers that one block may have.
    pub registers_per_block: Option<u32>,
    /// Shared memory of a multiprocessor.
    pub shared_per_sm_bytes: Option<Bytes>,
    /// Shared memory a block may have without asking.
    pub shared_per_block_bytes: Option<Bytes>,
    /// Shared memory a block may ask for.
    pub shared_per_block_optin_bytes: Option<Bytes>,
    pub l2_bytes: Option<Bytes>,
    /// Maximum clock of the multiprocessors, Hz.
    pub clock_hz: Option<u64>,
    /// Maximum clock of the memory, Hz.
    pub memory_clock_hz: Option<u64>,
    /// Width of the memory bus, bits.
    pub memory_bus_bits: Option<u32>,
    /// Memory bandwidth as the tool states it, bytes a second.
    pub memory_bandwidth_bytes_per_s: Option<u64>,
}
