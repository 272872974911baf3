//! All that is read of one GPU for one sample.

use std::time::Duration;

use llmprof_record::{
    issue::{Issue, IssueCode},
    samples::{GpuSample, GpuSeries, ThrottleReasons},
};
use llmprof_units::{Bytes, Hertz, Joules, Watts};
use nvml_wrapper::{
    Device, Nvml,
    enum_wrappers::device::{Clock, TemperatureSensor},
    error::NvmlError,
    sys_exports::field_id::{NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_POWER_INSTANT},
};

use super::{
    processes::{Processes, Usage},
    questions::{FAST_PERIOD, Refused, field_value},
    traffic::{Gpm, PcieMeter, Rates},
};
use crate::{
    clock,
    telemetry::kept::{CachedReading, SLOW_PERIOD},
};

/// How often the energy counter is read at most: an H200 renews it every 100 ms, and takes 2.7 ms of processor time to tell it.
const ENERGY_PERIOD: Duration = Duration::from_millis(90);

/// A GPU that is sampled.
pub(super) struct NvmlReader<'nvml> {
    pub(super) device: Device<'nvml>,
    pub(super) series: GpuSeries,
    gpm: Option<Gpm<'nvml>>,
    refused: Refused,
    /// Power as the driver states it, mW.
    power: CachedReading<Option<u32>>,
    load: CachedReading<GpuLoad>,
    slow: CachedReading<SlowReadings>,
    /// Who used it, with the worker that was separated from others.
    usage: CachedReading<(Option<u32>, Usage)>,
    rates: CachedReading<Rates>,
    /// The energy counter of the GPU, mJ.
    counter: CachedReading<Option<u64>>,
    /// The energy counter at the first sample, and at the latest.
    energy_mj: Option<(u64, u64)>,
    energy_was_reset: bool,
}

/// The circumstances of a sample.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// Process id of the worker that is watched.
    pub(super) worker: Option<u32>,
    /// No sample follows: what is old is read once more, so that the end is covered.
    pub(super) is_last: bool,
}

/// What is read every [`FAST_PERIOD`].
#[derive(Clone, Copy)]
struct GpuLoad {
    gpu_percent: Option<f64>,
    memory_percent: Option<f64>,
    memory_used: Option<Bytes>,
}

/// What is read every [`SLOW_PERIOD`].
#[derive(Clone, Copy)]
struct SlowReadings {
    memory_clock: Option<Hertz>,
    temperature: Option<f64>,
    memory_temperature: Option<f64>,
    performance_state: Option<u32>,
}

impl<'nvml> NvmlReader<'nvml> {
    pub(super) fn open_device(nvml: &'nvml Nvml, index: u32) -> Result<Self, NvmlError> {
        let device = nvml.device_by_index(index)?;
        let series = GpuSeries {
            index,
            name: device.name().unwrap_or_default(),
            memory_total_bytes: device.memory_info().ok().map(|info| Bytes(info.total)),
            rows: Vec::new(),
        };
        Ok(Self {
            gpm: Gpm::open_counters(nvml, &device),
            device,
            series,
            refused: Refused::default(),
            power: CachedReading::default(),
            load: CachedReading::default(),
            slow: CachedReading::default(),
            usage: CachedReading::default(),
            rates: CachedReading::default(),
            counter: CachedReading::default(),
            energy_mj: None,
            energy_was_reset: false,
        })
    }

    /// Whether PCIe can only be read by the call that blocks.
    pub(super) fn needs_meter(&self) -> bool {
        self.gpm.is_none()
    }

    pub(super) fn read_sample(&mut self, processes: &Processes, meter: &PcieMeter, moment: Moment) {
        // The time belongs to the energy counter, which is read right after it.
        let time_ns = clock::now();
        let Self {
            device,
            refused,
            counter,
            ..
        } = self;
        let age = if moment.is_last {
            Duration::ZERO
        } else {
            ENERGY_PERIOD
        };
        let counter = counter.renew_after(age, || {
            refused.ask_unless_refused("energy", || device.total_energy_consumption())
        });
        let watts = |milliwatts: f64| Watts(milliwatts * 1e-3);
        let instant = refused.ask_unless_refused("power of the moment", || {
            field_value(device, NVML_FI_DEV_POWER_INSTANT)
        });
        let sm_clock = refused.ask_unless_refused("clock", || device.clock_info(Clock::SM));
        let reasons =
            refused.ask_unless_refused("throttle reasons", || device.current_throttle_reasons());
        let energy_j = counter.and_then(|counter| self.energy_since_start(counter));
        let old = |period: Duration| if moment.is_last { FAST_PERIOD } else { period };
        // Without the power of the moment, energy may have to be integrated from the mean.
        let mean_age = instant.map_or(Duration::ZERO, |_| old(SLOW_PERIOD));
        let power = self.mean_power(mean_age);
        let load = self.read_load();
        let slow = self.read_slow(old(SLOW_PERIOD));
        let usage = self.read_usage(processes, moment.worker, old(SLOW_PERIOD));
        let rates = self.read_rates(meter, old(SLOW_PERIOD));
        self.series.rows.push(GpuSample {
            time_ns,
            energy_j,
            gpu_percent: load.gpu_percent,
            memory_percent: load.memory_percent,
            memory_used_bytes: load.memory_used,
            sm_clock_hz: sm_clock.map(megahertz_of),
            power_w: power.map(f64::from).map(watts),
            power_instant_w: instant.map(watts),
            throttle_reasons: reasons.map(|reasons| ThrottleReasons(reasons.bits())),
            memory_clock_hz: slow.memory_clock,
            temperature_c: slow.temperature,
            memory_temperature_c: slow.memory_temperature,
            performance_state: slow.performance_state,
            worker_gpu_percent: usage.worker_percent,
            other_gpu_percent: usage.other_percent,
            worker_memory_bytes: usage.worker_memory,
            pcie_tx: rates.pcie_tx,
            pcie_rx: rates.pcie_rx,
            nvlink_tx: rates.nvlink_tx,
            nvlink_rx: rates.nvlink_rx,
        });
    }

    fn mean_power(&mut self, most: Duration) -> Option<u32> {
        let Self {
            device, refused, ..
        } = self;
        self.power.renew_after(most, || {
            refused.ask_unless_refused("power", || device.power_usage())
        })
    }

    fn read_load(&mut self) -> GpuLoad {
        let Self {
            device, refused, ..
        } = self;
        self.load.renew_after(FAST_PERIOD, || {
            let rates = refused.ask_unless_refused("utilization", || device.utilization_rates());
            let memory = refused.ask_unless_refused("memory", || device.memory_info());
            GpuLoad {
                gpu_percent: rates.as_ref().map(|rates| f64::from(rates.gpu)),
                memory_percent: rates.as_ref().map(|rates| f64::from(rates.memory)),
                memory_used: memory.map(|info| Bytes(info.used)),
            }
        })
    }

    fn read_slow(&mut self, most: Duration) -> SlowReadings {
        let Self {
            device, refused, ..
        } = self;
        self.slow.renew_after(most, || SlowReadings {
            memory_clock: refused
                .ask_unless_refused("clock of memory", || device.clock_info(Clock::Memory))
                .map(megahertz_of),
            temperature: refused
                .ask_unless_refused("temperature", || device.temperature(TemperatureSensor::Gpu))
                .map(f64::from),
            memory_temperature: refused.ask_unless_refused("temperature of memory", || {
                field_value(device, NVML_FI_DEV_MEMORY_TEMP)
            }),
            performance_state: refused
                .ask_unless_refused("performance state", || device.performance_state())
                .map(|state| state.as_c())
                // NVML's number for "unknown" is 32.
                .filter(|&state| state < 16),
        })
    }

    fn read_usage(&mut self, processes: &Processes, worker: Option<u32>, most: Duration) -> Usage {
        // A worker that was just named is separated from others at once.
        if self
            .usage
            .latest()
            .is_some_and(|(before, _)| before != worker)
        {
            self.usage.forget();
        }
        let Self {
            device, refused, ..
        } = self;
        let read = || (worker, processes.device_usage(device, worker, refused));
        self.usage.renew_after(most, read).1
    }

    fn read_rates(&mut self, meter: &PcieMeter, most: Duration) -> Rates {
        let (device, is_first) = (&self.device, self.rates.latest().is_none());
        match &mut self.gpm {
            Some(gpm) => self.rates.renew_after(most, || {
                // The counters were first read when the device was opened, moments ago: no rate yet.
                if is_first {
                    Rates::default()
                } else {
                    gpm.read_rates(device)
                }
            }),
            None => meter.latest_rates(),
        }
    }

    /// Joules since the first reading. A counter that went back was reset, with a driver or a GPU that was reset: what it
    /// counted in between is unknown, and so is all that follows.
    fn energy_since_start(&mut self, now: u64) -> Option<Joules> {
        let (first, latest) = *self.energy_mj.get_or_insert((now, now));
        self.energy_was_reset |= now < latest;
        self.energy_mj = Some((first, now));
        (!self.energy_was_reset).then(|| Joules((now - first) as f64 * 1e-3))
    }

    /// What this GPU never reported.
    pub(super) fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        let of_gpu = |issue: Issue| {
            issue
                .with("gpu", self.series.index)
                .with("name", self.series.name.clone())
        };
        let absent: Vec<&str> = COLUMNS
            .iter()
            .filter(|(_, present)| !self.series.rows.iter().any(present))
            .map(|(name, _)| *name)
            .collect();
        if !absent.is_empty() {
            issues.push(
                of_gpu(Issue::info(IssueCode::TelemetryGpuColumns))
                    .with("columns", absent.join(", "))
                    .counting(absent.len() as u64),
            );
        }
        let has = |column: fn(&GpuSample) -> bool| self.series.rows.iter().any(column);
        if self.energy_was_reset {
            issues.push(of_gpu(Issue::warning(IssueCode::TelemetryGpuEnergyReset)));
        } else if !has(|row| row.energy_j.is_some()) && has(|row| row.power_w.is_some()) {
            issues.push(of_gpu(Issue::info(IssueCode::TelemetryGpuEnergyDerived)));
        }
        issues
    }
}

type Present = fn(&GpuSample) -> bool;

/// What a GPU may leave out.
const COLUMNS: [(&str, Present); 10] = [
    ("utilization", |row| row.gpu_percent.is_some()),
    ("clocks", |row| row.sm_clock_hz.is_some()),
    ("power", |row| row.power_w.is_some()),
    ("temperature", |row| row.temperature_c.is_some()),
    ("memory", |row| row.memory_used_bytes.is_some()),
    ("throttle reasons", |row| row.throttle_reasons.is_some()),
    ("performance state", |row| row.performance_state.is_some()),
    ("utilization by process", |row| {
        row.other_gpu_percent.is_some()
    }),
    ("PCIe traffic", |row| row.pcie_tx.is_some()),
    ("NVLink traffic", |row| row.nvlink_tx.is_some()),
];

fn megahertz_of(clock: u32) -> Hertz {
    Hertz(f64::from(clock) * 1e6)
}
