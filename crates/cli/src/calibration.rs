//! Calibrating the CPU at hand.

use llmprof_capture::calibration::{
    CalibrationError, CalibrationFile, CalibrationOutcome, calibrate_cpu,
};
use llmprof_record::issue::{Issue, IssueCode};
use llmprof_report::text::calibration as text;
use llmprof_theory::device::{Device, DeviceCalibration, schema::DeviceFile};

use crate::{clock, failure::Failure};

impl From<CalibrationError> for Failure {
    fn from(error: CalibrationError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            CalibrationError::Device(_) => failure.hint(text::AGAIN.to_owned()),
            _ => failure,
        }
    }
}

/// The processor at hand; none where it was never calibrated.
pub(crate) fn this_cpu() -> Result<Option<Device>, Failure> {
    let device = CalibrationFile::of_this_machine().map(|file| file.load_device());
    Ok(device.transpose()?.flatten())
}

/// Calibrates the processor where that was never done. A cache directory that cannot be written
/// is no obstacle: the run goes on without a device, and says so.
pub(crate) fn ensure() -> Result<(), Failure> {
    let Some(file) = CalibrationFile::of_this_machine().filter(|file| !file.is_current()) else {
        return Ok(());
    };
    let _held = file.lock_calibration();
    if file.is_current() {
        return Ok(());
    }
    Failure::new(text::STARTED).warn();
    keep(&file, &measure()?).or_else(|failure| {
        failure.warn();
        Ok(())
    })
}

pub(crate) fn measure() -> Result<DeviceFile, Failure> {
    calibrate_cpu(&clock::now()).map_err(|error| Failure::new(text::failed(&error.to_string())))
}

/// Keeps a calibration if there is no better one.
pub(crate) fn keep(file: &CalibrationFile, new: &DeviceFile) -> Result<(), Failure> {
    let kept = file.keep_better(new)?;
    if let Some(taken) = new
        .calibration
        .as_ref()
        .and_then(DeviceCalibration::excess_disturbance)
    {
        Failure::new(text::disturbed(
            taken,
            matches!(kept, CalibrationOutcome::New),
        ))
        .hint(text::AGAIN_QUIETLY.to_owned())
        .warn();
    }
    Ok(())
}

/// A run was faster than the peaks it was judged by.
pub(crate) fn outdone() -> Result<(), Failure> {
    let news = CalibrationFile::of_this_machine().map(|file| file.mark_outdone());
    if news.transpose()? == Some(true) {
        Failure::new(text::OUTDONE)
            .hint(text::AGAIN_QUIETLY.to_owned())
            .warn();
    }
    Ok(())
}

/// Why the peaks of a calibrated processor should not be trusted. What is reported while they are measured is gone with the terminal,
/// but every figure of a run stands against them.
pub(crate) fn doubt(device: &Device) -> Option<Issue> {
    let taken = device.calibration.as_ref()?.excess_disturbance()?;
    Some(Issue::warning(IssueCode::HardwareDisturbed).with("share", taken))
}

#[cfg(test)]
mod tests {
    use llmprof_theory::device::Catalog;

    use super::*;

    #[test]
    fn peaks_of_a_busy_machine_are_doubted() {
        let mut device = Catalog::embedded().by_name("xeon_8480").unwrap();
        assert_eq!(doubt(&device), None);
        let mut calibration = DeviceCalibration {
            method: 1,
            threads: 2,
            other_programs: Some(0.1),
            outdone: false,
        };
        device.calibration = Some(calibration.clone());
        assert_eq!(doubt(&device), None);
        assert!(text::notes(calibration.excess_disturbance(), calibration.outdone).is_empty());
        calibration.other_programs = Some(0.48);
        calibration.outdone = true;
        device.calibration = Some(calibration.clone());
        let issue = doubt(&device).unwrap();
        assert_eq!(
            (issue.code.as_str(), &issue.values["share"]),
            ("hardware.disturbed", &0.48.into())
        );
        assert_eq!(
            text::notes(calibration.excess_disturbance(), calibration.outdone).len(),
            2
        );
    }
}
