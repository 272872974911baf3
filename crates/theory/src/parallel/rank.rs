//! The model of one rank.

use super::Parallel;
use crate::{
    Model, WeightFormat, WorkloadError,
    block::{
        Attention, DeltaProjections, FeedForward, GatedDelta, Linear, Mixer, Mla, MlaQuery, Mlp,
        MlpInput, Moe, Norm, Projections,
    },
};

/// The model that each of `parallel.tensor` ranks runs: heads and widths divided, norms, routers and latents whole. Image towers are
/// on every rank. Experts are divided by width whether ranks share each expert or have whole ones: the mean work of a rank is the
/// same.
pub fn rank_model(model: &Model, parallel: &Parallel) -> Result<Model, WorkloadError> {
    let mut rank = model.clone();
    if model.encoder.is_some() {
        for (key, ranks) in [("tensor", parallel.tensor), ("pipeline", parallel.pipeline)] {
            if ranks > 1 {
                let expected = format!("1: {} has an encoder, and is not divided", model.family);
                return Err(WorkloadError::parallel(key, ranks, expected));
            }
        }
    }
    if parallel.tensor == 1 {
        return Ok(rank);
    }
    let Some(decoder) = &mut rank.decoder else {
        return Ok(rank);
    };
    let by = parallel.tensor;
    for group in &mut decoder.groups {
        match &mut group.layer.mixer {
            Mixer::Attention(attention) => divide_attention(attention, by)?,
            Mixer::Mla(latent) => divide_latent(latent, by)?,
            Mixer::GatedDelta(delta) => divide_delta(delta, by)?,
        }
        match &mut group.layer.feed {
            FeedForward::Dense(mlp) => divide_mlp(mlp, by)?,
            FeedForward::Moe(moe) => divide_moe(moe, by, expert_ranks(moe, model, parallel))?,
        }
    }
    // Vocabularies are padded to a multiple.
    decoder.embedding.vocabulary = decoder.embedding.vocabulary.div_ceil(by);
    decoder.head.linear.outputs = decoder.head.linear.outputs.div_ceil(by);
    Ok(rank)
}

/// A rank's model with the experts that it stores: fewer than it computes with where data-parallel ranks share them.
pub fn stored_model(rank: &Model, parallel: &Parallel) -> Model {
    let mut stored = rank.clone();
    if !parallel.shares_experts_across_data() {
        return stored;
    }
    let across = parallel.expert / parallel.tensor;
    for group in stored
        .decoder
        .iter_mut()
        .flat_map(|decoder| &mut decoder.groups)
    {
        if let FeedForward::Moe(moe) = &mut group.layer.feed {
            moe.experts.count = moe.experts.count.div_ceil(across);
        }
    }
    stored
}

/// The share of one rank.
fn divide_evenly(what: &str, whole: u64, by: u64) -> Result<u64, WorkloadError> {
    if whole.is_multiple_of(by) {
        Ok(whole / by)
    } else {
        Err(WorkloadError::parallel(
            "tensor",
            by,
            format!("a divisor of the model's {what} ({whole})"),
        ))
    }
}

fn set_outputs(linear: &mut Linear, outputs: u64) {
    linear.outputs = outputs;
}

fn divide_attention(attention: &mut Attention, by: u64) -> Result<(), WorkloadError> {
    let heads = divide_evenly("attention heads", attention.heads, by)?;
    // Fewer key heads than ranks: each is on several of them.
    let kv_heads = if attention.kv_heads >= by {
        divide_evenly("key and value heads", attention.kv_heads, by)?
    } else if by.is_multiple_of(attention.kv_heads) {
        1
    } else {
        let expected = format!(
            "a multiple or a divisor of the model's key and value heads ({})",
            attention.kv_heads
        );
        return Err(WorkloadError::parallel("tensor", by, expected));
    };
    let dim = attention.head_dim;
    match &mut attention.projections {
        Projections::Separate { q, k, v } => {
            // With a gate beside each query.
            let each = 1 + u64::from(attention.gate.is_some());
            set_outputs(q, heads * dim * each);
            set_outputs(k, kv_heads * dim);
            set_outputs(v, kv_heads * dim);
        }
        Projections::Fused { qkv, .. } => set_outputs(qkv, (heads + 2 * kv_heads) * dim),
    }
    attention.output.inputs = heads * dim;
    let narrow = |norm: &mut Option<Norm>, width: u64| {
        // A norm over all heads is over those of the rank.
        if let Some(norm) = norm.as_mut().filter(|norm| norm.width > dim) {
            norm.width = width;
        }
    };
    narrow(&mut attention.q_norm, heads * dim);
    narrow(&mut attention.k_norm, kv_heads * dim);
    attention.heads = heads;
    attention.kv_heads = kv_heads;
    Ok(())
}

fn divide_latent(latent: &mut Mla, by: u64) -> Result<(), WorkloadError> {
    let heads = divide_evenly("attention heads", latent.heads, by)?;
    let up = match &mut latent.query {
        MlaQuery::Direct(up) | MlaQuery::LowRank { up, .. } => up,
    };
    up.outputs /= by;
    latent.kv_up.outputs /= by;
    latent.output.inputs /= by;
    latent.heads = heads;
    Ok(())
}

/// Engines divide both kinds of heads and repeat none.
fn divide_delta(delta: &mut GatedDelta, by: u64) -> Result<(), WorkloadError> {
    delta.key_heads = divide_evenly("key heads of gated delta layers", delta.key_heads, by)?;
    delta.value_heads = divide_evenly("value heads of gated delta layers", delta.value_heads, by)?;
    match &mut delta.projections {
        DeltaProjections::Fused { qkvz, ba } => {
            qkvz.outputs /= by;
            ba.outputs /= by;
        }
        DeltaProjections::Separate { qkv, z, b, a } => {
            for linear in [qkv, z, b, a] {
                linear.outputs /= by;
            }
        }
    }
    delta.output.inputs /= by;
    Ok(())
}

fn divide_mlp(mlp: &mut Mlp, by: u64) -> Result<(), WorkloadError> {
    let width = divide_evenly("feed-forward width", mlp.down.inputs, by)?;
    match &mut mlp.input {
        MlpInput::Plain(up) => set_outputs(up, width),
        MlpInput::Gated { gate, up } => {
            set_outputs(gate, width);
            set_outputs(up, width);
        }
        MlpInput::Fused(both) => set_outputs(both, 2 * width),
    }
    mlp.down.inputs = width;
    Ok(())
}

/// Ranks that whole experts are dealt out to: as asked, or all where tiles of a scale each cannot be divided among them.
fn expert_ranks(moe: &Moe, model: &Model, parallel: &Parallel) -> u64 {
    let (by, experts) = (parallel.tensor, &moe.experts);
    if let Some(WeightFormat::Fp8 { rows, .. }) = model.quantization
        && rows > 0
        && !experts.intermediate.is_multiple_of(by * u64::from(rows))
        && experts.count.is_multiple_of(by)
    {
        return by;
    }
    if by.is_multiple_of(parallel.expert) {
        parallel.expert
    } else {
        1
    }
}

fn divide_moe(moe: &mut Moe, by: u64, dealt_to: u64) -> Result<(), WorkloadError> {
    moe.experts.dealt_to = dealt_to;
    // Whole experts need no width that divides; a share of one is rounded up.
    moe.experts.intermediate = moe.experts.intermediate.div_ceil(by);
    match &mut moe.shared {
        Some(shared) => divide_mlp(shared, by),
        None => Ok(()),
    }
}
