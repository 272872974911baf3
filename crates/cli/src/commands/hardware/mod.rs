mod gpu;

use llmprof_capture::calibration::{CalibrationFile, THIS_CPU};
use llmprof_report::compose::hardware::{catalog_table, device_page};
use llmprof_theory::device::Catalog;

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
                .map(CalibrationFile::at_path)
                .or_else(CalibrationFile::of_this_machine)
                .ok_or_else(|| {
                    Failure::new("no cache directory to write to")
                        .hint("-o FILE names a file".to_owned())
                })?;
            let device = calibration::measure()?;
            if is_named {
                file.write_file(&device)?;
            } else {
                calibration::keep(&file, &device)?;
            }
            let path = file.path().display();
            let device = file
                .load_device()?
                .ok_or_else(|| Failure::new(format!("{path} is gone")))?;
            output.document(&device_page(&device))?;
            output.line(&format!("\nkept in {path}"))
        }
        HardwareCommand::Show {
            name, yaml: true, ..
        } => {
            let device = subject::device(&name)?;
            let text = Catalog::embedded_text(&device.name).ok_or_else(|| {
                Failure::new(format!("{name} is not built in"))
                    .hint("`llmprof hardware list` shows those that are".to_owned())
            })?;
            output.text(text)
        }
        HardwareCommand::Show { name, json, .. } => {
            let device = match name.as_str() {
                "auto" => subject::device(THIS_CPU)?,
                name => subject::device(name)?,
            };
            if json {
                output.json(&device)
            } else {
                output.document(&device_page(&device))
            }
        }
    }
}

fn list(json: bool, output: &mut Output) -> Result<(), Failure> {
    let entries = Catalog::embedded().entries();
    if json {
        return output.json(&entries);
    }
    output.table(&catalog_table(entries))
}
