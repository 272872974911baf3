//! All that is read of one GPU for one sample.

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
    processes::Processes,
    series::{GpuSample, GpuSeries},
    throttle::ThrottleReasons,
    traffic::{Gpm, PcieMeter, Rates},
};
use crate::clock;

/// A GPU that is sampled.
pub(super) struct Reader<'nvml> {
    pub(super) device: Device<'nvml>,
    pub(super) series: GpuSeries,
    gpm: Option<Gpm<'nvml>>,
    /// The energy counter at the first sample, and at the latest.
    energy_mj: Option<(u64, u64)>,
    energy_was_reset: bool,
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
        let device = &self.device;
        // The time belongs to the energy counter, which is read right after it.
        let time_ns = clock::now();
        let counter = device.total_energy_consumption().ok();
        let power = device.power_usage().ok();
        let utilization = device.utilization_rates().ok();
        let megahertz = |clock| Some(Hertz(f64::from(device.clock_info(clock).ok()?) * 1e6));
        let [power_instant, memory_temperature] =
            fields(device, [NVML_FI_DEV_POWER_INSTANT, NVML_FI_DEV_MEMORY_TEMP]);
        let mut sample = GpuSample {
            time_ns,
            gpu_percent: utilization.as_ref().map(|rates| f64::from(rates.gpu)),
            memory_percent: utilization.as_ref().map(|rates| f64::from(rates.memory)),
            sm_clock_hz: megahertz(Clock::SM),
            memory_clock_hz: megahertz(Clock::Memory),
            power_w: power.map(|milliwatts| Watts(f64::from(milliwatts) * 1e-3)),
            power_instant_w: power_instant.map(|milliwatts| Watts(milliwatts * 1e-3)),
            temperature_c: device
                .temperature(TemperatureSensor::Gpu)
                .ok()
                .map(f64::from),
            memory_temperature_c: memory_temperature,
            memory_used_bytes: device.memory_info().ok().map(|info| Bytes(info.used)),
            throttle_reasons: device
                .current_throttle_reasons()
                .ok()
                .map(|reasons| ThrottleReasons(reasons.bits())),
            performance_state: device
                .performance_state()
                .ok()
                .map(|state| state.as_c())
                // NVML's number for "unknown" is 32.
                .filter(|&state| state < 16),
            ..GpuSample::default()
        };
        let usage = processes.usage(device, worker);
        sample.worker_gpu_percent = usage.worker_percent;
        sample.other_gpu_percent = usage.other_percent;
        sample.worker_memory_bytes = usage.worker_memory;
        let rates = match &mut self.gpm {
            // The counters began when the device was opened, moments before the first sample: no rate yet.
            Some(gpm) if self.series.rows.is_empty() => {
                gpm.read(device);
                Rates::default()
            }
            Some(gpm) => gpm.read(device),
            None => meter.latest(),
        };
        sample.pcie_tx = rates.pcie_tx;
        sample.pcie_rx = rates.pcie_rx;
        sample.nvlink_tx = rates.nvlink_tx;
        sample.nvlink_rx = rates.nvlink_rx;
        sample.energy_j = counter.and_then(|counter| self.energy_since_start(counter));
        self.series.rows.push(sample);
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

/// Values that have no function of their own.
fn fields<const N: usize>(device: &Device<'_>, ids: [u32; N]) -> [Option<f64>; N] {
    let ids = ids.map(FieldId);
    let mut values = device
        .field_values_for(&ids)
        .unwrap_or_default()
        .into_iter()
        .map(|field| field.ok()?.value.ok());
    ids.map(|_| {
        values.next().flatten().map(|value| match value {
            SampleValue::F64(value) => value,
            SampleValue::U32(value) => f64::from(value),
            SampleValue::U64(value) => value as f64,
            SampleValue::I64(value) => value as f64,
        })
    })
}
