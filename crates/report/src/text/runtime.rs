//! What ran the model.

use llmprof_units::Nanos;

use crate::analyzed::{Analysis, Framework};

/// What ran the model: a knob is something that the runtime has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    Native,
    PyTorchOnCpu,
    Gpu(Framework),
    /// A GPU that is driven by HIP.
    Hip(Framework),
}

impl Runtime {
    pub(crate) fn of(analysis: &Analysis) -> Self {
        // llmprof's own engine alone knows the operator of every call.
        let traced = analysis
            .phases
            .iter()
            .filter_map(|phase| phase.traced.as_ref());
        if traced.into_iter().any(|traced| traced.by_identity) {
            return Self::Native;
        }
        match &analysis.timeline {
            None => Self::Native,
            Some(timeline) if timeline.totals.device_time_ns > Nanos(0) => {
                if timeline.api.iter().any(|call| call.name.starts_with("hip")) {
                    Self::Hip(timeline.framework)
                } else {
                    Self::Gpu(timeline.framework)
                }
            }
            Some(_) => Self::PyTorchOnCpu,
        }
    }
}
