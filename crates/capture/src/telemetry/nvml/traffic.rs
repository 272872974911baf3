//! What a GPU moves over PCIe and NVLink.
//!
//! GPUs since Hopper keep counters of their own (GPM), which an H200 renews every 100 ms: the difference of two samples
//! further apart is a rate by the counters' own times. Older ones have one call that watches PCIe for 20 ms and blocks meanwhile, twice per reading; it gets
//! a thread of its own, so that it neither delays the other columns nor limits their rate. Their NVLinks are not read.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use llmprof_units::BytesPerSecond;
use nvml_wrapper::{
    Device, Nvml,
    enum_wrappers::device::PcieUtilCounter,
    enums::gpm::GpmMetricId,
    gpm::{GpmSample, gpm_metrics_get},
};

use crate::telemetry::pace::Shared;

/// Rates since the reading before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) pcie_tx: Option<BytesPerSecond>,
    pub(super) pcie_rx: Option<BytesPerSecond>,
    pub(super) nvlink_tx: Option<BytesPerSecond>,
    pub(super) nvlink_rx: Option<BytesPerSecond>,
}

const METRICS: [GpmMetricId; 4] = [
    GpmMetricId::PcieTxPerSec,
    GpmMetricId::PcieRxPerSec,
    GpmMetricId::NvlinkTotalTxPerSec,
    GpmMetricId::NvlinkTotalRxPerSec,
];

/// GPM states these rates in MiB/s (nvml.h).
const MEBIBYTE: f64 = 1_048_576.0;

/// The counters of a GPU since Hopper.
#[derive(Debug)]
pub(super) struct Gpm<'nvml> {
    nvml: &'nvml Nvml,
    last: Option<GpmSample<'nvml>>,
}

impl<'nvml> Gpm<'nvml> {
    /// The counters of `device`; `None` where it has none that answer.
    pub(super) fn open_counters(nvml: &'nvml Nvml, device: &Device<'nvml>) -> Option<Self> {
        let supported = device.gpm_support().is_ok_and(|supported| supported);
        let last = supported.then(|| device.gpm_sample().ok()).flatten()?;
        Some(Self {
            nvml,
            last: Some(last),
        })
    }

    pub(super) fn read_rates(&mut self, device: &Device<'nvml>) -> Rates {
        let now = device.gpm_sample().ok();
        let rates = match (&self.last, &now) {
            (Some(before), Some(now)) => gpm_metrics_get(self.nvml, before, now, &METRICS).ok(),
            _ => None,
        };
        if now.is_some() {
            self.last = now;
        }
        let mut rates = rates
            .unwrap_or_default()
            .into_iter()
            .map(|metric| metric.ok().map(|metric| metric.value))
            .map(|value| value.filter(|value| value.is_finite() && *value >= 0.0))
            .map(|value| Some(BytesPerSecond(value? * MEBIBYTE)));
        let mut next = || rates.next().flatten();
        Rates {
            pcie_tx: next(),
            pcie_rx: next(),
            nvlink_tx: next(),
            nvlink_rx: next(),
        }
    }
}

/// The last answer of the call that blocks.
#[derive(Debug, Default)]
pub(super) struct PcieMeter {
    latest: Mutex<Rates>,
}

impl PcieMeter {
    /// Asks until it is time to stop; ends at once where the GPU does not answer.
    pub(super) fn run_meter(&self, device: &Device<'_>, shared: &Shared, period: Duration) {
        let rate = |counter| {
            // NVML says KB and means 1000 bytes or 1024: its documentation does not tell, nvidia-smi prints the number as KB.
            let kilobytes = device.pcie_throughput(counter).ok()?;
            Some(BytesPerSecond(f64::from(kilobytes) * 1e3))
        };
        loop {
            let rates = Rates {
                pcie_tx: rate(PcieUtilCounter::Send),
                pcie_rx: rate(PcieUtilCounter::Receive),
                ..Rates::default()
            };
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = rates;
            if rates == Rates::default() || shared.sleep_until(Instant::now() + period) {
                return;
            }
        }
    }

    pub(super) fn latest_rates(&self) -> Rates {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
