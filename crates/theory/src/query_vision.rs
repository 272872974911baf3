//! Towers whose result is read out by learned queries: DeepSeek-OCR-2.

use crate::{
    block::{Layer, Linear, Norm, RopeTable, SamEncoder},
    count::saturating_product,
    lower::{Lowering, Visible},
    weight::{Dims, Visitor, WeightSpec},
    workload::{AttentionConvention, Images},
};

/// SAM, an encoder with queries, and a projector: a global view of every image, and local crops of large ones.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryVision {
    /// Its neck leaves one feature for 16 patches.
    pub sam: SamEncoder,
    pub encoder: QueryEncoder,
    /// From the encoder's width to the decoder's.
    pub projector: Linear,
    /// Path of the learned vector after the views of an image.
    pub separator: &'static str,
    /// Side of the global view in pixels.
    pub base_side: u64,
    /// Side of a crop in pixels.
    pub crop_side: u64,
}

/// A transformer over features and as many queries after them. Features see each other; a query sees all features and the
/// queries before it. The queries' results are what is passed on.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryEncoder {
    /// Paths and rows of the tables of queries, the smaller first; a view takes the first that has enough rows.
    pub tables: [(&'static str, u64); 2],
    pub rope: RopeTable,
    /// Path before a layer's number.
    pub layers_prefix: &'static str,
    pub layers: Vec<u32>,
    /// What each of them is.
    pub layer: Layer,
    pub norm: Norm,
}

impl QueryEncoder {
    /// Number of learned queries that read `features` features.
    fn query_count(&self, features: u64) -> u64 {
        let [(_, small), (_, large)] = self.tables;
        if features <= small { small } else { large }
    }

    /// Over `views` views of `features` features each.
    fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>, views: u64, features: u64) {
        let queries = self.query_count(features);
        let tokens = features.saturating_add(queries);
        let convention = lowering.attention_convention();
        // All views have the same positions, so there is one table.
        lowering.pass.batch = 1;
        lowering.pass.queries = tokens;
        self.rope.lower(lowering);
        lowering.pass.batch = views;
        let before = lowering.visible;
        lowering.visible = match convention {
            AttentionConvention::Full => Visible::All,
            AttentionConvention::Causal => Visible::Sum(visible_keys(features, queries)),
        };
        lowering.lower_inside(self.layers_prefix, &self.layers, |lowering| {
            self.layer.lower(lowering);
        });
        lowering.emit_norm(&self.norm, lowering.rows());
        lowering.visible = before;
    }

    fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        for (name, rows) in self.tables {
            let shape = Dims::from([rows, self.layer.width]);
            visitor.visit(WeightSpec::new(name, "weight", shape));
        }
        visitor.visit_inside(self.layers_prefix, &self.layers, |visitor| {
            self.layer.visit_weights(visitor);
        });
        self.norm.visit_weights(visitor);
    }
}

/// Σ over tokens of the keys that they see: n² of n features, and n + 1 up to n + q of q queries.
fn visible_keys(features: u64, queries: u64) -> u64 {
    saturating_product(&[features, features])
        .saturating_add(saturating_product(&[features, queries]))
        .saturating_add(saturating_product(&[queries, queries.saturating_add(1)]) / 2)
}

impl QueryVision {
    /// Number of crops of an image; a grid of one crop is the image itself, which the global view covers.
    fn crop_count(images: &Images) -> u64 {
        let crops = saturating_product(&[images.crops_wide, images.crops_high]);
        if crops > 1 { crops } else { 0 }
    }

    fn feature_count(&self, side: u64) -> u64 {
        let across = self.sam.output_side(side);
        saturating_product(&[across, across])
    }

    /// A token for each query of each view, and a separator.
    pub(crate) fn tokens_per_image(&self, images: &Images) -> u64 {
        let of = |side| self.encoder.query_count(self.feature_count(side));
        saturating_product(&[of(self.crop_side), Self::crop_count(images)])
            .saturating_add(of(self.whole_side(images)))
            .saturating_add(1)
    }

    /// Whole images and crops, each with the side of one.
    pub(crate) fn views(&self, images: u64, each: &Images) -> [(u64, u64); 2] {
        let crops = saturating_product(&[images, Self::crop_count(each)]);
        [(images, self.whole_side(each)), (crops, self.crop_side)]
    }

    /// Side of the whole image: preprocessing without crops makes it as small as a crop.
    fn whole_side(&self, each: &Images) -> u64 {
        if each.height == self.crop_side {
            self.crop_side
        } else {
            self.base_side
        }
    }

    /// Features and queries of a view.
    pub(crate) fn encoder_tokens(&self, side: u64) -> u64 {
        let features = self.feature_count(side);
        features.saturating_add(self.encoder.query_count(features))
    }

    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>, images: u64, each: &Images) {
        for (views, side) in self.views(images, each) {
            if views == 0 {
                continue;
            }
            self.sam.lower(lowering, views, side);
            let features = self.feature_count(side);
            self.encoder.lower(lowering, views, features);
            let queries = self.encoder.query_count(features);
            lowering.emit_linear(&self.projector, saturating_product(&[views, queries]));
        }
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        self.sam.visit_weights(visitor);
        self.encoder.visit_weights(visitor);
        self.projector.visit_weights(visitor);
        let shape = Dims::from([self.projector.outputs]);
        visitor.visit(WeightSpec::new(self.separator, "", shape));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_two_features_and_three_queries() {
        // Features see 2 keys each, queries 3, 4 and 5.
        assert_eq!(visible_keys(2, 3), 2 + 2 + 3 + 4 + 5);
    }
}
