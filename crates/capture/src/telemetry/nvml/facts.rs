//! What GPUs a machine has, and how they are set up.

use std::path::PathBuf;

use llmprof_record::run::{Gpu, GpuFacts};
use llmprof_units::{Bytes, Hertz, Watts};
use nvml_wrapper::{
    Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor,
    enum_wrappers::device::{Clock, ComputeMode},
};

use super::library::{self, NvmlUnavailable};

/// Asks the library at `path`, or the system's.
pub fn gpu_facts(path: Option<&PathBuf>) -> Result<GpuFacts, NvmlUnavailable> {
    let nvml = library::load_nvml(path)?;
    let count = nvml.device_count().unwrap_or(0);
    Ok(GpuFacts {
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
            .filter_map(|index| single_gpu_facts(&nvml, index))
            .collect(),
    })
}

fn single_gpu_facts(nvml: &Nvml, index: u32) -> Option<Gpu> {
    let device: Device<'_> = nvml.device_by_index(index).ok()?;
    let memory = device.memory_info().ok();
    let watts = |milliwatts: u32| Watts(f64::from(milliwatts) * 1e-3);
    let megahertz = |clock| Some(Hertz(f64::from(device.max_clock_info(clock).ok()?) * 1e6));
    Some(Gpu {
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
        compute_mode: device.compute_mode().ok().map(|mode| {
            match mode {
                ComputeMode::Default => "default",
                ComputeMode::ExclusiveThread => "exclusive_thread",
                ComputeMode::Prohibited => "prohibited",
                ComputeMode::ExclusiveProcess => "exclusive_process",
            }
            .to_owned()
        }),
    })
}
