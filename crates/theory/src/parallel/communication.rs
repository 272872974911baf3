//! What ranks tell each other in a pass.

use serde::{Deserialize, Serialize};

use super::Parallel;
use crate::{
    Model, Step, Workload,
    block::{Arrangement, FeedForward, LayerGroup, Mixer},
    workload::Pass,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    /// From one rank to another.
    Send,
}

impl Operation {
    /// Bytes that cross a rank's link for each byte of the buffer (NCCL's bus bandwidth).
    pub fn bus_factor(self, ranks: f64) -> f64 {
        match self {
            Self::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => (ranks - 1.0) / ranks,
            Self::Send => 1.0,
        }
    }
}

/// Equal collectives of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Exchange {
    pub operation: Operation,
    pub ranks: u64,
    /// The buffer of one, as NCCL's tests count it: the whole result of a gather, what all ranks send together to one of them of
    /// an all-to-all.
    pub bytes: u64,
    /// How many in a step.
    pub count: u64,
}

/// The collectives of a step of any sequences.
pub fn step_exchanges(
    model: &Model,
    parallel: &Parallel,
    workload: &Workload,
    step: &Step,
) -> Vec<Exchange> {
    list_exchanges(model, parallel, workload, &step.as_pass(workload.logits))
}

/// The collectives of one step of `pass`, on one stage after the other.
///
/// Tensor parallel: a sum over ranks after attention and after the feed-forward part (one where they are parallel), one after the
/// embedding, and a gather of the logits. Experts across data-parallel ranks: tokens go to their experts and back instead of the sum
/// after that part. Pipeline: the residual stream from stage to stage.
pub fn list_exchanges(
    model: &Model,
    parallel: &Parallel,
    workload: &Workload,
    pass: &Pass,
) -> Vec<Exchange> {
    let Some(decoder) = &model.decoder else {
        return Vec::new();
    };
    let formats = model.number_formats(&workload.precision);
    let bytes = |elements: u64| formats.activations.bytes_for(elements).unwrap_or(u64::MAX);
    let rows = pass.rows();
    let stream = bytes(rows.saturating_mul(decoder.hidden));
    let across = parallel.shares_experts_across_data();
    let routed = |group: &&LayerGroup| across && matches!(group.layer.feed, FeedForward::Moe(_));
    let mut exchanges = Vec::new();
    let mut add = |operation, ranks, bytes, count| {
        if ranks > 1 && bytes > 0 && count > 0 {
            exchanges.push(Exchange {
                operation,
                ranks,
                bytes,
                count,
            });
        }
    };
    let tensor = parallel.tensor;
    let sums: u64 = decoder
        .groups
        .iter()
        .map(|group| {
            let each = match group.layer.arrangement {
                Arrangement::Parallel => 1,
                Arrangement::PreNorm | Arrangement::PostNorm => 2 - u64::from(routed(&group)),
            };
            each * group.layers.len() as u64
        })
        .sum();
    add(Operation::AllReduce, tensor, stream, sums + 1);
    // A norm over all heads: ranks sum the squares of theirs, of queries and keys at once, in 32 bits.
    let normed = decoder.groups.iter().filter(|group| {
        matches!(&group.layer.mixer, Mixer::Attention(attention)
            if attention.q_norm.as_ref().is_some_and(|norm| norm.width > attention.head_dim))
    });
    let normed = normed.map(|group| group.layers.len() as u64).sum();
    add(Operation::AllReduce, tensor, rows.saturating_mul(8), normed);
    let logits = pass.batch.saturating_mul(pass.logits);
    let vocabulary = decoder.head.linear.outputs.saturating_mul(tensor);
    add(
        Operation::AllGather,
        tensor,
        bytes(logits.saturating_mul(vocabulary)),
        1,
    );
    for group in decoder.groups.iter().filter(routed) {
        if let FeedForward::Moe(moe) = &group.layer.feed {
            let pairs = rows
                .saturating_mul(moe.experts.top_k)
                .saturating_mul(decoder.hidden);
            // Each rank sends its share of the group's tokens.
            let sent = bytes(pairs.div_ceil(tensor));
            add(
                Operation::AllToAll,
                parallel.expert,
                sent,
                2 * group.layers.len() as u64,
            );
        }
    }
    if parallel.pipeline > 1 {
        add(Operation::Send, 2, stream, parallel.pipeline - 1);
    }
    exchanges
}
