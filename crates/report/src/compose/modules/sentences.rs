//! Modules, source lines and GEMM shapes.

use llmprof_units::{Nanos, Percent};

pub(super) fn basis(in_modules: Nanos, whole: Nanos) -> String {
    let share = Percent(in_modules.0 as f64 / whole.0.max(1) as f64);
    format!(
        "`nn.Module` calls are recorded: {in_modules} of device time ({share}) was launched inside modules."
    )
}

pub(super) fn icicle() -> &'static str {
    "Device time by module"
}

pub(super) fn heat_map(layers: &str) -> String {
    format!("Device time by op and {layers}")
}

/// What the table of functions says.
pub(super) fn source_basis(listed: Nanos) -> String {
    format!(
        "GPU idle time up to the call that ends a gap, by the Python function the launching thread was in ({listed} in all). Frames of torch \
         and built-in functions count for their caller. The line is where the function begins."
    )
}

/// What the columns of GEMMs mean.
pub(super) fn gemm_basis() -> &'static str {
    "GEMMs by the shapes that PyTorch recorded: B matrices of M × K times K × N. FLOPs are 2·B·M·N·K; bytes are each input and output once. \
     % of roofline is roofline time ÷ device time."
}
