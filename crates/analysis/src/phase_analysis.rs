//! One phase of a captured pass, joined with what theory counts for it.

use llmprof_record::run::RunPhase;
use llmprof_theory::roofline::PhaseRoofline;
use llmprof_units::{Basis, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bottleneck::Classification;
use crate::matching::{MissingOperator, OperatorGroup, UnmatchedOperator};
use crate::phase_facts::TracedPhase;
use crate::roofline::{Residence, Utilization};
use crate::waterfall::Waterfall;

/// What one phase did.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct PhaseAnalysis {
    /// The phase.
    pub phase: RunPhase,
    /// What to call it, where the phase's own name does not tell: a range of the program, one of several devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Where the time of the captured pass went.
    pub waterfall: Waterfall,
    /// Mean wall time of the whole phase in passes without capture; absent where there are none. What the recorded work takes
    /// unrecorded is [`Self::unrecorded_wall`].
    pub plain_wall_ns: Option<Nanos>,
    /// Profiling overhead: wall time of the captured pass ÷ the mean of the same work in passes without capture; where there are
    /// no such passes, the median step inside slices ÷ the median step between them ([`TracedPhase::between_slices`]).
    pub capture_ratio: Option<f64>,
    /// The least time of all operators that theory counts, whether they ran or not; absent without a device.
    pub roofline: Option<PhaseRoofline>,
    /// How much of the device the captured pass used.
    pub utilization: Option<Utilization>,
    /// The same in [`Self::unrecorded_wall`].
    pub plain_utilization: Option<Utilization>,
    /// Where the bytes of a step can stay.
    pub residence: Option<Residence>,
    /// What holds it back.
    pub class: Classification,
    /// Calls that were matched.
    pub matched_calls: u64,
    /// Matched operators by kind, the longest first.
    pub by_kind: Vec<OperatorGroup>,
    /// Matched operators by place in the model, the longest first.
    pub by_path: Vec<OperatorGroup>,
    /// Operators that ran and are not matched.
    pub unmatched: Vec<UnmatchedOperator>,
    /// Operators that theory counts and that did not run.
    pub missing: Vec<MissingOperator>,
    /// `counted`, or how else the work is known where random routing decides.
    pub basis: Basis,
    /// The most experts that its kernels can have read in their time, mean of a layer and step; given where that is fewer than uniform
    /// routing expects. Minimum DRAM traffic, roofline times and MBU are then upper bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts_at_most: Option<f64>,
    /// What a trace shows beyond that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<TracedPhase>,
}

impl PhaseAnalysis {
    /// What to call it.
    pub fn name(&self) -> &str {
        self.label.as_deref().unwrap_or(self.phase.name())
    }

    /// The wall time that gains are judged by. A device works as long whoever watches it, but watching slows the host down: a
    /// phase of a device is judged by the passes without capture where there are some, any other by the captured pass,
    /// whose parts are what could be saved.
    pub fn judged_wall(&self) -> Nanos {
        let plain = self.unrecorded_wall().filter(|_| self.device().is_some());
        plain.unwrap_or(self.waterfall.wall_ns)
    }

    /// What the recorded work takes unrecorded, by [`Self::capture_ratio`]: it may be less than all that plain passes did.
    pub fn unrecorded_wall(&self) -> Option<Nanos> {
        let ratio = self.capture_ratio.filter(|ratio| *ratio > 0.0)?;
        Some(Nanos(
            (self.waterfall.wall_ns.0 as f64 / ratio).round() as i64
        ))
    }

    /// The wall time of the whole phase: the mean of passes without capture; of a phase that was sampled in slices all of its
    /// time; else that of the captured pass.
    pub fn whole_wall(&self) -> Nanos {
        let sampled = || Some(self.traced.as_ref()?.recorded?.of_ns);
        let whole = self.plain_wall_ns.or_else(sampled);
        whole.unwrap_or(self.waterfall.wall_ns)
    }

    /// How many times the judged work the whole phase is: passes without capture may have more batches or steps, and slices hold
    /// a part of them.
    pub(crate) fn whole_over_captured(&self) -> f64 {
        let judged = match self.plain_wall_ns {
            Some(_) => self.unrecorded_wall().unwrap_or(Nanos(0)),
            None => self.judged_wall(),
        };
        if judged.0 > 0 {
            self.whole_wall().0 as f64 / judged.0 as f64
        } else {
            1.0
        }
    }

    /// The idle time of that wall time.
    pub fn judged_idle(&self) -> Nanos {
        if self.judged_wall() == self.waterfall.wall_ns {
            self.waterfall.idle_ns
        } else {
            Nanos((self.judged_wall().0 - self.waterfall.busy_ns.0).max(0))
        }
    }

    /// A time of the captured pass as a part of the wall time that gains are judged by.
    pub fn judged_share(&self, part: Nanos) -> f64 {
        part.0 as f64 / self.judged_wall().0.max(1) as f64
    }

    /// The part of the captured pass's idle time that has one of these names, from 0 to 1.
    pub(crate) fn idle_part(&self, names: &[&str]) -> f64 {
        self.waterfall.idle_part(names)
    }

    /// The device whose events it is made of; absent for the host.
    pub fn device(&self) -> Option<u32> {
        self.traced.as_ref()?.device
    }

    /// Whether kernels of recorded launches are not in the trace: time without a kernel need not be idle then.
    pub fn misses_kernels(&self) -> bool {
        let traced = self.traced.as_ref();
        traced.is_some_and(|traced| traced.missing_kernels > 0)
    }

    /// Whether operators are classified by kernel name alone, so that groups are sets of kinds.
    pub fn by_kernels(&self) -> bool {
        self.traced.as_ref().is_some_and(|traced| !traced.by_module)
    }
}
