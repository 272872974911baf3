//! From a step to the kernels that an implementation launches for it.

use super::{eager, efficiency::Implementation, fused};
use llmprof_theory::{Model, Pass, Workload, kernels::Kernel};

/// Whether the kernels that an implementation launches for a model are known here. Those of gated delta layers in transformers are not: such a model is traced.
pub(super) fn knows(implementation: Implementation, model: &Model) -> bool {
    implementation.engine().is_some() || !model.has_gated_delta()
}

/// Sends the kernels of one step of `pass` to `sink`, with how often each is launched. The step finds `past` cached tokens.
/// Returns false for a model without a decoder.
pub(super) fn lower(
    implementation: Implementation,
    model: &Model,
    workload: &Workload,
    (pass, past): (&Pass, f64),
    sink: &mut dyn FnMut(&Kernel, f64),
) -> bool {
    let decodes = pass.queries == 1 && past > 0.0;
    match implementation {
        Implementation::HfEager => eager::lower(model, workload, pass, past, None, sink),
        Implementation::TorchCompile if decodes => {
            let style = fused::Style::Compiled {
                length: positions(model, workload) as f64,
            };
            fused::lower(model, workload, pass, past, style, sink)
        }
        Implementation::HfGraph | Implementation::TorchCompile => {
            let length = positions(model, workload) as f64;
            eager::lower(model, workload, pass, past, Some(length), sink)
        }
        Implementation::Vllm | Implementation::Sglang | Implementation::Trtllm => {
            fused::lower(model, workload, pass, past, fused::Style::Serving, sink)
        }
    }
}

/// Kernels that are launched for one that is costed: tables of serving engines have as one what is several.
pub(super) fn launches(implementation: Implementation, kernel: &Kernel) -> f64 {
    if implementation.engine().is_some() {
        fused::launches(kernel)
    } else {
        1.0
    }
}

/// Positions of a KV cache that has its full size from the start.
pub(super) fn positions(model: &Model, workload: &Workload) -> u64 {
    (model.context(workload) + workload.decode_steps()).saturating_add(1)
}
