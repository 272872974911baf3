mod gpu;

use std::fmt::Display;

use llmprof_capture::calibration::{CalibrationFile, NAME};
use llmprof_report::{Document, Table};
use llmprof_theory::device::{Catalog, Device, Figure, Origin, Recount};

use crate::{args::HardwareCommand, calibration, failure::Failure, output::Output, subject};

pub(crate) fn hardware(command: HardwareCommand, output: &mut Output) -> Result<(), Failure> {
    match command {
        HardwareCommand::List { json } => list(json, output),
        HardwareCommand::Measure {
            output: file,
            gpu: true,
            kernels,
        } => gpu::measure(file, &kernels, output),
        HardwareCommand::Measure { output: file, .. } => {
            let is_named = file.is_some();
            let file = file
                .map(CalibrationFile::at)
                .or_else(CalibrationFile::of_this_machine)
                .ok_or_else(|| {
                    Failure::new("no cache directory to write to")
                        .hint("-o FILE names a file".to_owned())
                })?;
            let found = calibration::measure()?;
            if is_named {
                file.write(&found)?;
            } else {
                calibration::keep(&file, &found)?;
            }
            let path = file.path().display();
            let device = file
                .device()?
                .ok_or_else(|| Failure::new(format!("{path} is gone")))?;
            output.document(&document(&device))?;
            output.line(&format!("\nkept in {path}"))
        }
        HardwareCommand::Show { name, json } => {
            let device = match name.as_str() {
                "auto" => subject::device(NAME)?,
                name => subject::device(name)?,
            };
            if json {
                output.json(&device)
            } else {
                output.document(&document(&device))
            }
        }
    }
}

fn list(json: bool, output: &mut Output) -> Result<(), Failure> {
    let entries = Catalog::embedded().entries();
    if json {
        return output.json(&entries);
    }
    let mut table = Table::new(&["NAME", "DEVICE", "REPORTED BY ITS DRIVER AS"], 3);
    for entry in entries {
        let title = match entry.origin {
            Origin::Embedded => entry.title,
            Origin::File(file) => format!("{} ({file})", entry.title),
        };
        table.row([entry.name, title, entry.driver_names.join(", ")]);
    }
    output.table(&table)
}

/// A device with the source of each figure.
fn document(device: &Device) -> Document {
    let mut document = Document::new(format!("{} ({})", device.title, device.name));
    document.table(figures(device));
    document.section("peaks", "Peaks");
    document.table(peaks(device));
    let mut notes = device.notes.clone();
    notes.extend(device.calibration.iter().flat_map(calibration::notes));
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
