use llmprof_units::Basis;

use super::{Linear, Norm, Rope, attention::Core};
use crate::{
    count::saturating_product,
    lower::Lowering,
    operator::{Kind, Phase, Shape, Traffic},
    step::Side,
    weight::Visitor,
    workload::MlaDecode,
};

/// The way to queries in latent attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MlaQuery {
    /// One matrix; the config has no `q_lora_rank`.
    Direct(Linear),
    /// Down to a low rank, a norm, and up again.
    LowRank {
        down: Linear,
        /// Norm of the low-rank vector.
        norm: Norm,
        up: Linear,
    },
}

/// Multi-head latent attention (DeepSeek-V2, V3): keys and values of all heads come from one low-rank vector per token.
#[derive(Clone, Debug, PartialEq)]
pub struct Mla {
    /// Module path inside its layer; also the path of the attention operator.
    pub name: &'static str,
    pub heads: u64,
    /// Width of the part of a query that does not rotate.
    pub nope_dim: u64,
    /// Width of the rotating part, whose key all heads share.
    pub rope_dim: u64,
    pub value_dim: u64,
    /// Width of the compressed latent that the cache holds.
    pub rank: u64,
    pub query: MlaQuery,
    /// To latent and rotating key.
    pub kv_down: Linear,
    pub kv_norm: Norm,
    /// From latent to keys and values of all heads.
    pub kv_up: Linear,
    /// Back to the model's width.
    pub output: Linear,
    pub rope: Rope,
    /// What scores are multiplied by.
    pub scale: f64,
}

impl Mla {
    /// Elements that the cache gains per token.
    pub(crate) fn kv_elements(&self, mla: MlaDecode) -> u64 {
        match mla {
            MlaDecode::Absorbed | MlaDecode::Expanded => self.rank + self.rope_dim,
            MlaDecode::Naive => self.expanded_elements(),
        }
    }

    /// Elements of the keys and values of all heads for one token.
    fn expanded_elements(&self) -> u64 {
        saturating_product(&[self.heads, self.nope_dim + self.rope_dim + self.value_dim])
    }

    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let rows = lowering.rows();
        match &self.query {
            MlaQuery::Direct(q) => lowering.emit_linear(q, rows),
            MlaQuery::LowRank { down, norm, up } => {
                lowering.emit_linear(down, rows);
                lowering.emit_norm(norm, rows);
                lowering.emit_linear(up, rows);
            }
        }
        lowering.emit_linear(&self.kv_down, rows);
        lowering.emit_norm(&self.kv_norm, rows);
        let (expanded, absorbed) = split_sides(lowering);
        if let Some(side) = expanded {
            self.lower_expansion(lowering, side);
        }
        self.rope
            .lower(lowering, "self_attn.rope", self.heads + 1, self.rope_dim);
        // The halves of the up-projection are read once a step, by its expansion where there is one.
        let read = expanded.is_none();
        if let Some(side) = absorbed {
            let sizes = (self.nope_dim, self.rank);
            self.lower_absorption(lowering, side, "self_attn.absorb_k", sizes, read);
        }
        let kv_elements = self.kv_elements(lowering.mla);
        if let Some(side) = expanded {
            Core {
                name: self.name,
                heads: self.heads,
                key_dim: self.nope_dim + self.rope_dim,
                value_dim: self.value_dim,
                kv_elements,
                new_elements: self.expanded_elements(),
                window: None,
                sinks: 0,
                softcap: false,
            }
            .lower(lowering, side);
        }
        if let Some(side) = absorbed {
            Core {
                name: self.name,
                heads: self.heads,
                key_dim: self.rank + self.rope_dim,
                value_dim: self.rank,
                kv_elements,
                new_elements: kv_elements,
                window: None,
                sinks: 0,
                softcap: false,
            }
            .lower(lowering, side);
            let sizes = (self.rank, self.value_dim);
            self.lower_absorption(lowering, side, "self_attn.absorb_v", sizes, read);
        }
        lowering.emit_linear(&self.output, rows);
    }

    /// Keys and values of the new tokens, and of cached ones too where the cache holds only latents.
    fn lower_expansion<'m>(&'m self, lowering: &mut Lowering<'_, 'm>, side: Side) {
        let steps = lowering.pass.steps;
        let reach = lowering.reach(side, None);
        if lowering.mla == MlaDecode::Naive || reach.cached == 0 {
            lowering.emit_linear(&self.kv_up, reach.new / steps.max(1));
            return;
        }
        let tokens = reach.cached.saturating_add(reach.new);
        let mut all = lowering.linear_step(&self.kv_up, tokens);
        all.parameters = self.kv_up.parameter_count();
        all.traffic.weights = saturating_product(&[all.traffic.weights, steps]);
        let first = match lowering.batch {
            Some(_) => tokens,
            None => saturating_product(&[reach.sequences, reach.keys_at_first]),
        };
        lowering.emit_sum(
            Kind::Linear,
            self.kv_up.name,
            Shape::gemm(first, self.kv_up.outputs, self.kv_up.inputs),
            &all,
            lowering.formats.compute_for(self.kv_up.quantized),
            if reach.bounded {
                Basis::Derived
            } else {
                Basis::Counted
            },
        );
    }

    /// One half of the up-projection, applied head by head to queries or to outputs instead of to keys or values.
    fn lower_absorption<'m>(
        &'m self,
        lowering: &mut Lowering<'_, 'm>,
        side: Side,
        name: &'static str,
        (inputs, outputs): (u64, u64),
        read: bool,
    ) {
        let rows = match side {
            Side::Both => lowering.rows(),
            side => lowering.reach(side, None).new,
        };
        let half = Linear::new(
            name,
            inputs,
            saturating_product(&[outputs, self.heads]),
            false,
        );
        // Each head has its own inputs, so they are read once per head.
        let mut step = lowering.linear_step(&half, rows);
        step.parameters = if read { half.parameter_count() } else { 0 };
        step.traffic = Traffic {
            weights: if read { step.traffic.weights } else { 0 },
            activation_read: lowering
                .activation_bytes(saturating_product(&[rows, self.heads, inputs])),
            ..step.traffic
        };
        lowering.emit_in(
            Kind::Linear,
            name,
            Shape {
                groups: self.heads,
                m: rows,
                n: outputs,
                k: inputs,
            },
            &step,
            lowering.formats.compute_for(self.kv_up.quantized),
        );
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        match &self.query {
            MlaQuery::Direct(q) => q.visit_weights(visitor),
            MlaQuery::LowRank { down, norm, up } => {
                down.visit_weights(visitor);
                norm.visit_weights(visitor);
                up.visit_weights(visitor);
            }
        }
        self.kv_down.visit_weights(visitor);
        self.kv_norm.visit_weights(visitor);
        self.kv_up.visit_weights(visitor);
        self.output.visit_weights(visitor);
    }
}

/// The sequences whose keys and values are expanded, and those that attend to the latent.
fn split_sides(lowering: &Lowering<'_, '_>) -> (Option<Side>, Option<Side>) {
    if lowering.mla != MlaDecode::Absorbed {
        (Some(Side::Both), None)
    } else if lowering.batch.is_some_and(|batch| batch.step.is_mixed()) {
        (Some(Side::Prefill), Some(Side::Decode))
    } else if lowering.pass.phase == Phase::Decode {
        (None, Some(Side::Both))
    } else {
        (Some(Side::Both), None)
    }
}
