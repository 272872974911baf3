//! Causes: what was done and need not be. Each file looks for one kind and gives its evidence and the [`Edit`] of the timeline
//! that removes it; the gain is the replay with that edit.

mod adapters;
mod allocator;
mod attention;
mod autograd;
mod blocking;
mod cause;
mod chunks;
mod combined_passes;
mod communication;
mod contention;
mod copies;
mod device_copies;
mod diagnose;
mod dispatch_modes;
mod dropout;
mod estimate;
mod expert_loop;
mod experts;
mod fills;
mod forwards;
mod gathered_weights;
mod gemm_format;
mod gemms;
mod graph_captures;
mod graph_nodes;
#[cfg(test)]
mod healthy_programs;
mod host_calls;
mod host_code;
mod host_ops;
mod kernel_elements;
mod kv_copies;
mod launch_bound;
mod layout_conversions;
mod logits;
mod masked_attention;
mod model_work;
mod open_scene;
mod operator_loops;
mod other_work;
mod pauses;
mod pinned_memory;
mod recomputed;
mod repeated_passes;
mod repeated_tables;
mod repeated_work;
mod scene;
mod shapes;
#[cfg(test)]
mod sketch;
mod sorting;
mod stacks;
mod subject;
mod sync;
mod unaligned_gemms;
mod unfused;
mod unused_span;
mod weight_casts;
mod wide_ops;

pub use self::cause::{Cause, CauseKind, PhaseGain, Place};
pub use self::diagnose::{Diagnosis, PhaseInput, PhaseReplay, diagnose};
use self::scene::Scene;
pub use self::subject::Subject;
use crate::replay::Edit;

/// A cause in one phase before its gain is known.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) kind: CauseKind,
    pub(crate) place: Place,
    /// How often in the phase.
    pub(crate) count: u64,
    /// Removes it.
    pub(crate) edit: Edit,
    /// Another way to remove it, which widens the range: copies made asynchronous instead of dropped.
    pub(crate) partial: Option<Edit>,
}

/// What a program is known to be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    GeneratesText,
    /// A model reads tokens: what its tensors are for afterwards is not known.
    ReadsTokens,
    /// Launches repeat; what looks needless may be what the program is for, but the device need not wait for a host that calls
    /// nothing.
    Unknown,
}

impl Purpose {
    fn searches(self) -> &'static [fn(&Scene<'_>) -> Vec<Candidate>] {
        match self {
            Self::GeneratesText => SEARCHES,
            Self::ReadsTokens => SEARCHES_OF_TOKEN_READERS,
            Self::Unknown => SEARCHES_OF_ANY_PROGRAM,
        }
    }
}

/// Without those that know what the logits, the mask and the passes of text generation are for.
const SEARCHES_OF_TOKEN_READERS: &[fn(&Scene<'_>) -> Vec<Candidate>] = &[
    sync::find,
    autograd::find,
    dispatch_modes::find,
    copies::find,
    contention::find,
    host_code::find,
    host_calls::find,
    host_ops::find,
    pinned_memory::find,
    graph_captures::find,
    allocator::find,
    blocking::find,
    gemm_format::find,
    unaligned_gemms::find,
    weight_casts::find,
    adapters::find,
    gathered_weights::find,
    attention::find,
    wide_ops::find,
    expert_loop::find,
    fills::find,
    device_copies::find,
    dropout::find,
    layout_conversions::find,
    graph_nodes::find,
    operator_loops::find,
    repeated_tables::find,
    combined_passes::find,
    sorting::find,
    other_work::find,
    unfused::find,
    launch_bound::find,
];

const SEARCHES_OF_ANY_PROGRAM: &[fn(&Scene<'_>) -> Vec<Candidate>] = &[
    contention::find,
    host_code::find,
    host_calls::find,
    blocking::find,
    launch_bound::find,
];

/// The searches, one per kind of cause.
const SEARCHES: &[fn(&Scene<'_>) -> Vec<Candidate>] = &[
    sync::find,
    autograd::find,
    dispatch_modes::find,
    copies::find,
    contention::find,
    host_code::find,
    host_calls::find,
    host_ops::find,
    pinned_memory::find,
    graph_captures::find,
    allocator::find,
    blocking::find,
    gemm_format::find,
    unaligned_gemms::find,
    weight_casts::find,
    adapters::find,
    gathered_weights::find,
    attention::find,
    masked_attention::find,
    wide_ops::find,
    experts::find,
    expert_loop::find,
    fills::find,
    chunks::find,
    recomputed::find,
    repeated_work::find,
    logits::find,
    kv_copies::find,
    device_copies::find,
    dropout::find,
    layout_conversions::find,
    graph_nodes::find,
    unused_span::find,
    operator_loops::find,
    repeated_tables::find,
    combined_passes::find,
    repeated_passes::find,
    sorting::find,
    other_work::find,
    communication::find,
    unfused::find,
    launch_bound::find,
];
