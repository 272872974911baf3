use super::Linear;
use crate::{
    count::saturating_product,
    lower::{Lowering, StepCost},
    operator::{Kind, Shape, Traffic},
    weight::{Dims, Visitor, WeightSpec},
};

/// A token id takes eight bytes, as tokenizers and frameworks pass it.
const TOKEN_ID_BYTES: u64 = 8;

/// The table from token ids to vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Embedding {
    pub name: &'static str,
    /// Path of the weight, where another module holds it for all (T5).
    pub held_by: Option<&'static str>,
    /// Path of the scaling operator.
    pub scale_name: &'static str,
    pub vocabulary: u64,
    pub width: u64,
    /// What vectors are multiplied by (Gemma).
    pub scale: Option<f64>,
}

impl Embedding {
    pub(crate) fn new([name, scale_name]: [&'static str; 2], vocabulary: u64, width: u64) -> Self {
        Self {
            name,
            held_by: None,
            scale_name,
            vocabulary,
            width,
            scale: None,
        }
    }

    /// Reads one row per token, not the table.
    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let rows = lowering.rows();
        let elements = saturating_product(&[rows, self.width]);
        let ids = saturating_product(&[rows, TOKEN_ID_BYTES]);
        lowering.emit(
            Kind::Embedding,
            self.name,
            Shape::elementwise(rows, self.width),
            &StepCost {
                parameters: saturating_product(&[self.vocabulary, self.width]),
                traffic: Traffic {
                    weights: lowering.plain_bytes(elements),
                    activation_read: ids,
                    activation_write: lowering.activation_bytes(elements),
                    boundary: ids,
                    ..Traffic::default()
                },
                ..StepCost::default()
            },
        );
        if self.scale.is_some() {
            lowering.emit_elementwise(Kind::Scale, self.scale_name, (rows, self.width), 1, 1);
        }
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        visitor.visit(WeightSpec::new(
            self.held_by.unwrap_or(self.name),
            "weight",
            Dims::from([self.vocabulary, self.width]),
        ));
    }
}

/// Learned positions added to the embeddings (GPT-2, OPT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionTable {
    pub name: &'static str,
    pub rows: u64,
    pub width: u64,
    /// Rows before that of position 0 (OPT keeps two).
    pub offset: u64,
}

impl PositionTable {
    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let rows = lowering.rows();
        let elements = saturating_product(&[rows, self.width]);
        lowering.emit(
            Kind::PositionEmbedding,
            self.name,
            Shape::elementwise(rows, self.width),
            &StepCost {
                parameters: saturating_product(&[self.rows, self.width]),
                vector: elements,
                traffic: Traffic {
                    // Sequences of a batch share the rows of their positions.
                    weights: lowering.plain_bytes(saturating_product(&[
                        lowering.distinct_positions(),
                        self.width,
                    ])),
                    activation_read: lowering.activation_bytes(elements),
                    activation_write: lowering.activation_bytes(elements),
                    ..Traffic::default()
                },
                ..StepCost::default()
            },
        );
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        visitor.visit(WeightSpec::new(
            self.name,
            "weight",
            Dims::from([self.rows, self.width]),
        ));
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// From the model's width to the vocabulary. When tied its weight is the embedding's.
    pub linear: Linear,
    /// Whether the weight is the embedding's: read, but not another parameter.
    pub tied: bool,
    /// What its input is multiplied by (T5).
    pub input_scale: Option<f64>,
    /// Logits become `cap × tanh(logit ÷ cap)` (Gemma 2).
    pub softcap: Option<f64>,
}

impl Head {
    pub(crate) fn new(name: &'static str, width: u64, vocabulary: u64, tied: bool) -> Self {
        Self {
            linear: Linear::new(name, width, vocabulary, false).without_quantization(),
            tied,
            input_scale: None,
            softcap: None,
        }
    }

    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let rows = saturating_product(&[lowering.pass.batch, lowering.pass.logits]);
        if rows == 0 {
            return;
        }
        let linear = &self.linear;
        let mut step = lowering.linear_step(linear, rows);
        step.parameters = if self.tied {
            0
        } else {
            linear.parameter_count()
        };
        step.traffic.boundary = step.traffic.activation_write;
        if self.input_scale.is_some() {
            // A factor that a GEMM takes along.
            let scaled = saturating_product(&[rows, linear.inputs]);
            step.vector = step.vector.saturating_add(scaled);
        }
        lowering.emit_in(
            Kind::Linear,
            linear.name,
            Shape::gemm(rows, linear.outputs, linear.inputs),
            &step,
            lowering.formats.compute_for(linear.quantized),
        );
        if self.softcap.is_some() {
            lowering.emit_elementwise(Kind::Scale, "logits_softcap", (rows, linear.outputs), 1, 3);
        }
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        if !self.tied {
            self.linear.visit_weights(visitor);
        }
    }
}
