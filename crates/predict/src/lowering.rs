//! From a step to the kernels that an implementation launches for it.

use llmprof_theory::{Model, Workload, kernels::Kernel};

pub(crate) use fused::KernelSelection;

use super::{eager, efficiency::Implementation, fused, sequences::StepSequences};

/// Whether the kernels that an implementation launches for a model are known here. Those of gated delta layers in transformers are not: such a model is traced.
pub(super) fn knows_kernels(implementation: Implementation, model: &Model) -> bool {
    implementation.serving_engine().is_some() || !model.has_gated_delta()
}

/// Sends the wanted kernels of a step to `sink`, with how often each is launched; none for a model without a decoder. Transformers runs static
/// batches, all of whose kernels depend on the longest sequence.
pub(super) fn lower_step(
    implementation: Implementation,
    model: &Model,
    workload: &Workload,
    (sequences, wanted): (&StepSequences, KernelSelection),
    sink: &mut dyn FnMut(&Kernel, f64),
) {
    let padded = || StepSequences {
        groups: vec![sequences.pad_to_longest()],
        ..*sequences
    };
    // A cache of its full size holds what the workload needs, and the sequences of this step in any case.
    let length = || {
        let longest = sequences.pad_to_longest();
        let needed = longest.cached + longest.new + 1.0;
        needed.max(static_cache_positions(model, workload) as f64)
    };
    match implementation {
        Implementation::HfEager => eager::lower_batch(model, workload, &padded(), None, sink),
        Implementation::TorchCompile if sequences.is_decode() => {
            let style = fused::FusedStyle::Compiled { length: length() };
            fused::lower_step(model, workload, &padded(), (style, wanted), sink);
        }
        Implementation::HfGraph | Implementation::TorchCompile => {
            eager::lower_batch(model, workload, &padded(), Some(length()), sink);
        }
        Implementation::Vllm | Implementation::Sglang | Implementation::Trtllm => {
            let style = fused::FusedStyle::Serving;
            fused::lower_step(model, workload, sequences, (style, wanted), sink);
        }
    }
}

/// Kernels that are launched for one that is costed: tables of serving engines have as one what is several.
pub(super) fn launches_per_kernel(implementation: Implementation, kernel: &Kernel) -> f64 {
    if implementation.serving_engine().is_some() {
        fused::launches_per_kernel(kernel)
    } else {
        1.0
    }
}

/// Positions of a KV cache that has its full size from the start.
pub(super) fn static_cache_positions(model: &Model, workload: &Workload) -> u64 {
    (model.context_tokens(workload) + workload.decode_steps()).saturating_add(1)
}
