//! What mixtures of experts share.

use super::{base::Base, keys::Keys};
use crate::{
    block::{ExpertWeights, Experts},
    error::ModelError,
};

/// A token cannot use more experts than there are.
pub(crate) fn check_top_k(keys: &Keys<'_>, top_k: u64, experts: u64) -> Result<(), ModelError> {
    if top_k <= experts {
        return Ok(());
    }
    Err(keys.contradiction(
        "num_experts_per_tok",
        top_k,
        format!("{experts} experts: a token cannot use more than there are"),
    ))
}

/// Which layers have experts, by `decoder_sparse_step` and `mlp_only_layers` (Qwen).
pub(crate) fn expert_layers(keys: &Keys<'_>, layers: u32) -> Result<Vec<bool>, ModelError> {
    let step = keys.size(&["decoder_sparse_step"], Some(1))?;
    let dense = keys.integers("mlp_only_layers")?.unwrap_or_default();
    Ok((0..u64::from(layers))
        .map(|layer| !dense.contains(&layer) && (layer + 1).is_multiple_of(step))
        .collect())
}

/// Experts with a gate, each under its own number in the checkpoint.
pub(super) fn build_experts(
    base: &Base<'_, '_>,
    count: u64,
    top_k: u64,
    intermediate: u64,
) -> Experts {
    Experts {
        name: "mlp.experts",
        count,
        top_k,
        hidden: base.hidden,
        intermediate,
        activation: base.activation,
        weights: ExpertWeights::PerExpert {
            prefix: "mlp.experts",
            gate: "gate_proj",
            up: "up_proj",
            down: "down_proj",
        },
        dealt_to: 1,
    }
}
