use llmprof_capture::calibration::{CalibrationFile, NAME};
use llmprof_report::{Document, Table};
use llmprof_theory::device::{Catalog, Device, Origin, Recount};

use crate::{args::HardwareCommand, calibration, failure::Failure, output::Output, subject};

pub(crate) fn hardware(command: HardwareCommand, output: &mut Output) -> Result<(), Failure> {
    match command {
        HardwareCommand::List { json } => list(json, output),
        HardwareCommand::Measure { output: file } => {
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
                "auto" | NAME => this_cpu()?,
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

/// The processor at hand, as it was measured.
fn this_cpu() -> Result<Device, Failure> {
    calibration::this_cpu()?.ok_or_else(|| {
        Failure::new("this CPU is not calibrated yet")
            .hint("`llmprof hardware measure` does; so does the first run on it".to_owned())
    })
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
    let mut facts = Table::new(&["Figure", "Value", "Basis", "Source"], 4);
    let memory = &device.memory;
    if let Some(units) = &device.units {
        facts.row([
            format!("{}s", units.name),
            units.count.value.to_string(),
            units.count.basis.to_string(),
            units.count.source.clone(),
        ]);
    }
    for (name, clock) in &device.clocks_hz {
        facts.row([
            format!("{name} clock"),
            clock.value.to_string(),
            clock.basis.to_string(),
            clock.source.clone(),
        ]);
    }
    if let Some(capacity) = &memory.capacity_bytes {
        facts.row([
            "memory".to_owned(),
            capacity.value.to_string(),
            capacity.basis.to_string(),
            capacity.source.clone(),
        ]);
    }
    let bandwidth = &memory.bandwidth_bytes_per_s;
    facts.row([
        "memory bandwidth".to_owned(),
        bandwidth.value.to_string(),
        bandwidth.basis.to_string(),
        bandwidth.source.clone(),
    ]);
    for cache in &device.caches {
        let size = cache.capacity_bytes.map(|bytes| bytes.to_string());
        let rate = cache.bandwidth_bytes_per_s.map(|rate| rate.to_string());
        let value: Vec<String> = [size, rate].into_iter().flatten().collect();
        facts.row([
            cache.level.clone(),
            value.join(", "),
            cache.basis.to_string(),
            cache.source.clone(),
        ]);
    }
    if let Some(power) = &device.power_w {
        facts.row([
            "power".to_owned(),
            power.value.to_string(),
            power.basis.to_string(),
            power.source.clone(),
        ]);
    }
    document.table(facts);

    document.section("peaks", "Peaks");
    let mut peaks = Table::new(
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
        peaks.row([
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
    document.table(peaks);
    let mut notes = device.notes.clone();
    notes.extend(device.calibration.iter().flat_map(calibration::notes));
    if !notes.is_empty() {
        document.section("notes", "Notes");
        document.list(notes);
    }
    document
}
