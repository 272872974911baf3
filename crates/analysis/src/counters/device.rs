//! The device that counters were collected on, where the pages show which one it was.

use llmprof_record::counters::{Counters, Level, Value};
use llmprof_theory::device::{Catalog, Device};

use super::quantities::LaunchCounters;
use crate::thresholds::COUNTED_BANDWIDTH_TOLERANCE_SHARE;

/// Devices of the catalog by compute capability (NVIDIA's list "CUDA GPU Compute Capability").
const CAPABILITIES: [(&str, &[&str]); 9] = [
    ("7.0", &["v100_sxm"]),
    ("7.5", &["t4"]),
    (
        "8.0",
        &[
            "a100_pcie_40gb",
            "a100_pcie_80gb",
            "a100_sxm_40gb",
            "a100_sxm_80gb",
        ],
    ),
    ("8.6", &["a10", "rtx_3090"]),
    ("8.9", &["l4", "l40s", "rtx_4090"]),
    ("9.0", &["h100_pcie", "h100_sxm", "h20", "h200", "h800_sxm"]),
    ("10.0", &["b200", "gb200"]),
    ("10.3", &["b300", "gb300"]),
    ("12.0", &["rtx_5090", "rtx_pro_6000_server"]),
];

/// The device, by the name that the pages state, else by compute capability, number of SMs and DRAM bandwidth. `None` where several
/// devices fit: their peaks differ.
pub fn infer_device(counters: &Counters) -> Option<Device> {
    let catalog = Catalog::embedded();
    if let Some(name) = display_name(counters) {
        return catalog.by_driver_name(name).ok();
    }
    let launch = counters.launches.first()?;
    let sms = LaunchCounters { counters, launch }.sms()?;
    let (_, names) = CAPABILITIES
        .iter()
        .find(|(capability, _)| *capability == launch.compute_capability)?;
    let has_sms = |device: &Device| {
        let units = device.units.as_ref();
        units.is_some_and(|units| units.count.value.round() as u64 == sms)
    };
    let mut fitting: Vec<Device> = names
        .iter()
        .filter_map(|name| catalog.find_device(name).ok())
        .filter(has_sms)
        .collect();
    if fitting.len() > 1 {
        let bandwidth = dram_peak(counters)?;
        fitting.retain(|device| {
            let stated = device.memory_bandwidth().0;
            (bandwidth / stated - 1.0).abs() <= COUNTED_BANDWIDTH_TOLERANCE_SHARE
        });
    }
    let [device] = <[Device; 1]>::try_from(fitting).ok()?;
    Some(device)
}

fn display_name(counters: &Counters) -> Option<&str> {
    let launch = counters.launches.first()?;
    launch.readings.iter().find_map(|reading| {
        let metric = counters.describe(reading.metric)?;
        match &reading.value {
            Value::Text(text) if metric.name == "device__attribute_display_name" => {
                Some(text.as_str())
            }
            _ => None,
        }
    })
}

/// The highest DRAM bandwidth that pages state as possible.
fn dram_peak(counters: &Counters) -> Option<f64> {
    let levels = counters
        .launches
        .iter()
        .flat_map(|launch| counters.levels(launch));
    let peaks = levels
        .filter(|level| level.level == Level::Dram)
        .filter_map(|level| Some(level.peak_bytes_per_s?.0));
    peaks.max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nvidia_gpu_of_the_catalog_has_its_capability() {
        let catalog = Catalog::embedded();
        let listed: Vec<&str> = CAPABILITIES
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        for entry in catalog.entries() {
            let device = catalog.find_device(&entry.name).unwrap();
            let is_listed = listed.contains(&device.name.as_str());
            assert_eq!(device.vendor == "NVIDIA", is_listed, "{}", device.name);
        }
    }
}
