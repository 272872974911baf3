use serde::{Deserialize, Serialize};

use super::Kernel;

/// The measured time of one kernel, which curves are fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSample {
    pub kernel: Kernel,
    pub ns: f64,
    /// Whether it ran between other kernels of a layer, not by itself.
    #[serde(default)]
    pub in_model: bool,
}
