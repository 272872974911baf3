//! Image towers in front of a decoder, or by themselves.

use crate::{
    block::{ImageEncoder, Linear, SamEncoder, WindowVit},
    count::saturating_product,
    lower::Lowering,
    query_vision::QueryVision,
    weight::{Dims, Visitor, WeightSpec},
    workload::Images,
};

/// What turns images into features.
#[derive(Clone, Debug, PartialEq)]
pub enum Vision {
    Encoder(Box<ImageEncoder>),
    Sam(Box<SamEncoder>),
    /// DeepSeek-OCR: SAM, then CLIP over its features, then both projected.
    DeepseekOcr(Box<DeepseekOcrVision>),
    /// The tower of Qwen2.5-VL and of Qwen3.5.
    Qwen(Box<WindowVit>),
    /// DeepSeek-OCR-2: SAM, then an encoder whose queries read its features, then a projector.
    Queries(Box<QueryVision>),
}

/// DeepSeek-OCR's towers: a global view of every image, and local crops of large ones.
#[derive(Clone, Debug, PartialEq)]
pub struct DeepseekOcrVision {
    /// First tower; its neck compresses sixteenfold.
    pub sam: SamEncoder,
    /// Second tower, fed with the first one's features instead of patches.
    pub clip: ImageEncoder,
    /// From both towers' features to the decoder's width.
    pub projector: Linear,
    /// Path of the learned vector that ends a row of features.
    pub newline: &'static str,
    /// Path of the learned vector between views.
    pub separator: &'static str,
    /// Side of the global view in pixels.
    pub base_side: u64,
    /// Side of a crop in pixels.
    pub crop_side: u64,
}

impl DeepseekOcrVision {
    /// Number of crops of an image; a grid of one crop is the image itself, which the global view covers.
    fn crop_count(images: &Images) -> u64 {
        let crops = saturating_product(&[images.crops_wide, images.crops_high]);
        if crops > 1 { crops } else { 0 }
    }

    /// Each view's rows of features end in a newline; a separator ends the global view.
    fn tokens_per_image(&self, images: &Images) -> u64 {
        let base = self.sam.output_side(self.base_side);
        let crop = self.sam.output_side(self.crop_side);
        let global = saturating_product(&[base, base + 1]) + 1;
        if Self::crop_count(images) == 0 {
            return global;
        }
        let across = saturating_product(&[crop, images.crops_wide]).saturating_add(1);
        saturating_product(&[across, crop, images.crops_high]).saturating_add(global)
    }

    fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>, images: u64, each: &Images) {
        let crops = saturating_product(&[images, Self::crop_count(each)]);
        for (views, side) in [(crops, self.crop_side), (images, self.base_side)] {
            if views == 0 {
                continue;
            }
            self.sam.lower(lowering, views, side);
            let across = self.sam.output_side(side);
            let features = saturating_product(&[across, across]);
            self.clip.lower_patches(lowering, views, features);
            lowering.emit_linear(&self.projector, saturating_product(&[views, features]));
        }
    }

    fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        self.sam.visit_weights(visitor);
        self.clip.visit_weights(visitor);
        self.projector.visit_weights(visitor);
        for name in [self.newline, self.separator] {
            let shape = Dims::from([self.projector.outputs]);
            visitor.visit(WeightSpec::new(name, "", shape));
        }
    }
}

impl Vision {
    /// Tokens that one image adds to the prompt.
    pub fn tokens_per_image(&self, images: &Images) -> u64 {
        match self {
            Self::Encoder(encoder) => encoder.patches_per_image(),
            Self::Sam(sam) => {
                let side = sam.output_side(sam.side);
                saturating_product(&[side, side])
            }
            Self::DeepseekOcr(towers) => towers.tokens_per_image(images),
            Self::Queries(towers) => towers.tokens_per_image(images),
            Self::Qwen(tower) => {
                let (rows, columns) = tower.token_grid(images.height, images.width);
                saturating_product(&[rows, columns])
            }
        }
    }

    /// Sends the operators for `images` images like `each`.
    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>, images: u64, each: &Images) {
        match self {
            Self::Encoder(encoder) => encoder.lower(lowering, images),
            Self::Sam(sam) => sam.lower(lowering, images, sam.side),
            Self::DeepseekOcr(towers) => towers.lower(lowering, images, each),
            Self::Queries(towers) => towers.lower(lowering, images, each),
            Self::Qwen(tower) => tower.lower(lowering, images, each.height, each.width),
        }
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        match self {
            Self::Encoder(encoder) => encoder.visit_weights(visitor),
            Self::Sam(sam) => sam.visit_weights(visitor),
            Self::DeepseekOcr(towers) => towers.visit_weights(visitor),
            Self::Queries(towers) => towers.visit_weights(visitor),
            Self::Qwen(tower) => tower.visit_weights(visitor),
        }
    }
}
