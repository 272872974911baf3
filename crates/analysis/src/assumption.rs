//! What derived numbers rest on, as codes and values.

use llmprof_units::{Basis, DType, FlopsPerSecond};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::phase_facts::BetweenSlices;

/// One assumption of an analysis.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
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
        /// Name of the device.
        name: String,
        /// Full name of the device.
        title: String,
        /// How its peaks are known.
        basis: Basis,
    },
    /// What the roofline time of an operator is.
    Roofline,
    /// Tokens choose experts uniformly and independently, since nothing says which they chose.
    UniformRouting,
    /// GEMMs run in another dtype than the one that the weights are stored in, whose peak is higher.
    ComputeDtype {
        /// Number format in which GEMMs run.
        dtype: DType,
        /// Peak in that format.
        peak_flops_per_s: FlopsPerSecond,
        /// Number format of the stored weights.
        stored_dtype: DType,
        /// Peak in the format of the weights.
        stored_peak_flops_per_s: FlopsPerSecond,
    },
    /// When the peaks of this CPU were measured.
    MeasuredPeaks {
        /// When they were measured, UTC.
        at: String,
    },
    /// How the worker ran the model: its class, versions of libraries, options, each with its value.
    Worker {
        /// Python class of the model.
        model_class: String,
        /// Versions of libraries, each with its name.
        versions: Vec<(String, String)>,
        /// Options of the run, each with its name.
        options: Vec<(String, String)>,
    },
    /// What torch's profiler cost the pass that it recorded, by phase.
    ProfilingOverhead {
        /// Overhead by phase.
        phases: Vec<PhaseOverhead>,
        /// Passes without a profiler.
        plain_passes: u64,
    },
    /// Times include the profiler's overhead, since no pass ran without it.
    ProfiledTimes {
        /// The tool that wrote the trace.
        tool: Option<String>,
        /// Whether the trace has no device events: what is known of GPU programs says nothing of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        on_host: bool,
    },
    /// What steps took between slices, where nothing was recorded: shares, utilization and gains of these phases rest on it.
    BetweenSlices {
        /// Overhead by phase.
        phases: Vec<PlainPhase>,
    },
}

/// Steps between slices beside recorded ones.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PlainPhase {
    /// Name of the phase.
    pub phase: String,
    /// Steps between slices.
    pub steps: BetweenSlices,
}

/// Wall time of a phase with a profiler ÷ without.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseOverhead {
    /// Name of the phase.
    pub phase: String,
    /// Recorded ÷ plain wall time.
    pub ratio: f64,
}
