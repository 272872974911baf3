use serde::{Deserialize, Serialize};

use super::Kernel;

/// What one kernel took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSample {
    pub kernel: Kernel,
    pub ns: f64,
    /// Whether it ran between other kernels of a layer, not by itself.
    #[serde(default)]
    pub in_model: bool,
}
