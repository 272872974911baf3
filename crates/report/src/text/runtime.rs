//! What ran the model.

use llmprof_theory::device::Catalog;
use llmprof_units::Nanos;

use crate::analyzed::{Analysis, Framework, TraceAnalysis};

/// What ran the model: a knob is something that the runtime has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime {
    Native,
    PyTorchOnCpu,
    /// A GPU that is driven by CUDA.
    Gpu(Framework),
    /// A GPU that is driven by HIP.
    Hip(Framework),
    /// A GPU or accelerator with an API of its own (Level Zero, MTIA).
    Other(Framework),
}

impl Runtime {
    pub(crate) fn from_analysis(analysis: &Analysis) -> Self {
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
                Self::of_device(timeline, analysis.device.as_deref())
            }
            Some(_) => Self::PyTorchOnCpu,
        }
    }

    /// By the calls that were recorded; without any, by the vendor of the device.
    fn of_device(timeline: &TraceAnalysis, device: Option<&str>) -> Self {
        let framework = timeline.framework;
        let calls = |prefix: &str| {
            let mut calls = timeline.api.iter();
            calls.any(|call| call.name.starts_with(prefix))
        };
        if calls("hip") {
            return Self::Hip(framework);
        }
        if calls("cu") {
            return Self::Gpu(framework);
        }
        if !timeline.api.is_empty() {
            return Self::Other(framework);
        }
        let device = device.and_then(|name| Catalog::embedded().by_name(name).ok());
        match device.as_ref().map(|device| device.vendor.as_str()) {
            Some("AMD") => Self::Hip(framework),
            Some("NVIDIA") | None => Self::Gpu(framework),
            Some(_) => Self::Other(framework),
        }
    }
}
