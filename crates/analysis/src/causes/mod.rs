//! Causes: what was done and need not be. Each file looks for one kind and gives its evidence and the [`Edit`] of the timeline
//! that removes it; the gain is the replay with that edit.

mod adapters;
mod allocator;
mod attention;
mod autograd;
mod beyond_model;
mod blocking;
mod cause;
mod chosen_windows;
mod chunks;
mod combined_passes;
mod communication;
mod contention;
mod copies;
mod device_copies;
mod devices_in_turn;
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
mod gpu_shared;
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
#[cfg(test)]
mod planted_programs;
mod recomputed;
mod repeated_passes;
mod repeated_tables;
mod repeated_work;
mod requests;
mod scene;
mod shapes;
#[cfg(test)]
mod sketch;
mod small_batches;
mod small_grids;
mod sorting;
mod stacks;
mod subject;
mod sync;
mod unaligned_gemms;
mod unfused;
mod unused_span;
mod weight_casts;
mod wide_ops;

pub use self::cause::{Cause, CauseKind, CausePlace, PhaseGain};
pub use self::diagnose::{Diagnosis, PhaseInput, PhaseReplay, diagnose};
use self::scene::Scene;
pub use self::subject::ProgramFacts;
use crate::replay::Edit;

/// A cause in one phase before its gain is known.
#[derive(Debug)]
pub(crate) struct CauseCandidate {
    pub(crate) kind: CauseKind,
    pub(crate) place: CausePlace,
    /// Occurrences in the replayed windows.
    pub(crate) count: u64,
    /// The edit of the timeline that removes the cause.
    pub(crate) edit: Edit,
    /// Other ways to remove it, which widen the range: copies made asynchronous instead of dropped, faster and slower new kernels.
    pub(crate) partial: Option<Vec<Edit>>,
}

/// What a program is known to be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramPurpose {
    GeneratesText,
    /// A model runs without a backward pass: what its results are for is not known.
    RunsModel,
    /// Launches repeat; what looks needless may be what the program is for, but the device need not wait for a host that calls
    /// nothing.
    Unknown,
}

impl ProgramPurpose {
    fn list_searches(self) -> &'static [fn(&Scene<'_>) -> Vec<CauseCandidate>] {
        match self {
            Self::GeneratesText => SEARCHES,
            Self::RunsModel => SEARCHES_OF_ANY_MODEL,
            Self::Unknown => SEARCHES_OF_ANY_PROGRAM,
        }
    }
}

/// Without those that know what the logits, the mask and the passes of text generation are for.
const SEARCHES_OF_ANY_MODEL: &[fn(&Scene<'_>) -> Vec<CauseCandidate>] = &[
    sync::find_synchronization,
    autograd::find_autograd,
    dispatch_modes::find_dispatch_modes,
    copies::find_host_copies,
    contention::find_cpu_contention,
    host_code::find_host_code,
    host_calls::find_host_calls,
    host_ops::find_host_operators,
    pinned_memory::find_pinned_memory,
    graph_captures::find_graph_captures,
    allocator::find_allocations,
    blocking::find_blocking_launches,
    gemm_format::find_wide_gemms,
    unaligned_gemms::find_unaligned_gemms,
    weight_casts::find_weight_casts,
    adapters::find_unmerged_adapters,
    gathered_weights::find_gathered_weights,
    attention::find_unfused_attention,
    wide_ops::find_wide_operators,
    expert_loop::find_expert_loops,
    fills::find_fills,
    device_copies::find_device_copies,
    dropout::find_dropout,
    layout_conversions::find_layout_conversions,
    graph_nodes::find_copies_in_graphs,
    operator_loops::find_operator_loops,
    repeated_tables::find_repeated_tables,
    combined_passes::find_combined_passes,
    recomputed::find_recomputed_tokens,
    repeated_passes::find_repeated_passes,
    sorting::find_vocabulary_sorts,
    other_work::find_other_work,
    gpu_shared::find_shared_gpu,
    small_grids::find_small_grids,
    beyond_model::find_work_beyond_model,
    unfused::find_unfused_elementwise,
    launch_bound::find_launch_bound_phase,
    devices_in_turn::find_devices_in_turn,
];

const SEARCHES_OF_ANY_PROGRAM: &[fn(&Scene<'_>) -> Vec<CauseCandidate>] = &[
    contention::find_cpu_contention,
    host_code::find_host_code,
    host_calls::find_host_calls,
    blocking::find_blocking_launches,
    gpu_shared::find_shared_gpu,
    launch_bound::find_launch_bound_phase,
    devices_in_turn::find_devices_in_turn,
];

/// The searches, one per kind of cause.
const SEARCHES: &[fn(&Scene<'_>) -> Vec<CauseCandidate>] = &[
    sync::find_synchronization,
    autograd::find_autograd,
    dispatch_modes::find_dispatch_modes,
    copies::find_host_copies,
    contention::find_cpu_contention,
    host_code::find_host_code,
    host_calls::find_host_calls,
    host_ops::find_host_operators,
    pinned_memory::find_pinned_memory,
    graph_captures::find_graph_captures,
    allocator::find_allocations,
    blocking::find_blocking_launches,
    gemm_format::find_wide_gemms,
    unaligned_gemms::find_unaligned_gemms,
    weight_casts::find_weight_casts,
    adapters::find_unmerged_adapters,
    gathered_weights::find_gathered_weights,
    attention::find_unfused_attention,
    masked_attention::find_masked_attention,
    wide_ops::find_wide_operators,
    experts::find_all_experts,
    expert_loop::find_expert_loops,
    fills::find_fills,
    chunks::find_small_chunks,
    recomputed::find_recomputed_tokens,
    repeated_work::find_repeated_work,
    logits::find_unused_logits,
    kv_copies::find_kv_copies,
    device_copies::find_device_copies,
    dropout::find_dropout,
    layout_conversions::find_layout_conversions,
    graph_nodes::find_copies_in_graphs,
    unused_span::find_unused_span,
    operator_loops::find_operator_loops,
    repeated_tables::find_repeated_tables,
    combined_passes::find_combined_passes,
    repeated_passes::find_repeated_passes,
    small_batches::find_small_batches,
    sorting::find_vocabulary_sorts,
    other_work::find_other_work,
    gpu_shared::find_shared_gpu,
    small_grids::find_small_grids,
    communication::find_communication,
    beyond_model::find_work_beyond_model,
    unfused::find_unfused_elementwise,
    launch_bound::find_launch_bound_phase,
    devices_in_turn::find_devices_in_turn,
];
