//! The encoder of an encoder–decoder model: what is read once, before the decoder writes (T5, Whisper).

use crate::{
    block::{ActivationKind, Conv1d, Embedding, LayerGroup, Norm, PositionTable, RelativeBias},
    count::saturating_product,
    lower::{Lowering, Visible},
    operator::Kind,
    weight::Visitor,
};

/// A stack of layers whose tokens all see each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoder {
    /// Width of the residual stream.
    pub hidden: u64,
    pub input: EncoderInput,
    /// Added to the scores of every layer.
    pub bias: Option<RelativeBias>,
    /// Path before a layer's number.
    pub layers_prefix: &'static str,
    pub groups: Vec<LayerGroup>,
    /// Norm after the last layer.
    pub final_norm: Norm,
}

#[derive(Clone, Debug, PartialEq)]
pub enum EncoderInput {
    /// The prompt. The table is the decoder's own.
    Tokens(Embedding),
    /// Log-mel frames, always as many as the model has positions for: shorter audio is padded.
    Audio(AudioInput),
}

/// Two convolutions over frames, the second of which halves them, and learned positions.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioInput {
    pub convolutions: [Conv1d; 2],
    /// Paths of the activations after them.
    pub activation_names: [&'static str; 2],
    pub positions: PositionTable,
}

impl AudioInput {
    /// Frames of one sequence: the second convolution steps over every other one.
    pub fn input_frames(&self) -> u64 {
        saturating_product(&[self.positions.rows, self.convolutions[1].stride])
    }

    fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        let mut frames = saturating_product(&[lowering.pass.batch, self.input_frames()]);
        let gelu = ActivationKind::Gelu.flops_per_element();
        let mut is_input = true;
        for (conv, name) in self.convolutions.iter().zip(self.activation_names) {
            let positions = frames / conv.stride.max(1);
            conv.lower(lowering, frames, positions, is_input);
            lowering.emit_elementwise(Kind::Activation, name, (positions, conv.outputs), 1, gelu);
            (frames, is_input) = (positions, false);
        }
        self.positions.lower(lowering);
    }
}

impl Encoder {
    /// Tokens that the encoder makes of a prompt of `prompt` tokens; audio has a fixed number of frames.
    pub(crate) fn encoder_tokens(&self, prompt: u64) -> u64 {
        match &self.input {
            EncoderInput::Tokens(_) => prompt,
            EncoderInput::Audio(audio) => audio.positions.rows,
        }
    }

    /// Tokens that the decoder begins with for a prompt of `prompt` tokens: only a start token if the encoder reads the prompt.
    pub(crate) fn decoder_prompt(&self, prompt: u64) -> u64 {
        match &self.input {
            EncoderInput::Tokens(_) => 1,
            EncoderInput::Audio(_) => prompt.max(1),
        }
    }

    pub(crate) fn lower<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        lowering.visible = Visible::All;
        lowering.has_bias = self.bias.is_some();
        match &self.input {
            EncoderInput::Tokens(embedding) => embedding.lower(lowering),
            EncoderInput::Audio(audio) => audio.lower(lowering),
        }
        if let Some(bias) = &self.bias {
            bias.lower(lowering);
        }
        for group in &self.groups {
            lowering.lower_inside(self.layers_prefix, &group.layers, |lowering| {
                group.layer.lower(lowering);
            });
        }
        lowering.emit_norm(&self.final_norm, lowering.rows());
    }

    pub(crate) fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        if let EncoderInput::Audio(audio) = &self.input {
            for conv in &audio.convolutions {
                conv.visit_weights(visitor);
            }
            audio.positions.visit_weights(visitor);
        }
        if let Some(bias) = &self.bias {
            bias.visit_weights(visitor);
        }
        for group in &self.groups {
            visitor.visit_inside(self.layers_prefix, &group.layers, |visitor| {
                group.layer.visit_weights(visitor);
            });
        }
        self.final_norm.visit_weights(visitor);
    }

    /// Elements alive at the worst moment over `rows` tokens.
    pub(crate) fn peak_elements(&self, rows: u64) -> u64 {
        let layers = self
            .groups
            .iter()
            .map(|group| group.layer.peak_elements(rows));
        let input = match &self.input {
            EncoderInput::Tokens(_) => 0,
            // The first convolution's result and its activation, at twice the positions.
            EncoderInput::Audio(audio) => {
                saturating_product(&[2, rows, audio.convolutions[1].stride, self.hidden])
            }
        };
        layers.max().unwrap_or(0).max(input)
    }
}
