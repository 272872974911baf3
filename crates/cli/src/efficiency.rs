//! Efficiency profiles and kernel curves, as predictions and simulations take them.

use std::path::{Path, PathBuf};

use llmprof_predict::{EfficiencyProfile, KernelCurves, ProfileError};
use llmprof_theory::device::Device;
use llmprof_units::{
    Nanos,
    bounded_file::{CONFIG_MAX_BYTES, read_text_bounded},
};

use crate::failure::Failure;

/// The profile of this name, or of the file at this path.
pub(crate) fn profile(name: &str) -> Result<EfficiencyProfile, Failure> {
    let failed = |error: ProfileError| Failure::new(error.to_string());
    if Path::new(name).extension().is_none() {
        return EfficiencyProfile::embedded(name).map_err(failed);
    }
    let text = read_text_bounded(Path::new(name), CONFIG_MAX_BYTES)
        .map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
    EfficiencyProfile::parse_text(&text, name).map_err(failed)
}

/// Where `llmprof hardware measure --gpu` leaves the kernel curves of the device that a file describes.
pub(crate) fn curves_file(device_file: &Path) -> PathBuf {
    device_file.with_extension("curves.json")
}

/// Adds the kernel curves that lie beside the file of a device, where `spec` is such a file and has any.
pub(crate) fn add_curves(
    profile: &mut EfficiencyProfile,
    spec: &str,
    device: &Device,
) -> Result<(), Failure> {
    let file = Path::new(spec);
    let path = curves_file(file);
    // A spec without an extension is a name.
    if file.extension().is_none() || !path.exists() {
        return Ok(());
    }
    let name = path.display().to_string();
    let text = read_text_bounded(&path, CONFIG_MAX_BYTES)
        .map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
    let curves = KernelCurves::parse_text(&text, &name).map_err(Failure::new)?;
    profile.curves.insert(device.name.clone(), curves);
    Ok(())
}

pub(crate) fn nanos(duration: std::time::Duration) -> Nanos {
    Nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}
