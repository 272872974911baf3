use super::{Conv, Layer, Mlp, Norm, PositionTable};
use crate::{
    count::saturating_product,
    lower::{Lowering, StepCost, Visible},
    operator::{Kind, Shape, Traffic},
    weight::Visitor,
};

/// Towers of Qwen2.5-VL and Qwen3.5: images of any size, layers that attend inside windows or to the whole image, patches merged at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowVit {
    pub patches: Conv,
    /// A learned grid of positions, added as it is interpolated to the image's (Qwen3.5).
    pub positions: Option<PositionTable>,
    /// Path of the rotation angles.
    pub rope_name: &'static str,
    /// Path before a layer's number.
    pub layers_prefix: &'static str,
    /// Numbers of the layers that attend inside windows.
    pub windowed: Vec<u32>,
    /// Numbers of the layers that attend to the whole image.
    pub full: Vec<u32>,
    pub layer: Layer,
    /// Patches down and across that are merged into one token.
    pub merge: u64,
    /// Merged tokens down and across in a window.
    pub window: u64,
    pub merge_norm: Norm,
    /// From merged patches to the decoder's width.
    pub merger: Mlp,
    /// Fewest and most pixels that preprocessing leaves an image.
    pub pixels: (u64, u64),
}

impl WindowVit {
    /// Merged tokens down and across after the preprocessor resized an image.
    ///
    /// Sides are rounded to whole tokens; an image outside the pixel limits is scaled first, keeping its aspect.
    pub fn token_grid(&self, height: u64, width: u64) -> (u64, u64) {
        let unit = saturating_product(&[self.patches.kernel, self.merge]).max(1);
        let round = |side: u64| ((side as f64 / unit as f64).round_ties_even() as u64).max(1);
        let (rows, columns) = (round(height), round(width));
        let pixels = saturating_product(&[rows, columns, unit, unit]);
        let (least, most) = self.pixels;
        let area = (height as f64) * (width as f64);
        let scaled = |limit: u64, whole: fn(f64) -> f64| {
            let factor = (limit as f64 / area).sqrt() / unit as f64;
            let side = |side: u64| (whole(side as f64 * factor) as u64).max(1);
            (side(height), side(width))
        };
        if pixels > most {
            scaled(most, f64::floor)
        } else if pixels < least {
            scaled(least, f64::ceil)
        } else {
            (rows, columns)
        }
    }

    /// Over `images` images of `height × width` pixels.
    pub(crate) fn lower<'m>(
        &'m self,
        lowering: &mut Lowering<'_, 'm>,
        images: u64,
        height: u64,
        width: u64,
    ) {
        let (rows, columns) = self.token_grid(height, width);
        let merged = saturating_product(&[rows, columns]);
        let unit = saturating_product(&[self.merge, self.merge]);
        let tokens = saturating_product(&[merged, unit]);
        let side = self.patches.kernel;
        lowering.pass.batch = images;
        lowering.pass.queries = tokens;
        let all = lowering.rows();
        self.patches
            .lower(lowering, saturating_product(&[all, side, side]), all, true);
        if let Some(positions) = &self.positions {
            lower_interpolation(positions, lowering);
        }
        if let super::Mixer::Attention(attention) = &self.layer.mixer {
            lowering.emit_elementwise(
                Kind::RopeTable,
                self.rope_name,
                (all, attention.head_dim),
                0,
                1,
            );
        }
        let squares = |count: u64| {
            let whole = count / self.window.max(1);
            let rest = count % self.window.max(1);
            saturating_product(&[whole, self.window, self.window]).saturating_add(rest * rest)
        };
        let in_windows = saturating_product(&[unit, unit, squares(rows), squares(columns)]);
        lowering.visible = Visible::Sum(in_windows);
        lowering.lower_inside(self.layers_prefix, &self.windowed, |lowering| {
            self.layer.lower(lowering);
        });
        lowering.visible = Visible::All;
        lowering.lower_inside(self.layers_prefix, &self.full, |lowering| {
            self.layer.lower(lowering);
        });
        lowering.emit_norm(&self.merge_norm, all);
        lowering.pass.queries = merged;
        self.merger.lower(lowering);
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        self.patches.visit_weights(visitor);
        if let Some(positions) = &self.positions {
            positions.visit_weights(visitor);
        }
        for layers in [&self.windowed, &self.full] {
            visitor.visit_inside(self.layers_prefix, layers, |visitor| {
                self.layer.visit_weights(visitor);
            });
        }
        self.merge_norm.visit_weights(visitor);
        self.merger.visit_weights(visitor);
    }
}

/// The four nearest places of the grid, weighted and summed (seven operations an element), and added to the patches.
fn lower_interpolation<'m>(positions: &'m PositionTable, lowering: &mut Lowering<'_, 'm>) {
    let rows = lowering.rows();
    let elements = saturating_product(&[rows, positions.width]);
    let parameters = saturating_product(&[positions.rows, positions.width]);
    let step = StepCost {
        parameters,
        tensor: 0,
        vector: elements.saturating_mul(8),
        traffic: Traffic {
            weights: lowering.plain_bytes(parameters.min(elements.saturating_mul(4))),
            activation_read: lowering.activation_bytes(elements),
            activation_write: lowering.activation_bytes(elements),
            ..Traffic::default()
        },
    };
    let shape = Shape::elementwise(rows, positions.width);
    lowering.emit(Kind::PositionEmbedding, positions.name, shape, &step);
}
