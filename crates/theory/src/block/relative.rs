use llmprof_units::Basis;

use crate::{
    count::saturating_product,
    lower::{Lowering, StepCost},
    operator::{Kind, Shape, Traffic},
    step::Side,
    weight::{Dims, Visitor, WeightSpec},
    workload::AttentionConvention,
};

/// A learned number per head and distance, added to the scores of every layer of a stack (T5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelativeBias {
    /// Module path in the first layer, which makes it for all.
    pub name: &'static str,
    /// Distances with a bias of their own.
    pub buckets: u64,
    pub heads: u64,
}

impl RelativeBias {
    /// One row per pair of query and key, the same for all sequences of a pass.
    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let reach = lowering.reach(Side::Both, None);
        let pairs = match lowering.batch {
            Some(_) => reach.keys,
            None => lowering.query_key_pairs(AttentionConvention::Full),
        };
        let table = saturating_product(&[self.buckets, self.heads]);
        let step = StepCost {
            parameters: table,
            traffic: Traffic {
                weights: saturating_product(&[lowering.plain_bytes(table), lowering.pass.steps]),
                activation_write: lowering
                    .activation_bytes(saturating_product(&[pairs, self.heads])),
                ..Traffic::default()
            },
            ..StepCost::default()
        };
        let shape = Shape::elementwise(
            saturating_product(&[reach.queries, reach.keys_at_first]),
            self.heads,
        );
        lowering.emit_sum(
            Kind::PositionEmbedding,
            self.name,
            shape,
            &step,
            lowering.formats.activations,
            Basis::Counted,
        );
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        let shape = Dims::from([self.buckets, self.heads]);
        visitor.visit(WeightSpec::new(self.name, "weight", shape));
    }
}
