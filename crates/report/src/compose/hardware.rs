//! Devices: the catalog, one device with its sources, and kernels that were measured on it.

use std::collections::BTreeMap;
use std::fmt::Display;

use llmprof_predict::calibrate::ClassRatio;
use llmprof_theory::{
    device::{
        CatalogEntry, Device, DeviceCalibration, Figure, Origin, Recount, schema::DeviceFile,
    },
    kernels::KernelClass,
};
use llmprof_units::format_significant;

use crate::text::calibration;
use crate::{Document, Table};

pub fn catalog_table(entries: Vec<CatalogEntry>) -> Table {
    let mut table = Table::new(&["NAME", "DEVICE", "REPORTED BY ITS DRIVER AS"], 3);
    for entry in entries {
        let title = match entry.origin {
            Origin::Embedded => entry.title,
            Origin::File(file) => format!("{} ({file})", entry.title),
        };
        table.row([entry.name, title, entry.driver_names.join(", ")]);
    }
    table
}

/// What a reader of the device should know of its calibration.
fn calibration_notes(calibration: &DeviceCalibration) -> Vec<String> {
    calibration::notes(calibration.excess_disturbance(), calibration.outdone)
}

/// A device with the source of each figure.
pub fn device_page(device: &Device) -> Document {
    let mut document = Document::new(format!("{} ({})", device.title, device.name));
    document.table(figures(device));
    document.section("peaks", "Peaks");
    document.table(peaks(device));
    let mut notes = device.notes.clone();
    notes.extend(device.calibration.iter().flat_map(calibration_notes));
    if !notes.is_empty() {
        document.section("notes", "Notes");
        document.list(notes);
    }
    document
}

fn figures(device: &Device) -> Table {
    fn row<T: Display>(name: impl Into<String>, figure: &Figure<T>) -> [String; 4] {
        [
            name.into(),
            figure.value.to_string(),
            figure.basis.to_string(),
            figure.source.clone(),
        ]
    }
    let mut table = Table::new(&["Figure", "Value", "Basis", "Source"], 4);
    if let Some(units) = &device.units {
        table.row(row(format!("{}s", units.name), &units.count));
    }
    for (name, clock) in &device.clocks_hz {
        table.row(row(format!("{name} clock"), clock));
    }
    if let Some(capacity) = &device.memory.capacity_bytes {
        table.row(row("memory", capacity));
    }
    table.row(row(
        "memory bandwidth",
        &device.memory.bandwidth_bytes_per_s,
    ));
    for cache in &device.caches {
        let size = cache.capacity_bytes.map(|bytes| bytes.to_string());
        let rate = cache.bandwidth_bytes_per_s.map(|rate| rate.to_string());
        let value: Vec<String> = [size, rate].into_iter().flatten().collect();
        table.row([
            cache.level.clone(),
            value.join(", "),
            cache.basis.to_string(),
            cache.source.clone(),
        ]);
    }
    if let Some(power) = &device.power_w {
        table.row(row("power", power));
    }
    table
}

fn peaks(device: &Device) -> Table {
    let mut table = Table::new(
        &[
            "Format",
            "Units",
            "Accumulator",
            "Dense",
            "Sparse",
            "Units × per clock × clock",
            "Basis",
            "Source",
        ],
        8,
    );
    for peak in &device.peaks {
        let recount = match &peak.recount {
            Recount::Factors {
                units,
                operations_per_clock,
                clock_mhz,
                ..
            } => format!("{units} × {operations_per_clock} × {clock_mhz} MHz"),
            Recount::Unknown(why) => why.clone(),
        };
        table.row([
            peak.dtype.to_string(),
            peak.engine.to_string(),
            peak.accumulate
                .map(|dtype| dtype.to_string())
                .unwrap_or_default(),
            peak.dense_flops_per_s.to_string(),
            peak.sparse_flops_per_s
                .map(|rate| rate.to_string())
                .unwrap_or_default(),
            recount,
            peak.basis.to_string(),
            peak.source.clone(),
        ]);
    }
    table
}

/// Kernels that were measured on a device.
pub struct MeasuredKernels<'a> {
    pub kernels: usize,
    pub seconds: f64,
    pub skipped: u64,
    /// Host time of a launch.
    pub host_ns: f64,
    pub graph_kernel_ns: Option<f64>,
    pub graph_launch_ns: Option<f64>,
    /// Bytes per second by place.
    pub copies: &'a BTreeMap<String, f64>,
    /// Kernels that failed, by reason.
    pub failed: &'a BTreeMap<String, u64>,
    /// Curves that were taken from another device.
    pub borrowed: &'a [String],
    /// Measured times ÷ those of the shipped curves.
    pub shipped_ratios: Option<BTreeMap<KernelClass, ClassRatio>>,
}

pub fn kernels_page(measured: &MeasuredKernels<'_>, device: &DeviceFile) -> Document {
    let mut document = Document::new(format!(
        "{} ({}), kernels measured",
        device.title, device.name
    ));
    let mut figures = Table::new(&["Figure", "Value"], 1);
    let mut row = |name: &str, value: String| {
        figures.row([name.to_owned(), value]);
    };
    row("kernels", measured.kernels.to_string());
    row("time", format!("{:.0} s", measured.seconds));
    row("left out", measured.skipped.to_string());
    row(
        "host time of a launch",
        format!("{:.2} µs", measured.host_ns / 1e3),
    );
    if let Some(gap) = measured.graph_kernel_ns {
        row(
            "tiny kernel in a CUDA graph",
            format!("{:.2} µs", gap / 1e3),
        );
    }
    if let Some(launch) = measured.graph_launch_ns {
        row("launch of a CUDA graph", format!("{:.2} µs", launch / 1e3));
    }
    for (place, rate) in measured.copies {
        row(&format!("copy, {place}"), format!("{:.1} GB/s", rate / 1e9));
    }
    document.table(figures);
    if let Some(ratios) = &measured.shipped_ratios {
        document.section("shipped", "Measured here ÷ shipped curves");
        document.table(ratio_table(ratios));
    }
    let mut notes: Vec<String> = measured
        .failed
        .iter()
        .map(|(reason, count)| format!("{count} kernels failed: {reason}"))
        .collect();
    if !measured.borrowed.is_empty() {
        notes.push(format!(
            "not measured here, taken from the H200: {}",
            measured.borrowed.join(", ")
        ));
    }
    if !notes.is_empty() {
        document.section("notes", "Notes");
        document.list(notes);
    }
    document
}

fn ratio_table(ratios: &BTreeMap<KernelClass, ClassRatio>) -> Table {
    let mut table = Table::new(&["Class", "Kernels", "p10", "Median", "p90"], 1);
    for (class, ratio) in ratios {
        table.row([
            class.name().to_owned(),
            ratio.kernels.to_string(),
            format_significant(ratio.p10),
            format_significant(ratio.median),
            format_significant(ratio.p90),
        ]);
    }
    table
}
