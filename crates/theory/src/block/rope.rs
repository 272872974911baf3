use crate::{
    lower::{Lowering, StepCost},
    operator::{Kind, Shape, Traffic},
};

/// Which elements of a head rotate together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RopePairing {
    /// Element `i` with element `i + dims/2` (GPT-NeoX, Llama in transformers).
    #[default]
    Halves,
    /// Element `2i` with element `2i + 1` (GPT-J, DeepSeek).
    Neighbours,
}

/// How the base frequencies are scaled to long contexts, with the keys of the config.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RopeScaling {
    #[default]
    None,
    /// Every frequency divided by `factor`.
    Linear { factor: f64 },
    /// The base grows with the sequence length.
    Dynamic { factor: f64 },
    /// Low frequencies divided, high ones kept, a ramp between.
    Llama3 {
        factor: f64,
        /// Wavelengths above original ÷ this are scaled.
        low_freq_factor: f64,
        /// Wavelengths below original ÷ this are kept.
        high_freq_factor: f64,
        /// Context of the first training.
        original_max_position: u64,
    },
    /// Interpolation by wavelength, with a correction of the attention temperature.
    Yarn {
        factor: f64,
        /// Rotations above which a frequency is kept.
        beta_fast: f64,
        /// Rotations below which a frequency is scaled.
        beta_slow: f64,
        /// Context of the first training.
        original_max_position: u64,
        /// Temperature correction stated by the config.
        attention_factor: Option<f64>,
        /// Numerator of DeepSeek's attention temperature.
        mscale: Option<f64>,
        /// Denominator of DeepSeek's attention temperature.
        mscale_all_dim: Option<f64>,
        /// Whether the ramp's ends are rounded to whole dimensions.
        truncate: bool,
    },
    /// A factor per dimension, one list for short and one for long sequences.
    LongRope {
        /// Factors up to the original context.
        short_factor: Vec<f64>,
        long_factor: Vec<f64>,
        /// Context of the first training.
        original_max_position: u64,
        /// Temperature correction stated by the config.
        attention_factor: Option<f64>,
        /// Context of the model; gives the temperature where none is stated.
        max_position: u64,
    },
    /// Three position indices (time, height, width) for sections of a head, as Qwen2-VL does.
    Multimodal {
        /// Pairs of elements in the section of each position index.
        sections: Vec<u64>,
    },
}

/// Rotary position embedding of one attention block.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Elements of a head that rotate; the rest pass.
    pub dims: u64,
    pub theta: f64,
    pub scaling: RopeScaling,
    pub pairing: RopePairing,
}

/// The cosines and sines of a pass, computed once for all layers that share a [`Rope`].
#[derive(Clone, Debug, PartialEq)]
pub struct RopeTable {
    pub name: &'static str,
    /// What it is a table of.
    pub rope: Rope,
    /// Position indices per token: 1, or 3 where time, height and width have their own.
    pub axes: u64,
}

impl RopeTable {
    /// Angles are the product of `dims / 2` frequencies and a sequence's positions: a GEMM with `k = 1`.
    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let pairs = self.rope.dims / 2;
        let rows = lowering.rows().saturating_mul(self.axes);
        let angles = rows.saturating_mul(pairs);
        lowering.emit(
            Kind::RopeTable,
            self.name,
            Shape::gemm(rows, pairs, 1),
            &StepCost {
                tensor: angles.saturating_mul(2),
                // A cosine and a sine each.
                vector: angles.saturating_mul(2),
                traffic: Traffic {
                    activation_write: lowering.activation_bytes(angles.saturating_mul(4)),
                    ..Traffic::default()
                },
                ..StepCost::default()
            },
        );
    }
}

impl Rope {
    /// Rotation of `heads` heads of every row: two products and a sum per rotated element.
    pub(crate) fn lower<'m>(
        &self,
        lowering: &mut Lowering<'_, 'm>,
        name: &'m str,
        heads: u64,
        head_dim: u64,
    ) {
        let rows = lowering.rows().saturating_mul(heads);
        let rotated = rows.saturating_mul(self.dims.min(head_dim));
        let table = lowering.rows().saturating_mul(self.dims * 2);
        let step = StepCost {
            vector: rotated.saturating_mul(3),
            traffic: Traffic {
                activation_read: lowering.activation_bytes(rotated.saturating_add(table)),
                activation_write: lowering.activation_bytes(rotated),
                ..Traffic::default()
            },
            ..StepCost::default()
        };
        lowering.emit(Kind::Rope, name, Shape::elementwise(rows, self.dims), &step);
    }
}
