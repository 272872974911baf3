//! The device whose peaks a record is judged by.

use crate::thresholds::{
    DEVICE_CLOCK_MAX_OFF_SHARE, DEVICE_MEMORY_MAX_RATIO, DEVICE_MEMORY_MIN_RATIO,
};
use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::run::RunRecord;
use llmprof_record::trace::DeviceProperties;
use llmprof_theory::device::{Catalog, Device, DeviceKind};

/// The device whose peaks a record is judged by.
#[derive(Default)]
pub struct JudgedDevice {
    pub device: Option<Device>,
    /// Where the trace names or describes a device that is not known: what it says. Where a device is known by its figures alone:
    /// which figures.
    pub issue: Option<Issue>,
}

/// `device` where it is given, the record's own, or the one that its trace names or describes.
pub fn judged_device(record: &RunRecord, device: Option<&Device>) -> JudgedDevice {
    let devices = record.trace().map(|trace| trace.devices.as_slice());
    let devices = devices.unwrap_or_default();
    let mut names = devices.iter().map(|device| &device.name);
    let name = names.find(|name| !name.is_empty());
    if let Some(device) = device.or(record.device.as_ref()) {
        return JudgedDevice {
            issue: name.and_then(|name| other_device(device, name)),
            device: Some(device.clone()),
        };
    }
    let Some(name) = name else {
        return devices.first().map(device_by_figures).unwrap_or_default();
    };
    match Catalog::embedded().by_driver_name(name) {
        Ok(device) => JudgedDevice {
            device: Some(device),
            issue: None,
        },
        Err(_) => JudgedDevice {
            device: None,
            issue: Some(Issue::warning(IssueCode::HardwareUnknown).with("name", name.as_str())),
        },
    }
}

/// That another device was given than the one that the trace names. Names that no device file has may be those of the same one.
fn other_device(given: &Device, recorded: &str) -> Option<Issue> {
    let known = Catalog::embedded().by_driver_name(recorded).ok()?;
    let is_known = Catalog::embedded().by_name(&given.name).is_ok();
    (is_known && known.name != given.name).then(|| {
        Issue::warning(IssueCode::HardwareDiffers)
            .with("recorded", recorded)
            .with("device", given.name.as_str())
    })
}

/// The only device of the catalog with as many multiprocessors and as much memory, and of several the one with the same clock (MI350X
/// and MI355X differ in nothing else). HIP traces often have no name.
fn device_by_figures(properties: &DeviceProperties) -> JudgedDevice {
    let (Some(units), Some(memory)) = (properties.sm_count, properties.memory_bytes) else {
        return JudgedDevice::default();
    };
    let vendor = match properties.warp_size {
        Some(64) => Some("AMD"),
        Some(32) => Some("NVIDIA"),
        _ => None,
    };
    let catalog = Catalog::embedded();
    let fits = |device: &Device| {
        let count = device.units.as_ref().map(|units| units.count.value);
        let capacity = device.memory.capacity_bytes.as_ref();
        let capacity = capacity.map(|capacity| capacity.value.0 as f64);
        device.kind == DeviceKind::Gpu
            && vendor.is_none_or(|vendor| device.vendor == vendor)
            && count == Some(f64::from(units))
            && capacity.is_some_and(|capacity| {
                (DEVICE_MEMORY_MIN_RATIO..=DEVICE_MEMORY_MAX_RATIO)
                    .contains(&(memory.0 as f64 / capacity))
            })
    };
    let entries = catalog.entries();
    let known = entries
        .iter()
        .filter_map(|entry| catalog.by_name(&entry.name).ok());
    let mut candidates: Vec<Device> = known.filter(fits).collect();
    if let Some(clock) = properties.clock_hz.filter(|_| candidates.len() > 1) {
        let near = |device: &Device| {
            let boost = device.clocks_hz.get("boost");
            boost.is_some_and(|boost| {
                (boost.value.0 / clock as f64 - 1.0).abs() < DEVICE_CLOCK_MAX_OFF_SHARE
            })
        };
        candidates.retain(near);
    }
    let figures = |issue: Issue| issue.with("units", units).with("memory_bytes", memory.0);
    match candidates.len() {
        0 => JudgedDevice {
            device: None,
            issue: Some(figures(Issue::warning(IssueCode::HardwareNotDescribed))),
        },
        1 => {
            let device = candidates.pop();
            let name = device.as_ref().map_or("", |device| device.name.as_str());
            let issue = Issue::info(IssueCode::HardwareByFigures).with("device", name);
            JudgedDevice {
                issue: Some(figures(issue)),
                device,
            }
        }
        _ => {
            let names: Vec<&str> = candidates
                .iter()
                .map(|device| device.name.as_str())
                .collect();
            let issue =
                Issue::warning(IssueCode::HardwareAmbiguous).with("devices", names.join(", "));
            JudgedDevice {
                device: None,
                issue: Some(figures(issue)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use llmprof_units::Bytes;

    use super::*;

    fn of(units: u32, memory: u64, warp_size: u32) -> (Option<String>, Option<IssueCode>) {
        let judged = device_by_figures(&DeviceProperties {
            sm_count: Some(units),
            memory_bytes: Some(Bytes(memory)),
            warp_size: Some(warp_size),
            ..DeviceProperties::default()
        });
        let code = judged.issue.map(|issue| issue.code);
        (judged.device.map(|device| device.name), code)
    }

    #[test]
    fn a_device_that_the_trace_does_not_name_is_told() {
        let catalog = Catalog::embedded();
        let a100 = catalog.by_name("a100_sxm_80gb").unwrap();
        let h200 = catalog.by_name("h200").unwrap();
        let told =
            |given: &Device, recorded: &str| other_device(given, recorded).map(|issue| issue.code);
        assert_eq!(told(&a100, "NVIDIA H200"), Some(IssueCode::HardwareDiffers));
        assert_eq!(told(&h200, "NVIDIA H200"), None);
        assert_eq!(told(&a100, "a card nobody knows"), None);
    }

    #[test]
    fn a_device_without_a_name_is_known_by_its_figures() {
        let by_figures = |name: &str| (Some(name.to_owned()), Some(IssueCode::HardwareByFigures));
        // As the driver of an MI300X and that of an H200 give them.
        assert_eq!(of(304, 206_141_652_992, 64), by_figures("mi300x"));
        assert_eq!(of(304, 274_877_906_944, 64), by_figures("mi325x"));
        assert_eq!(of(132, 150_110_011_392, 32), by_figures("h200"));
        // H100 and H800 have the same; nothing has 77 of them.
        let none = |code| (None, Some(code));
        assert_eq!(
            of(132, 85_052_358_656, 32),
            none(IssueCode::HardwareAmbiguous)
        );
        assert_eq!(
            of(77, 85_052_358_656, 32),
            none(IssueCode::HardwareNotDescribed)
        );
        let clocked = |megahertz: u64| {
            let judged = device_by_figures(&DeviceProperties {
                sm_count: Some(256),
                memory_bytes: Some(Bytes(309_220_868_096)),
                warp_size: Some(64),
                clock_hz: Some(megahertz * 1_000_000).filter(|clock| *clock > 0),
                ..DeviceProperties::default()
            });
            judged.device.map(|device| device.name)
        };
        assert_eq!(clocked(2200).as_deref(), Some("mi350x"));
        assert_eq!(clocked(2400).as_deref(), Some("mi355x"));
        assert_eq!(clocked(0), None);
        assert_eq!(clocked(1700), None);
        let nothing = device_by_figures(&DeviceProperties::default());
        assert!(nothing.device.is_none() && nothing.issue.is_none());
    }
}
