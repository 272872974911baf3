//! GPUs, as NVIDIA's management library tells.
//!
//! The library is loaded at run time. Without it there is one [`Issue`] and no failure; what a GPU does not tell stays
//! absent.

mod device;
mod facts;
mod library;
mod power_limit;
mod processes;
mod questions;
mod traffic;

use std::{path::PathBuf, thread, time::Duration};

use llmprof_record::{
    issue::{Issue, IssueCode},
    samples::{GpuSeries, Samples},
};
use llmprof_units::Nanos;

pub use self::{
    facts::gpu_facts,
    library::NvmlUnavailable,
    power_limit::{PowerLimit, RESTORE, stand_guard},
};

use self::{
    device::{Moment, NvmlReader},
    library::LIBRARY_VARIABLE,
    processes::Processes,
    traffic::PcieMeter,
};
use super::{
    kept::SLOW_PERIOD,
    pace::{self, Shared},
};
use crate::clock;

const NO_GPU: IssueCode = IssueCode::TelemetryNoGpu;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Gpus {
    #[default]
    None,
    All,
    /// Those of these numbers, as NVML counts.
    Chosen(Vec<u32>),
}

impl Gpus {
    /// As a request says it: all where it names none, none where it names an empty list.
    pub fn requested(devices: Option<&[u32]>) -> Self {
        match devices {
            None => Self::All,
            Some([]) => Self::None,
            Some(devices) => Self::Chosen(devices.to_vec()),
        }
    }
}

/// What the thread that reads GPUs saw.
#[derive(Debug, Default)]
pub(super) struct GpuSamples {
    pub(super) gpus: Vec<GpuSeries>,
    pub(super) cost_ns: Nanos,
    pub(super) issues: Vec<Issue>,
}

impl GpuSamples {
    /// Whether there is no GPU that it could read.
    pub(super) fn is_without_gpus(&self) -> bool {
        self.issues.iter().any(|issue| issue.code == NO_GPU)
    }

    /// Adds it to what was seen of the host.
    pub(super) fn join_into(self, samples: &mut Samples) {
        samples.gpus = self.gpus;
        samples.cost_ns += self.cost_ns;
        samples.issues.extend(self.issues);
    }
}

/// Samples GPUs until it is time to stop.
pub(super) fn sample_gpus(
    shared: &Shared,
    period: Duration,
    gpus: &Gpus,
    library: Option<&PathBuf>,
) -> GpuSamples {
    let mut samples = GpuSamples::default();
    let nvml = match library::load_nvml(library) {
        Ok(nvml) => nvml,
        Err(error) => {
            samples.issues.push(no_gpu(&error.to_string()));
            return samples;
        }
    };
    let count = nvml.device_count().unwrap_or(0);
    if count == 0 {
        samples.issues.push(no_gpu("the driver knows no GPU"));
        return samples;
    }
    let mut readers = Vec::new();
    for index in wanted_gpus(gpus, count) {
        match NvmlReader::open_device(&nvml, index) {
            Ok(reader) => readers.push((reader, PcieMeter::default())),
            Err(error) => samples
                .issues
                .push(unreadable_gpu(index, count, &error.to_string())),
        }
    }
    if !readers.is_empty() {
        let (missed, metering) = read_all(shared, period, &mut readers);
        samples.issues.extend(pace::missed_samples("GPUs", missed));
        samples.cost_ns += metering;
    }
    for (reader, _) in readers {
        samples.issues.extend(reader.issues());
        samples.gpus.push(reader.series);
    }
    samples.cost_ns += clock::thread_cpu_time();
    samples
}

/// Reads all GPUs at every deadline; the answer is how many deadlines were missed, and the processor time of other threads that
/// read as well.
fn read_all(
    shared: &Shared,
    period: Duration,
    readers: &mut [(NvmlReader<'_>, PcieMeter)],
) -> (u64, Nanos) {
    let processes = Processes::new("/proc".into());
    let metered: Vec<_> = readers
        .iter()
        .enumerate()
        .filter(|(_, (reader, _))| reader.needs_meter())
        .map(|(position, (reader, _))| {
            (
                position,
                reader.device.nvml().device_by_index(reader.series.index),
            )
        })
        .filter_map(|(position, device)| Some((position, device.ok()?)))
        .collect();
    let (mut readers, meters): (Vec<_>, Vec<_>) = readers
        .iter_mut()
        .map(|(reader, meter)| (reader, &*meter))
        .unzip();
    thread::scope(|scope| {
        // Without such a thread the columns of PCIe stay empty, which is said at the end.
        let threads: Vec<_> = metered
            .iter()
            .filter_map(|(position, device)| {
                let meter = meters[*position];
                thread::Builder::new()
                    .name("telemetry-pcie".to_owned())
                    .spawn_scoped(scope, move || {
                        meter.run_meter(device, shared, period.max(SLOW_PERIOD));
                        clock::thread_cpu_time()
                    })
                    .ok()
            })
            .collect();
        let missed = pace::keep_pace(shared, period, |worker| {
            let moment = Moment {
                worker,
                is_last: shared.is_stopping(),
            };
            for (reader, meter) in readers.iter_mut().zip(&meters) {
                reader.read_sample(&processes, meter, moment);
            }
        });
        let times = threads.into_iter().filter_map(|thread| thread.join().ok());
        (missed, times.fold(Nanos(0), |sum, time| sum + time))
    })
}

/// The numbers of the GPUs to read, each once, in order.
pub(super) fn wanted_gpus(gpus: &Gpus, count: u32) -> Vec<u32> {
    match gpus {
        Gpus::None => Vec::new(),
        Gpus::All => (0..count).collect(),
        Gpus::Chosen(chosen) => {
            let mut chosen = chosen.clone();
            chosen.sort_unstable();
            chosen.dedup();
            chosen
        }
    }
}

fn no_gpu(reason: &str) -> Issue {
    Issue::info(NO_GPU)
        .with("reason", reason)
        .with("variable", LIBRARY_VARIABLE)
}

fn unreadable_gpu(index: u32, count: u32, error: &str) -> Issue {
    if index >= count {
        return Issue::warning(IssueCode::TelemetryGpuMissing)
            .with("gpu", index)
            .with("gpus", count);
    }
    Issue::warning(IssueCode::TelemetryGpuUnreadable)
        .with("gpu", index)
        .with("error", error)
}

#[cfg(test)]
mod tests {
    use llmprof_record::samples::{ThrottleReason, ThrottleReasons};
    use nvml_wrapper::bitmasks::device::ThrottleReasons as Vendor;

    use super::*;

    #[test]
    fn bits_are_those_of_nvml() {
        let pairs = [
            (Vendor::GPU_IDLE, ThrottleReason::GpuIdle),
            (
                Vendor::APPLICATIONS_CLOCKS_SETTING,
                ThrottleReason::ApplicationClocks,
            ),
            (Vendor::SW_POWER_CAP, ThrottleReason::SoftwarePowerCap),
            (Vendor::HW_SLOWDOWN, ThrottleReason::HardwareSlowdown),
            (Vendor::SYNC_BOOST, ThrottleReason::SyncBoost),
            (Vendor::SW_THERMAL_SLOWDOWN, ThrottleReason::SoftwareThermal),
            (Vendor::HW_THERMAL_SLOWDOWN, ThrottleReason::HardwareThermal),
            (
                Vendor::HW_POWER_BRAKE_SLOWDOWN,
                ThrottleReason::HardwarePowerBrake,
            ),
            (Vendor::DISPLAY_CLOCK_SETTING, ThrottleReason::DisplayClocks),
        ];
        for (vendor, ours) in pairs {
            let reasons: Vec<_> = ThrottleReasons(vendor.bits()).iter().collect();
            assert_eq!(reasons, [ours]);
        }
        let covered = pairs
            .iter()
            .fold(0, |bits, (vendor, _)| bits | vendor.bits());
        assert_eq!(covered, Vendor::all().bits());
    }

    #[test]
    fn gpus_are_read_once_each_in_order() {
        assert_eq!(wanted_gpus(&Gpus::requested(None), 3), [0, 1, 2]);
        assert_eq!(wanted_gpus(&Gpus::requested(Some(&[2, 0, 2])), 3), [0, 2]);
        assert_eq!(Gpus::requested(Some(&[])), Gpus::None);
        assert_eq!(
            unreadable_gpu(7, 2, "x").code,
            IssueCode::TelemetryGpuMissing
        );
        assert_eq!(
            unreadable_gpu(1, 2, "x").code,
            IssueCode::TelemetryGpuUnreadable
        );
    }
}
