//! What derived numbers rest on, as codes and values.

use llmprof_units::{Basis, DType, FlopsPerSecond};
use serde::{Deserialize, Serialize};

use crate::phase_facts::BetweenSlices;

/// One assumption of an analysis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Assumption {
    /// A multiply-add is two operations.
    MultiplyAdd,
    /// How TTFT, TPOT and ITL are defined.
    Latency,
    /// How confidence intervals and percentiles are computed.
    Intervals,
    /// The formula of MFU.
    Mfu,
    /// The formula of MBU.
    Mbu,
    /// The device whose peaks and bandwidths are used.
    Device {
        name: String,
        title: String,
        basis: Basis,
    },
    /// What the roofline time of an operator is.
    Roofline,
    /// Tokens choose experts uniformly and independently, since nothing says which they chose.
    UniformRouting,
    /// GEMMs run in another dtype than the one that the weights are stored in, whose peak is higher.
    ComputeDtype {
        dtype: DType,
        peak_flops_per_s: FlopsPerSecond,
        stored_dtype: DType,
        stored_peak_flops_per_s: FlopsPerSecond,
    },
    /// When the peaks of this CPU were measured.
    MeasuredPeaks { at: String },
    /// How the worker ran the model: its class, versions of libraries, options, each with its value.
    Worker {
        model_class: String,
        versions: Vec<(String, String)>,
        options: Vec<(String, String)>,
    },
    /// What torch's profiler cost the pass that it recorded, by phase.
    ProfilingOverhead {
        phases: Vec<PhaseOverhead>,
        plain_passes: u64,
    },
    /// Times include the profiler's overhead, since no pass ran without it.
    ProfiledTimes {
        /// The tool that wrote the trace.
        tool: Option<String>,
    },
    /// What steps took between slices, where nothing was recorded: shares, utilization and gains of these phases rest on it.
    BetweenSlices { phases: Vec<PlainPhase> },
}

/// Steps between slices beside recorded ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlainPhase {
    pub phase: String,
    pub steps: BetweenSlices,
}

/// Wall time of a phase with a profiler ÷ without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseOverhead {
    pub phase: String,
    pub ratio: f64,
}
