//! All that is read of one GPU for one sample.

use std::time::{Duration, Instant};

use llmprof_record::issue::{Issue, Severity};
use llmprof_units::{Bytes, Hertz, Joules, Watts};
use nvml_wrapper::{
    Device, Nvml,
    enum_wrappers::device::{Clock, TemperatureSensor},
    enums::device::SampleValue,
    error::NvmlError,
    structs::device::FieldId,
    sys_exports::field_id::{NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_POWER_INSTANT},
};

use super::{
    processes::{Processes, Usage},
    series::{GpuSample, GpuSeries},
    throttle::ThrottleReasons,
    traffic::{Gpm, PcieMeter, Rates},
};
use crate::clock;

/// What changes slowly, or is averaged by the driver over longer than this, is read this often at most and stands in the
/// samples between. Each question costs the driver of an H200 a few tenths of a millisecond, and it renews its counters
/// of traffic every 100 ms: two readings within that time look like no traffic.
const SLOW: Duration = Duration::from_millis(200);

/// A GPU that is sampled.
pub(super) struct Reader<'nvml> {
    pub(super) device: Device<'nvml>,
    pub(super) series: GpuSeries,
    gpm: Option<Gpm<'nvml>>,
    slow: Option<Slow>,
    /// The energy counter at the first sample, and at the latest.
    energy_mj: Option<(u64, u64)>,
    energy_was_reset: bool,
}

/// What is read now and then.
#[derive(Clone, Copy)]
struct Slow {
    read: Instant,
    memory_clock: Option<Hertz>,
    temperature: Option<f64>,
    memory_temperature: Option<f64>,
    performance_state: Option<u32>,
    usage: Usage,
    rates: Rates,
}

impl<'nvml> Reader<'nvml> {
    pub(super) fn open(nvml: &'nvml Nvml, index: u32) -> Result<Self, NvmlError> {
        let device = nvml.device_by_index(index)?;
        let series = GpuSeries {
            index,
            name: device.name().unwrap_or_default(),
            memory_total_bytes: device.memory_info().ok().map(|info| Bytes(info.total)),
            rows: Vec::new(),
        };
        Ok(Self {
            gpm: Gpm::open(nvml, &device),
            device,
            series,
            slow: None,
            energy_mj: None,
            energy_was_reset: false,
        })
    }

    /// Whether PCIe can only be read by the call that blocks.
    pub(super) fn needs_meter(&self) -> bool {
        self.gpm.is_none()
    }

    /// Takes a sample.
    pub(super) fn read(&mut self, processes: &Processes, worker: Option<u32>, meter: &PcieMeter) {
        // The time belongs to the energy counter, which is read right after it.
        let time_ns = clock::now();
        let counter = self.device.total_energy_consumption().ok();
        let energy_j = counter.and_then(|counter| self.energy_since_start(counter));
        let slow = match self.slow {
            Some(slow) if slow.read.elapsed() < SLOW => slow,
            _ => self.read_slow(processes, worker, meter),
        };
        let device = &self.device;
        let utilization = device.utilization_rates().ok();
        let watts = |milliwatts: f64| Watts(milliwatts * 1e-3);
        self.series.rows.push(GpuSample {
            time_ns,
            energy_j,
            gpu_percent: utilization.as_ref().map(|rates| f64::from(rates.gpu)),
            memory_percent: utilization.as_ref().map(|rates| f64::from(rates.memory)),
            sm_clock_hz: device.clock_info(Clock::SM).ok().map(megahertz),
            power_w: device.power_usage().ok().map(f64::from).map(watts),
            power_instant_w: field(device, NVML_FI_DEV_POWER_INSTANT).map(watts),
            memory_used_bytes: device.memory_info().ok().map(|info| Bytes(info.used)),
            throttle_reasons: device
                .current_throttle_reasons()
                .ok()
                .map(|reasons| ThrottleReasons(reasons.bits())),
            memory_clock_hz: slow.memory_clock,
            temperature_c: slow.temperature,
            memory_temperature_c: slow.memory_temperature,
            performance_state: slow.performance_state,
            worker_gpu_percent: slow.usage.worker_percent,
            other_gpu_percent: slow.usage.other_percent,
            worker_memory_bytes: slow.usage.worker_memory,
            pcie_tx: slow.rates.pcie_tx,
            pcie_rx: slow.rates.pcie_rx,
            nvlink_tx: slow.rates.nvlink_tx,
            nvlink_rx: slow.rates.nvlink_rx,
        });
    }

    fn read_slow(&mut self, processes: &Processes, worker: Option<u32>, meter: &PcieMeter) -> Slow {
        let device = &self.device;
        let rates = match &mut self.gpm {
            // The counters were first read when the device was opened, moments ago: no rate yet.
            Some(_) if self.slow.is_none() => Rates::default(),
            Some(gpm) => gpm.read(device),
            None => meter.latest(),
        };
        let slow = Slow {
            read: Instant::now(),
            memory_clock: device.clock_info(Clock::Memory).ok().map(megahertz),
            temperature: device
                .temperature(TemperatureSensor::Gpu)
                .ok()
                .map(f64::from),
            memory_temperature: field(device, NVML_FI_DEV_MEMORY_TEMP),
            performance_state: device
                .performance_state()
                .ok()
                .map(|state| state.as_c())
                // NVML's number for "unknown" is 32.
                .filter(|&state| state < 16),
            usage: processes.usage(device, worker),
            rates,
        };
        self.slow = Some(slow);
        slow
    }

    /// Joules since the first reading. A counter that went back was reset, with a driver or a GPU that was reset: what it
    /// counted in between is unknown, and so is all that follows.
    fn energy_since_start(&mut self, now: u64) -> Option<Joules> {
        let (first, latest) = *self.energy_mj.get_or_insert((now, now));
        self.energy_was_reset |= now < latest;
        self.energy_mj = Some((first, now));
        (!self.energy_was_reset).then(|| Joules((now - first) as f64 * 1e-3))
    }

    /// What this GPU never told.
    pub(super) fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        let gpu = format!("GPU {} ({})", self.series.index, self.series.name);
        let absent: Vec<&str> = COLUMNS
            .iter()
            .filter(|(_, present)| !self.series.rows.iter().any(present))
            .map(|(name, _)| *name)
            .collect();
        if !absent.is_empty() {
            issues.push(
                Issue::new(
                    Severity::Info,
                    "telemetry.gpu_columns",
                    format!("{gpu} does not tell: {}", absent.join(", ")),
                )
                .counting(absent.len() as u64),
            );
        }
        let has = |column: fn(&GpuSample) -> bool| self.series.rows.iter().any(column);
        if self.energy_was_reset {
            issues.push(Issue::new(
                Severity::Warning,
                "telemetry.gpu_energy_reset",
                format!("the energy counter of {gpu} was reset; energy after that is integrated from power"),
            ));
        } else if !has(|row| row.energy_j.is_some()) && has(|row| row.power_w.is_some()) {
            issues.push(Issue::new(
                Severity::Info,
                "telemetry.gpu_energy_derived",
                format!("{gpu} has no energy counter: its energy is integrated from power, which drivers average over up to a second"),
            ));
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

fn megahertz(clock: u32) -> Hertz {
    Hertz(f64::from(clock) * 1e6)
}

/// A value that has no function of its own.
fn field(device: &Device<'_>, id: u32) -> Option<f64> {
    let values = device.field_values_for(&[FieldId(id)]).ok()?;
    let value = values.into_iter().next()?.ok()?.value.ok()?;
    Some(match value {
        SampleValue::F64(value) => value,
        SampleValue::U32(value) => f64::from(value),
        SampleValue::U64(value) => value as f64,
        SampleValue::I64(value) => value as f64,
    })
}
