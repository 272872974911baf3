//! What a comparison needs to know of one run: plain numbers, small enough to keep as a baseline.

use std::collections::BTreeMap;

use llmprof_record::run::RunPhase;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mean_pass::MeanPass;

/// One run, or one trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct RunFacts {
    /// What to call it in a comparison.
    pub label: String,
    /// The run directory or file that it was read from.
    pub path: String,
    /// What must be equal for numbers to be comparable: `model`, `device`, `batch`, …. What is not known is absent.
    pub traits: BTreeMap<String, String>,
    /// `plain`, `captured` (a profiler was attached), `load` (a served load), or empty where there are no passes.
    pub measured_in: String,
    /// By metric, one value per pass; per request of a served load.
    pub passes: BTreeMap<String, Vec<f64>>,
    /// By metric, one value per request of all measured passes.
    pub requests: BTreeMap<String, Vec<f64>>,
    /// Phases of the profiled pass.
    pub phases: Vec<PhaseFacts>,
    /// What disturbed the measured passes.
    pub disturbances: Vec<Disturbance>,
    /// The first finding of the run, as its report states it.
    pub first_finding: Option<String>,
    /// Mean SM clock in decode (prefill, where there is none), where telemetry saw it.
    pub sm_clock_mhz: Option<f64>,
}

/// One phase of the profiled pass. Times are ns per step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseFacts {
    /// Name of the phase.
    pub name: String,
    /// Kind of the phase.
    pub phase: RunPhase,
    /// Whether its work is that of a GPU; otherwise of the host's thread.
    pub on_device: bool,
    /// Steps (ranges, where a phase has none) that the times are means of.
    pub steps: u64,
    /// Whether they are steps.
    #[serde(default = "yes")]
    pub has_steps: bool,
    /// Wall time in the profiled pass.
    pub wall_ns: f64,
    /// The same work without a profiler attached.
    pub plain_wall_ns: Option<f64>,
    /// Time with at least one event.
    pub busy_ns: f64,
    /// Time in which the device is idle.
    pub idle_ns: f64,
    /// Time in which events ran at once, counted again for each.
    pub overlap_ns: f64,
    /// Parts of the waterfall by their keys, overlap with its minus sign. They sum to `wall_ns`.
    pub parts: Vec<(String, f64)>,
    /// Idle time by cause.
    pub idle_causes: Vec<(String, f64)>,
    /// Profiled wall time ÷ plain wall time.
    pub overhead_ratio: Option<f64>,
    /// Kernels and copies by canonical name, or operators of a host. They sum to busy + overlap.
    pub work: Vec<WorkRow>,
    /// Operators by place in the model.
    pub operators: Vec<OperatorTime>,
    /// The order in which `work` ran in one range, as indices; cut after a few thousand.
    pub sequence: Vec<u32>,
    /// Lengths of single steps.
    pub step_ns: Vec<f64>,
    /// Sequences and tokens of its passes, where the trace shows them.
    #[serde(default)]
    pub pass_shape: Option<MeanPass>,
}

/// Baselines of before did not say.
fn yes() -> bool {
    true
}

/// All launches of one kernel in a phase, per step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct WorkRow {
    /// Canonical name of a kernel, name of a copy, place of a host's operator.
    pub name: String,
    /// Category of kernels.
    pub category: String,
    /// Calls of a step.
    pub calls: f64,
    /// Time of a step.
    pub time_ns: f64,
    /// Modules or framework operators that launched it, the longest first.
    pub places: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct OperatorTime {
    /// Name of the operator.
    pub name: String,
    /// Kind of operator.
    pub kind: String,
    /// Calls of a step.
    pub calls: f64,
    /// Time of a step.
    pub time_ns: f64,
}

/// Why the times of a run are not those of an undisturbed machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Disturbance {
    /// What disturbed the run.
    pub cause: DisturbanceCause,
    /// Share of the processors, or of the time, from 0 to 1.
    pub share: f64,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum DisturbanceCause {
    /// Other programs used processors that the worker was ready to use.
    ProcessorsShared,
    /// A hypervisor gave processors to other machines.
    ProcessorsStolen,
    /// A control group's quota withheld processors.
    ProcessorsThrottled,
    /// A GPU lowered its clocks for heat or power.
    GpuThrottled,
    /// The SM clock was not that of the other rounds of the same side.
    ClockDeviates,
}

impl RunFacts {
    /// The phase of the same name, else the only one of the same kind.
    pub fn phase_like(&self, other: &PhaseFacts) -> Option<&PhaseFacts> {
        let named = self.phases.iter().find(|phase| phase.name == other.name);
        named.or_else(|| {
            let mut alike = self
                .phases
                .iter()
                .filter(|phase| phase.phase == other.phase && phase.phase != RunPhase::Other);
            alike.next().filter(|_| alike.next().is_none())
        })
    }

    pub fn phase(&self, phase: RunPhase) -> Option<&PhaseFacts> {
        self.phases.iter().find(|found| found.phase == phase)
    }
}
