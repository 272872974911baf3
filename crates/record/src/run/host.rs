//! The machine a run happened on: the contents of `env.json`.

use std::collections::BTreeMap;

use llmprof_units::{Bytes, Hertz, Watts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine and the software on it. What could not be read is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// Version of llmprof that made the run.
    pub llmprof: String,
    /// Name of the operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// Version of the operating system's kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The processor of the machine.
    pub cpu: Cpu,
    /// Main memory of the machine, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Bytes>,
    /// Absent where there is no NVIDIA driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvidia: Option<GpuFacts>,
    /// Commit of the project the run was started in; `+` where files differ from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_revision: Option<String>,
    /// Variables of the environment, those of a fixed list alone.
    pub environment: BTreeMap<String, String>,
    /// What the worker reports of itself: versions, number formats, options.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub worker: BTreeMap<String, String>,
    /// Packages of the worker's environment, with their versions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Model name of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Instruction set, such as `x86_64`.
    pub architecture: String,
    /// Hardware threads this process may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Instruction sets that matter for inference.
    pub features: Vec<String>,
}

/// The NVIDIA driver and its GPUs. What is not reported is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct GpuFacts {
    /// Version of the NVIDIA driver, such as `580.159.04`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// The newest CUDA that the driver runs: `13.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_version: Option<String>,
    /// Version of NVML, the driver's management library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvml_version: Option<String>,
    /// In the order of their numbers.
    pub gpus: Vec<Gpu>,
}

/// One GPU. Neither its serial number nor its UUID is recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// Index of the GPU as NVML counts.
    pub index: u32,
    /// Name that the driver reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Architecture of the GPU, such as `Hopper`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Compute capability of the GPU, such as `9.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    /// Address on the PCI bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_bus_id: Option<String>,
    /// Memory of the GPU, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Bytes>,
    /// What the driver keeps of it for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_reserved_bytes: Option<Bytes>,
    /// The power limit in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_w: Option<Watts>,
    /// Power limit that the GPU starts with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_power_limit_w: Option<Watts>,
    /// Highest clock of the SMs, Hz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sm_clock_hz: Option<Hertz>,
    /// Highest clock of the memory, Hz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory_clock_hz: Option<Hertz>,
    /// Generation of its PCIe link now; an idle GPU may lower it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_generation: Option<u32>,
    /// Lanes of the PCIe link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_lanes: Option<u32>,
    /// Correction of memory errors takes bandwidth on some GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc_enabled: Option<bool>,
    /// Whether the GPU is divided by MIG.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig_enabled: Option<bool>,
    /// Whether the driver stays loaded while nobody uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence_mode: Option<bool>,
    /// Which processes may use the GPU: `default`, `exclusive_process` or `prohibited`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_mode: Option<String>,
}
