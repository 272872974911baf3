use super::{Conv, Linear, Mlp, Norm};
use crate::{
    count::saturating_product,
    lower::{Lowering, StepCost},
    operator::{Kind, Shape, Traffic},
    weight::{Dims, Visitor, WeightSpec},
};

/// A layer of the SAM encoder: attention inside windows or over the whole image, with decomposed relative positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamLayer {
    pub norm1: Norm,
    pub name: &'static str,
    /// To queries, keys and values.
    pub qkv: Linear,
    pub heads: u64,
    pub output: Linear,
    /// Side of a window in patches; 0 attends to the whole image.
    pub window: u64,
    /// Paths of the relative positions down and across, and the rows of each; `None` if the config turns them off.
    pub relative: Option<([&'static str; 2], u64)>,
    pub norm2: Norm,
    pub mlp: Mlp,
}

impl SamLayer {
    /// Over `images` images of `side × side` patches.
    fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>, images: u64, side: u64) {
        let width = self.norm1.width;
        // Windows are padded to full size, so attention sees more tokens than there are patches.
        let (windows, span) = if self.window > 0 {
            let across = side.div_ceil(self.window);
            (saturating_product(&[across, across]), self.window)
        } else {
            (1, side)
        };
        let per_window = saturating_product(&[span, span]);
        let rows = lowering.rows();
        let padded = saturating_product(&[images, windows, per_window]);
        lowering.emit_norm(&self.norm1, rows);
        lowering.emit_linear(&self.qkv, padded);
        let head_dim = width / self.heads;
        let scores = saturating_product(&[images, windows, per_window, per_window, self.heads]);
        let relative = self.relative.map_or(0, |_| {
            saturating_product(&[4, self.heads, padded, span, head_dim])
        });
        let parameters = self
            .relative
            .map_or(0, |(_, rows)| saturating_product(&[2, rows, head_dim]));
        let output = saturating_product(&[padded, width]);
        lowering.emit(
            Kind::Attention,
            self.name,
            Shape {
                groups: saturating_product(&[images, windows, self.heads]),
                m: per_window,
                n: per_window,
                k: head_dim,
            },
            &StepCost {
                parameters,
                tensor: saturating_product(&[4, scores, head_dim]).saturating_add(relative),
                vector: saturating_product(&[scores, if relative > 0 { 7 } else { 5 }]),
                traffic: Traffic {
                    weights: lowering.plain_bytes(parameters),
                    activation_read: lowering.activation_bytes(output.saturating_mul(3)),
                    activation_write: lowering.activation_bytes(output),
                    ..Traffic::default()
                },
            },
        );
        lowering.emit_linear(&self.output, padded);
        lowering.emit_add("mixer_add", width);
        lowering.emit_norm(&self.norm2, rows);
        self.mlp.lower(lowering);
        lowering.emit_add("feed_add", width);
    }

    fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        self.norm1.visit_weights(visitor);
        self.qkv.visit_weights(visitor);
        if let Some((names, rows)) = self.relative {
            for name in names {
                let shape = Dims::from([rows, self.norm1.width / self.heads]);
                visitor.visit(WeightSpec::new(name, "", shape));
            }
        }
        self.output.visit_weights(visitor);
        self.norm2.visit_weights(visitor);
        self.mlp.visit_weights(visitor);
    }
}

/// The image encoder of Segment Anything: patches, windowed and global layers, a neck of convolutions.
#[derive(Clone, Debug, PartialEq)]
pub struct SamEncoder {
    pub patches: Conv,
    /// Path of the learned positions, and their side in patches.
    pub positions: Option<(&'static str, u64)>,
    /// Path before a layer's number.
    pub layers_prefix: &'static str,
    /// Layers, alike ones together with their numbers.
    pub groups: Vec<(Vec<u32>, SamLayer)>,
    /// Convolutions after the layers, each with its norm where it has one.
    pub neck: Vec<(Conv, Option<Norm>)>,
    /// Side of the image in pixels.
    pub side: u64,
}

impl SamEncoder {
    /// Positions down and across after the neck, for an image of `side` pixels.
    pub(crate) fn output_side(&self, side: u64) -> u64 {
        self.neck
            .iter()
            .fold(side / self.patches.stride, |side, (conv, _)| {
                side / conv.stride
            })
    }

    /// Over `images` images of `side` pixels.
    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>, images: u64, side: u64) {
        let patches = side / self.patches.stride;
        lowering.pass.batch = images;
        lowering.pass.queries = saturating_product(&[patches, patches]);
        let rows = lowering.rows();
        self.patches.lower(
            lowering,
            saturating_product(&[images, side, side]),
            rows,
            true,
        );
        let width = self.patches.outputs;
        if let Some((name, table)) = self.positions {
            let elements = saturating_product(&[rows, width]);
            let table = saturating_product(&[table, table, width]);
            let step = StepCost {
                parameters: table,
                vector: elements,
                traffic: Traffic {
                    weights: lowering.plain_bytes(table),
                    activation_read: lowering.activation_bytes(elements),
                    activation_write: lowering.activation_bytes(elements),
                    ..Traffic::default()
                },
                ..StepCost::default()
            };
            lowering.emit(
                Kind::PositionEmbedding,
                name,
                Shape::elementwise(rows, width),
                &step,
            );
        }
        for (layers, layer) in &self.groups {
            lowering.lower_inside(self.layers_prefix, layers, |lowering| {
                layer.lower(lowering, images, patches);
            });
        }
        let mut across = patches;
        for (conv, norm) in &self.neck {
            let pixels = saturating_product(&[images, across, across]);
            across /= conv.stride;
            let positions = saturating_product(&[images, across, across]);
            conv.lower(lowering, pixels, positions, false);
            if let Some(norm) = norm {
                lowering.emit_norm(norm, positions);
            }
        }
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        self.patches.visit_weights(visitor);
        if let Some((name, side)) = self.positions {
            let shape = Dims::from([1, side, side, self.patches.outputs]);
            visitor.visit(WeightSpec::new(name, "", shape));
        }
        for (layers, layer) in &self.groups {
            visitor.visit_inside(self.layers_prefix, layers, |visitor| {
                layer.visit_weights(visitor);
            });
        }
        for (conv, norm) in &self.neck {
            conv.visit_weights(visitor);
            if let Some(norm) = norm {
                norm.visit_weights(visitor);
            }
        }
    }
}
