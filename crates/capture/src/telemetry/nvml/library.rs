//! NVIDIA's management library, found at run time.

use std::{ffi::OsString, path::PathBuf};

use nvml_wrapper::{Nvml, error::NvmlError};

/// Names another library than the system's, for drivers in unusual places and for tests.
pub(crate) const LIBRARY_VARIABLE: &str = "LLMPROF_NVML";

/// What the loader finds on any machine with a driver.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Why there is no NVML.
#[derive(Debug, thiserror::Error)]
pub enum NvmlUnavailable {
    /// There is no such library.
    #[error("{library} cannot be loaded: no NVIDIA driver installed")]
    NoLibrary { library: String },
    /// It is there but does not work.
    #[error("{library} does not start: {source}")]
    NoDriver { library: String, source: NvmlError },
}

/// Loads and starts NVML: the library at `path`, or the one that [`LIBRARY_VARIABLE`] names, or the system's.
pub(crate) fn load_nvml(path: Option<&PathBuf>) -> Result<Nvml, NvmlUnavailable> {
    let library = path.map_or_else(
        || std::env::var_os(LIBRARY_VARIABLE).unwrap_or_else(|| LIBRARY.into()),
        OsString::from,
    );
    Nvml::builder().lib_path(&library).init().map_err(|source| {
        let library = library.to_string_lossy().into_owned();
        match source {
            NvmlError::LibloadingError(_) => NvmlUnavailable::NoLibrary { library },
            source => NvmlUnavailable::NoDriver { library, source },
        }
    })
}
