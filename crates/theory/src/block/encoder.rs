use super::{Conv, Layer, Linear, Mlp, Norm};
use crate::{
    count::saturating_product,
    lower::{Lowering, StepCost, Visible},
    operator::{Kind, Shape, Traffic},
    weight::{Dims, Visitor, WeightSpec},
};

/// A vision transformer with one span of attention: CLIP, SigLIP.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageEncoder {
    pub patches: Conv,
    /// Path of a learned token before the patches (CLIP).
    pub class_token: Option<&'static str>,
    /// Path of the learned positions.
    pub positions: &'static str,
    /// Rows of the position table.
    pub position_rows: u64,
    /// Norm before the layers (CLIP).
    pub before: Option<Norm>,
    /// Path before a layer's number.
    pub layers_prefix: &'static str,
    /// Numbers of the layers, all alike.
    pub layers: Vec<u32>,
    /// What each of them is.
    pub layer: Layer,
    /// Norm after the layers: of every token, or of the class token alone where there is one.
    pub after: Option<Norm>,
    /// The head of SigLIP, which pools by attention.
    pub pooling: Option<AttentionPooling>,
    /// Side of the image in pixels.
    pub side: u64,
}

impl ImageEncoder {
    /// Patches of one image of the encoder's own size.
    pub(crate) fn patches_per_image(&self) -> u64 {
        let across = self.side / self.patches.stride;
        saturating_product(&[across, across])
    }

    /// Over `images` images of the encoder's own size.
    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>, images: u64) {
        let patches = self.patches_per_image();
        self.patches.lower(
            lowering,
            saturating_product(&[images, self.side, self.side]),
            saturating_product(&[images, patches]),
            true,
        );
        self.lower_patches(lowering, images, patches);
    }

    /// Over `images` images whose `patches` features each are already there.
    pub(crate) fn lower_patches<'m>(
        &'m self,
        lowering: &mut Lowering<'_, 'm>,
        images: u64,
        patches: u64,
    ) {
        let width = self.layer.width;
        let tokens = patches + u64::from(self.class_token.is_some());
        lowering.pass.batch = images;
        lowering.pass.queries = tokens;
        lowering.visible = Visible::All;
        let rows = lowering.rows();
        let elements = saturating_product(&[rows, width]);
        let table = saturating_product(&[self.position_rows, width]);
        let class = if self.class_token.is_some() { width } else { 0 };
        let step = StepCost {
            parameters: table.saturating_add(class),
            vector: elements,
            traffic: Traffic {
                weights: lowering.plain_bytes(table.saturating_add(class)),
                activation_read: lowering.activation_bytes(elements),
                activation_write: lowering.activation_bytes(elements),
                ..Traffic::default()
            },
            ..StepCost::default()
        };
        let shape = Shape::elementwise(rows, width);
        lowering.emit(Kind::PositionEmbedding, self.positions, shape, &step);
        if let Some(norm) = &self.before {
            lowering.emit_norm(norm, rows);
        }
        lowering.lower_inside(self.layers_prefix, &self.layers, |lowering| {
            self.layer.lower(lowering);
        });
        if let Some(norm) = &self.after {
            let rows = if self.class_token.is_some() {
                images
            } else {
                rows
            };
            lowering.emit_norm(norm, rows);
        }
        if let Some(pooling) = &self.pooling {
            pooling.lower(lowering, images, tokens);
        }
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        let width = self.layer.width;
        self.patches.visit_weights(visitor);
        if let Some(name) = self.class_token {
            visitor.visit(WeightSpec::new(name, "", Dims::from([width])));
        }
        visitor.visit(WeightSpec::new(
            self.positions,
            "weight",
            Dims::from([self.position_rows, width]),
        ));
        for norm in [&self.before, &self.after].into_iter().flatten() {
            norm.visit_weights(visitor);
        }
        if let Some(pooling) = &self.pooling {
            pooling.visit_weights(visitor);
        }
        visitor.visit_inside(self.layers_prefix, &self.layers, |visitor| {
            self.layer.visit_weights(visitor);
        });
    }
}

/// One learned query per image attends to its patches, then a network (SigLIP's head).
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionPooling {
    /// Path of the learned query.
    pub probe: &'static str,
    /// Path of the attention, whose projections to queries, keys and values are one tensor `in_proj_weight`.
    pub name: &'static str,
    pub heads: u64,
    pub width: u64,
    pub output: Linear,
    pub norm: Norm,
    pub mlp: Mlp,
}

impl AttentionPooling {
    fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>, images: u64, tokens: u64) {
        let width = self.width;
        let keys = saturating_product(&[images, tokens]);
        let project = |rows, outputs| saturating_product(&[2, rows, width, outputs]);
        let parameters = saturating_product(&[3, width, width + 1]) + width;
        let activations = lowering.activation_bytes(saturating_product(&[keys, width]));
        let step = StepCost {
            parameters,
            // Queries from the probe, keys and values from the patches, then scores and weighted values.
            tensor: project(images, width)
                .saturating_add(project(keys, 2 * width))
                .saturating_add(saturating_product(&[4, keys, width])),
            vector: saturating_product(&[5, keys, self.heads]),
            traffic: Traffic {
                weights: lowering.plain_bytes(parameters),
                activation_read: activations.saturating_mul(3),
                activation_write: activations.saturating_mul(2),
                ..Traffic::default()
            },
        };
        let shape = Shape {
            groups: saturating_product(&[images, self.heads]),
            m: 1,
            n: tokens,
            k: width / self.heads,
        };
        lowering.emit(Kind::Attention, self.name, shape, &step);
        lowering.pass.queries = 1;
        lowering.emit_linear(&self.output, images);
        lowering.emit_norm(&self.norm, images);
        self.mlp.lower(lowering);
        lowering.emit_add("vision_model.head.add", width);
    }

    fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        let width = self.width;
        visitor.visit(WeightSpec::new(self.probe, "", Dims::from([1, 1, width])));
        let fused = Dims::from([3 * width, width]);
        visitor.visit(WeightSpec::new(self.name, "in_proj_weight", fused));
        visitor.visit(WeightSpec::new(
            self.name,
            "in_proj_bias",
            Dims::from([3 * width]),
        ));
        self.output.visit_weights(visitor);
        self.norm.visit_weights(visitor);
        self.mlp.visit_weights(visitor);
    }
}
