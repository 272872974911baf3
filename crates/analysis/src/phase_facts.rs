//! What a trace shows of a phase beyond its waterfall.

use llmprof_units::{Basis, Nanos};
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, Measure};
use crate::stats::Distribution;
use crate::waterfall::idle_parts::NamedTime;

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A traced phase on one device, or on the host's thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedPhase {
    /// The device; absent where the work is the host's own.
    pub device: Option<u32>,
    /// Whether no phases were found: then this is all of the trace, the program's start and end included.
    #[serde(default)]
    pub is_whole_trace: bool,
    /// Whether ranges of modules tell operators apart; otherwise kernels do.
    pub by_module: bool,
    /// Whether the recorder knows the operator of every call, as llmprof's own engine does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_identity: bool,
    /// Steps whose batch an engine's label states; the workload says nothing about these.
    #[serde(skip_serializing_if = "is_zero")]
    pub labelled_steps: u64,
    /// How much of it was recorded; absent where all of it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedPart>,
    /// The intervals that were found, in order of time.
    pub instances: Vec<PhaseInstance>,
    /// How long single steps of decode took, where ranges show them.
    pub step_ns: Vec<Nanos>,
    /// Their distribution, ns.
    pub steps: Option<Distribution>,
    /// Kernels, or operators of the host.
    pub kernels: u64,
    /// Kernels that were launched as nodes of CUDA graphs.
    pub graph_kernels: u64,
    /// Kernels beside GEMMs and attention; absent where the device or its kernels are not known.
    pub glue: Option<Glue>,
    /// Time of events whose module is known; absent without ranges of modules.
    pub in_modules_ns: Option<Nanos>,
    /// The operators that the host was longest in while the device waited for it.
    pub host_operators: Vec<NamedTime>,
    /// Waits before attention kernels that are far above the usual.
    pub new_lengths: Option<NewLengths>,
    /// The first interval, where it is left out because it took longer for the same work.
    pub first_use: Option<FirstInstance>,
    /// Part of the busy time in kernels with fewer blocks than the device has multiprocessors.
    pub small_kernel_share: Option<f64>,
    /// Part of the wall time in which devices exchanged data and computed nothing.
    pub exposed_communication_share: Option<f64>,
}

/// Kernels beside GEMMs, convolutions and attention: norms, RoPE, activations, additions, copies, index work. They are
/// small and many unless a compiler fuses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Glue {
    /// How many.
    pub kernels: u64,
    /// Their time.
    pub time_ns: Nanos,
    /// How many of them a compiler has fused already.
    pub fused: u64,
}

/// One interval of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseInstance {
    /// When it begins on the clock of the trace.
    pub start_ns: Nanos,
    /// How long it lasts.
    pub wall_ns: Nanos,
    /// The sum of the times of its events, clipped to it.
    pub sum_ns: Nanos,
    /// Whether it is left out of the phase: the first use.
    pub left_out: bool,
}

/// Waits before attention kernels that are far above the usual: the first use of a length of the KV cache, for which a
/// library plans or compiles a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewLengths {
    /// How many.
    pub waits: u64,
    /// Their time beyond the usual.
    pub time_ns: Nanos,
    /// The usual wait before an attention kernel.
    pub usual_ns: Nanos,
}

impl NewLengths {
    /// The mean wait beyond the usual.
    pub fn mean(&self) -> Nanos {
        Nanos(self.time_ns.0 / (self.waits.max(1) as i64))
    }

    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        vec![
            Evidence::new(
                Measure::AttentionWaits,
                self.waits as f64,
                "waits",
                Basis::Measured,
            ),
            Evidence::time(Measure::AttentionWaitTime, self.time_ns, Basis::Measured),
            Evidence::time(Measure::UsualAttentionWait, self.usual_ns, Basis::Measured),
        ]
    }
}

/// A first interval that took longer than the later ones for the same work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstInstance {
    /// How long it took.
    pub wall_ns: Nanos,
    /// The mean of the later ones, ns.
    pub later_ns: f64,
    /// What new lengths cost in it.
    pub new_lengths: Option<NewLengths>,
}

/// The part of a phase that was recorded in slices. All figures of the phase are of this part: what lies between slices
/// counts nowhere, least of all as idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPart {
    /// Steps of decode that were recorded whole, without those that are left out as first use; absent where nothing shows
    /// steps.
    pub steps: Option<u64>,
    /// Steps of decode in all; absent where no range shows them.
    pub of_steps: Option<u64>,
    /// The time of what was recorded and not left out.
    pub time_ns: Nanos,
    /// The time of the phase in all.
    pub of_ns: Nanos,
}
