//! What GPUs a machine has, and how they are set up.

use std::path::PathBuf;

use llmprof_units::{Bytes, Hertz, Watts};
use nvml_wrapper::{
    Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor,
    enum_wrappers::device::{Clock, ComputeMode},
};
use serde::Serialize;

use super::library::{self, NvmlUnavailable};

/// The driver and its GPUs. What is not told is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GpuFacts {
    /// Version of the driver: `580.159.04`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// The newest CUDA that it runs: `13.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_version: Option<String>,
    /// Version of NVML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvml_version: Option<String>,
    /// The GPUs, in the order of their numbers.
    pub gpus: Vec<Gpu>,
}

/// One GPU. Neither its serial number nor its UUID is recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gpu {
    /// Its number, as NVML counts.
    pub index: u32,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Architecture: `Hopper`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Compute capability: `9.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    /// Its place on the PCI bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_bus_id: Option<String>,
    /// Its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Bytes>,
    /// What the driver keeps of it for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_reserved_bytes: Option<Bytes>,
    /// The power limit in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_w: Option<Watts>,
    /// The power limit that it came with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_power_limit_w: Option<Watts>,
    /// The highest clock of its processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sm_clock_hz: Option<Hertz>,
    /// The highest clock of its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory_clock_hz: Option<Hertz>,
    /// Generation of its PCIe link now; an idle GPU may lower it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_generation: Option<u32>,
    /// Lanes of its PCIe link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_lanes: Option<u32>,
    /// Whether memory errors are corrected, which takes bandwidth on some GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc_enabled: Option<bool>,
    /// Whether it is split into instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig_enabled: Option<bool>,
    /// Whether the driver stays loaded while nobody uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence_mode: Option<bool>,
    /// Who may use it: `default`, `exclusive_process`, `prohibited`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_mode: Option<&'static str>,
}

impl GpuFacts {
    /// Asks the library at `path`, or the system's.
    pub fn collect(path: Option<&PathBuf>) -> Result<Self, NvmlUnavailable> {
        let nvml = library::open(path)?;
        let count = nvml.device_count().unwrap_or(0);
        Ok(Self {
            driver_version: nvml.sys_driver_version().ok(),
            cuda_version: nvml.sys_cuda_driver_version().ok().map(|version| {
                format!(
                    "{}.{}",
                    cuda_driver_version_major(version),
                    cuda_driver_version_minor(version)
                )
            }),
            nvml_version: nvml.sys_nvml_version().ok(),
            gpus: (0..count)
                .filter_map(|index| Gpu::of(&nvml, index))
                .collect(),
        })
    }
}

impl Gpu {
    fn of(nvml: &Nvml, index: u32) -> Option<Self> {
        let device: Device<'_> = nvml.device_by_index(index).ok()?;
        let memory = device.memory_info().ok();
        let watts = |milliwatts: u32| Watts(f64::from(milliwatts) * 1e-3);
        let megahertz = |clock| Some(Hertz(f64::from(device.max_clock_info(clock).ok()?) * 1e6));
        Some(Self {
            index,
            name: device.name().ok(),
            architecture: device.architecture().ok().map(|name| format!("{name:?}")),
            compute_capability: device
                .cuda_compute_capability()
                .ok()
                .map(|version| format!("{}.{}", version.major, version.minor)),
            pci_bus_id: device.pci_info().ok().map(|info| info.bus_id),
            memory_bytes: memory.as_ref().map(|info| Bytes(info.total)),
            memory_reserved_bytes: memory.as_ref().map(|info| Bytes(info.reserved)),
            power_limit_w: device.enforced_power_limit().ok().map(watts),
            default_power_limit_w: device.power_management_limit_default().ok().map(watts),
            max_sm_clock_hz: megahertz(Clock::SM),
            max_memory_clock_hz: megahertz(Clock::Memory),
            pcie_generation: device.current_pcie_link_gen().ok(),
            pcie_lanes: device.current_pcie_link_width().ok(),
            ecc_enabled: device
                .is_ecc_enabled()
                .ok()
                .map(|mode| mode.currently_enabled),
            mig_enabled: device.mig_mode().ok().map(|mode| mode.current == 1),
            persistence_mode: device.is_in_persistent_mode().ok(),
            compute_mode: device.compute_mode().ok().map(|mode| match mode {
                ComputeMode::Default => "default",
                ComputeMode::ExclusiveThread => "exclusive_thread",
                ComputeMode::Prohibited => "prohibited",
                ComputeMode::ExclusiveProcess => "exclusive_process",
            }),
        })
    }
}
