//! Whether a workload's weights and KV cache fit a device.

use llmprof_units::Bytes;
use serde::Serialize;

use crate::{Kind, Model, Pass, Workload, device::Device};

/// Memory that a workload needs, and the memory of the device.
///
/// Weights and KV cache (states of gated delta layers among it) only: both are exact. Activations, the allocator's slack and the runtime's own memory come on
/// top, so a workload that barely fits here will not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryFit {
    /// Bytes of the weights as stored, scales included.
    pub weights_bytes: Bytes,
    /// KV cache after the last token.
    pub kv_bytes: Bytes,
    pub needed_bytes: Bytes,
    /// What the device has; absent where its file does not say.
    pub capacity_bytes: Option<Bytes>,
    /// Whether the first is within the second; absent where that is not known.
    pub fits: Option<bool>,
}

impl MemoryFit {
    /// Compares the memory that `workload` needs with the device's capacity. `weights`: bytes of all weights ([`Model::parameter_bytes`]).
    pub fn for_workload(model: &Model, workload: &Workload, device: &Device, weights: u64) -> Self {
        // The last step reads every cached token that it can still see and adds its own: that is what must be held.
        // Without decode steps nothing is added to what prefill left.
        let steps = workload.decode_steps();
        let last = model
            .context_tokens(workload)
            .saturating_add(steps.saturating_sub(1));
        let mut kv = 0u64;
        model.lower_pass(
            workload,
            &Pass::decode_steps(workload.batch, last, 1),
            &mut |operator| {
                // A state is replaced, not added to.
                let added = if steps > 0 && operator.kind == Kind::Attention {
                    operator.traffic.kv_write
                } else {
                    0
                };
                let one = operator.traffic.kv_read.saturating_add(added);
                kv = kv.saturating_add(one.saturating_mul(u64::from(operator.layers)));
            },
        );
        let needed = Bytes(weights.saturating_add(kv));
        let capacity_bytes = device
            .memory
            .capacity_bytes
            .as_ref()
            .map(|figure| figure.value);
        Self {
            weights_bytes: Bytes(weights),
            kv_bytes: Bytes(kv),
            needed_bytes: needed,
            capacity_bytes,
            fits: capacity_bytes.map(|capacity| needed <= capacity),
        }
    }
}
