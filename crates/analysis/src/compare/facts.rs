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
    /// Traits that must be equal for numbers to be comparable: `model`, `device`, `batch`, …. Unknown traits are absent.
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
    /// Whether the client of a load did not keep up, so that nothing is concluded about the server.
    pub client_was_late: bool,
    /// The first finding of the run, as its report states it.
    pub first_finding: Option<String>,
    /// Mean SM clock in decode, or in prefill of a run without decode; absent without telemetry.
    pub sm_clock_mhz: Option<f64>,
}

/// One phase of the profiled pass. Times are ns per step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseFacts {
    /// Name of the phase as the report shows it.
    pub name: String,
    /// What the model does in the phase: vision, prefill, decode or load.
    pub phase: RunPhase,
    /// Whether its work is that of a GPU; otherwise of the host's thread.
    pub on_device: bool,
    /// Steps (ranges, where a phase has none) that the times are means of.
    pub steps: u64,
    /// Whether `steps` counts steps of the model rather than ranges of the phase.
    #[serde(default = "default_has_steps")]
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
    /// Idle time of each cause, by the cause's code.
    pub idle_causes: Vec<(String, f64)>,
    /// Profiled wall time ÷ plain wall time.
    pub overhead_ratio: Option<f64>,
    /// Kernels and copies by canonical name, or operators of a host. They sum to busy + overlap.
    pub work: Vec<WorkRow>,
    /// Operators by place in the model.
    pub operators: Vec<OperatorTime>,
    /// The order in which `work` ran in one range, as indices; cut after a few thousand.
    pub sequence: Vec<u32>,
    /// Durations of single steps, in order of time; empty where the phase has no steps.
    pub step_ns: Vec<f64>,
    /// Sequences and tokens of its passes, where the trace shows them.
    #[serde(default)]
    pub pass_shape: Option<MeanPass>,
}

/// Baselines written before this key existed were all of steps.
fn default_has_steps() -> bool {
    true
}

/// All launches of one kernel in a phase, per step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
#[serde(default)]
pub struct WorkRow {
    /// Canonical name of a kernel, name of a copy, place of a host's operator.
    pub name: String,
    /// Category of the kernel, copy or operator.
    pub category: String,
    /// Mean number of calls in a step.
    pub calls: f64,
    /// Mean time in a step.
    pub time_ns: f64,
    /// Modules or framework operators that launched it, the longest first.
    pub places: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct OperatorTime {
    /// Path of the operator in the model, or its kind.
    pub name: String,
    /// Kind of the operator, as `linear`.
    pub kind: String,
    /// Mean number of calls in a step.
    pub calls: f64,
    /// Mean time in a step.
    pub time_ns: f64,
}

/// Why the times of a run are not those of an undisturbed machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Disturbance {
    /// What took processors or clock rate from the run.
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
        self.phases.iter().find(|facts| facts.phase == phase)
    }
}
