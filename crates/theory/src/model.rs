//! A model: towers or an encoder, embedding, layers with repeat counts, head.

use llmprof_units::DType;

use crate::{
    block::{
        Embedding, FeedForward, Head, Layer, LayerGroup, Linear, Mixer, Norm, PositionTable,
        RelativeBias, RopeTable,
    },
    encoder::Encoder,
    formats::Formats,
    lower::{Lowering, Visible},
    operator::{Operator, Phase},
    quant::WeightFormat,
    step::Batch,
    vision::Vision,
    weight::{self, Tensor, Visitor, Weight},
    workload::{Pass, Precision, Workload},
};

/// A causal language model over tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    /// Width of the residual stream.
    pub hidden: u64,
    /// From token ids to vectors.
    pub embedding: Embedding,
    pub positions: Option<PositionTable>,
    /// From the embedding's width to the model's, where they differ (OPT-350m).
    pub project_in: Option<Linear>,
    /// Rotation angles that layers share.
    pub tables: Vec<RopeTable>,
    /// Added to the scores of every layer (T5).
    pub bias: Option<RelativeBias>,
    /// Path before a layer's number: `model.layers`.
    pub layers_prefix: &'static str,
    pub groups: Vec<LayerGroup>,
    /// Norm after the last layer.
    pub final_norm: Option<Norm>,
    /// From the model's width to the head's, where they differ.
    pub project_out: Option<Linear>,
    pub head: Head,
    /// Longest sequence that the config allows.
    pub max_positions: Option<u64>,
    /// The start of tensor names that some published checkpoints leave out (`transformer.` of GPT-2).
    pub optional_prefix: Option<&'static str>,
}

impl Decoder {
    pub fn layer_count(&self) -> u32 {
        self.groups
            .iter()
            .map(|group| u32::try_from(group.layers.len()).unwrap_or(u32::MAX))
            .sum()
    }

    /// The layers in the order of execution, each with its number.
    pub fn numbered_layers(&self) -> impl Iterator<Item = (u32, &Layer)> {
        self.in_order()
            .into_iter()
            .map(|(number, layer)| (number[0], layer))
    }

    /// The layers in the order of execution, each with the slice of one that holds its number.
    fn in_order(&self) -> Vec<(&[u32], &Layer)> {
        let mut order: Vec<_> = self
            .groups
            .iter()
            .flat_map(|group| group.layers.chunks(1).map(|number| (number, &group.layer)))
            .collect();
        order.sort_by_key(|(number, _)| number[0]);
        order
    }

    fn lower_before<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        self.embedding.lower(lowering);
        if let Some(positions) = &self.positions {
            positions.lower(lowering);
        }
        if let Some(linear) = &self.project_in {
            lowering.emit_linear(linear, lowering.rows());
        }
        for table in &self.tables {
            table.lower(lowering);
        }
        if let Some(bias) = &self.bias {
            bias.lower(lowering);
        }
    }

    fn lower_after<'m>(&'m self, lowering: &mut Lowering<'_, 'm>) {
        if let Some(norm) = &self.final_norm {
            lowering.emit_norm(norm, lowering.rows());
        }
        if let Some(linear) = &self.project_out {
            lowering.emit_linear(linear, lowering.rows());
        }
        self.head.lower(lowering);
    }

    fn visit_weights(&self, visitor: &mut Visitor<'_>) {
        self.embedding.visit_weights(visitor);
        if let Some(positions) = &self.positions {
            positions.visit_weights(visitor);
        }
        if let Some(bias) = &self.bias {
            bias.visit_weights(visitor);
        }
        for linear in [&self.project_in, &self.project_out].into_iter().flatten() {
            linear.visit_weights(visitor);
        }
        if let Some(norm) = &self.final_norm {
            norm.visit_weights(visitor);
        }
        self.head.visit_weights(visitor);
        for group in &self.groups {
            visitor.visit_inside(self.layers_prefix, &group.layers, |visitor| {
                group.layer.visit_weights(visitor);
            });
        }
    }
}

/// A model as its config describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The family that read the config.
    pub family: &'static str,
    /// Dtype of the weights that are not quantized, and of activations unless a workload says otherwise.
    pub dtype: DType,
    /// Storage of the quantized weights, where the checkpoint has some.
    pub quantization: Option<WeightFormat>,
    pub vision: Option<Vision>,
    /// What the decoder reads of, in models of two stacks.
    pub encoder: Option<Encoder>,
    /// The language model; absent for a vision tower by itself.
    pub decoder: Option<Decoder>,
}

impl Model {
    pub fn has_experts(&self) -> bool {
        let mut groups = self.decoder.iter().flat_map(|decoder| &decoder.groups);
        groups.any(|group| matches!(group.layer.feed, FeedForward::Moe(_)))
    }

    /// Whether some layers keep a state in place of keys and values.
    pub fn has_gated_delta(&self) -> bool {
        let mut groups = self.decoder.iter().flat_map(|decoder| &decoder.groups);
        groups.any(|group| matches!(group.layer.mixer, Mixer::GatedDelta(_)))
    }

    /// The number formats of a workload on this model.
    pub fn number_formats(&self, precision: &Precision) -> Formats {
        let activations = precision.activations.unwrap_or(self.dtype);
        let weights = precision
            .weights
            .or(self.quantization)
            .unwrap_or(WeightFormat::Plain(activations));
        let plain = precision.plain.unwrap_or(match weights {
            // A plain format stores everything; a quantized one leaves the rest as it was.
            WeightFormat::Plain(dtype) => dtype,
            _ => activations,
        });
        Formats {
            weights,
            plain,
            activations,
            kv: precision.kv.unwrap_or(activations),
            compute: precision
                .compute
                .unwrap_or(weights.default_compute(activations)),
        }
    }

    /// Number formats of software that only computes in `dtype`: weights keep their stored format, and f16 weights are converted to `dtype`.
    pub fn computed_in(&self, precision: &Precision, dtype: DType) -> Precision {
        let formats = self.number_formats(precision);
        let kept = |stored: DType| match stored {
            DType::F16 => dtype,
            other => other,
        };
        let weights = match formats.weights {
            WeightFormat::Plain(stored) => WeightFormat::Plain(kept(stored)),
            quantized => quantized,
        };
        Precision {
            weights: Some(weights),
            plain: Some(kept(formats.plain)),
            activations: Some(dtype),
            kv: Some(precision.kv.unwrap_or(dtype)),
            compute: Some(dtype),
        }
    }

    /// Tokens of one sequence that the encoder gives; 0 without an encoder.
    pub fn encoder_tokens(&self, workload: &Workload) -> u64 {
        let encoder = self.encoder.as_ref();
        encoder.map_or(0, |encoder| encoder.encoder_tokens(workload.prompt))
    }

    /// Tokens of one prompt that prefill takes: text and image tokens, or what the decoder beside an encoder begins with.
    pub fn prompt_tokens(&self, workload: &Workload) -> u64 {
        if let Some(encoder) = &self.encoder {
            return encoder.decoder_prompt(workload.prompt);
        }
        let images = match &self.vision {
            Some(vision) if self.decoder.is_some() && workload.images.count > 0 => vision
                .tokens_per_image(&workload.images)
                .saturating_mul(workload.images.count),
            _ => 0,
        };
        workload.prompt.saturating_add(images)
    }

    /// Tokens in the cache when decode starts.
    pub fn context_tokens(&self, workload: &Workload) -> u64 {
        workload.cached.saturating_add(self.prompt_tokens(workload))
    }

    /// The passes of a workload's prefill.
    pub fn prefill_passes(&self, workload: &Workload) -> impl Iterator<Item = Pass> {
        Pass::prefill_chunks(
            workload.batch,
            self.prompt_tokens(workload),
            workload.cached,
            workload.chunk,
            workload.logits,
        )
    }

    /// The first decode step of a workload.
    pub fn decode_step(&self, workload: &Workload) -> Pass {
        Pass::decode_steps(workload.batch, self.context_tokens(workload), 1)
    }

    /// All decode steps of a workload; `None` where prefill gives the only token.
    pub fn decode_pass(&self, workload: &Workload) -> Option<Pass> {
        let steps = workload.decode_steps();
        (steps > 0)
            .then(|| Pass::decode_steps(workload.batch, self.context_tokens(workload), steps))
    }

    /// Sends the decoder's distinct operators of `pass` to `sink`, identical layers once with their count.
    ///
    /// Nothing is allocated. The order is that of execution within a layer; groups of layers come one after the other.
    pub fn lower_pass<'m>(
        &'m self,
        workload: &Workload,
        pass: &Pass,
        sink: &mut dyn FnMut(&Operator<'m>),
    ) {
        self.lower_batch(workload, pass, None, sink);
    }

    /// The operators of `pass`, or of a batch of any sequences for which `pass` has rows and logits.
    pub(crate) fn lower_batch<'m>(
        &'m self,
        workload: &Workload,
        pass: &Pass,
        batch: Option<Batch<'_>>,
        sink: &mut dyn FnMut(&Operator<'m>),
    ) {
        let Some(decoder) = &self.decoder else { return };
        let mut lowering = self.start_lowering(workload, pass, sink);
        lowering.batch = batch;
        decoder.lower_before(&mut lowering);
        for group in &decoder.groups {
            lowering.lower_inside(decoder.layers_prefix, &group.layers, |lowering| {
                group.layer.lower(lowering);
            });
        }
        decoder.lower_after(&mut lowering);
    }

    /// Sends the operators of the image towers for a workload's images to `sink`; none without towers or images.
    pub fn lower_vision<'m>(&'m self, workload: &Workload, sink: &mut dyn FnMut(&Operator<'m>)) {
        let images = workload.batch.saturating_mul(workload.images.count);
        let Some(vision) = self.vision.as_ref().filter(|_| images > 0) else {
            return;
        };
        // The towers set batch and queries to the images and tokens of each stage.
        let pass = Pass {
            phase: Phase::Vision,
            batch: images,
            queries: 0,
            past: 0,
            steps: 1,
            logits: 0,
        };
        let mut lowering = self.start_lowering(workload, &pass, sink);
        vision.lower(&mut lowering, images, &workload.images);
    }

    /// Sends the operators of the encoder to `sink`; none without one.
    pub fn lower_encoder<'m>(&'m self, workload: &Workload, sink: &mut dyn FnMut(&Operator<'m>)) {
        let Some(encoder) = &self.encoder else { return };
        let pass = Pass {
            phase: Phase::Encoder,
            batch: workload.batch,
            queries: self.encoder_tokens(workload),
            past: 0,
            steps: 1,
            logits: 0,
        };
        encoder.lower(&mut self.start_lowering(workload, &pass, sink));
    }

    /// Sends every operator of `pass` in the order of execution, each layer with its own number.
    pub fn lower_in_order<'m>(
        &'m self,
        workload: &Workload,
        pass: &Pass,
        sink: &mut dyn FnMut(&Operator<'m>),
    ) {
        let Some(decoder) = &self.decoder else { return };
        let mut lowering = self.start_lowering(workload, pass, sink);
        decoder.lower_before(&mut lowering);
        for (number, layer) in decoder.in_order() {
            lowering.lower_inside(decoder.layers_prefix, number, |lowering| {
                layer.lower(lowering);
            });
        }
        decoder.lower_after(&mut lowering);
    }

    fn start_lowering<'s, 'm>(
        &'m self,
        workload: &Workload,
        pass: &Pass,
        sink: &'s mut dyn FnMut(&Operator<'m>),
    ) -> Lowering<'s, 'm> {
        Lowering {
            pass: *pass,
            formats: self.number_formats(&workload.precision),
            visible: Visible::Past(workload.attention),
            mla: workload.mla,
            routing: workload.routing,
            batch: None,
            encoder_tokens: self.encoder_tokens(workload),
            has_bias: self.decoder.as_ref().is_some_and(|one| one.bias.is_some()),
            prefix: "",
            numbers: &[],
            sink,
        }
    }

    pub(crate) fn visit_weights(&self, each: &mut dyn FnMut(&Weight<'_>)) {
        let mut visitor = Visitor {
            prefix: "",
            layers: &[],
            each,
        };
        if let Some(vision) = &self.vision {
            vision.visit_weights(&mut visitor);
        }
        if let Some(encoder) = &self.encoder {
            encoder.visit_weights(&mut visitor);
        }
        if let Some(decoder) = &self.decoder {
            decoder.visit_weights(&mut visitor);
        }
    }

    /// Number of parameters; tied weights count once, buffers (DeepSeek-V3's correction of routing) not at all.
    pub fn parameter_count(&self) -> u64 {
        let mut total = 0u64;
        self.visit_weights(&mut |weight| {
            let elements = if weight.spec.buffer {
                0
            } else {
                weight.spec.shape.elements()
            };
            total = total.saturating_add(elements.saturating_mul(weight.tensor_count()));
        });
        total
    }

    /// Bytes of the stored weights under `precision`, scales included.
    pub fn parameter_bytes(&self, precision: &Precision) -> u64 {
        let formats = self.number_formats(precision);
        let mut total = 0u64;
        self.visit_weights(&mut |weight| {
            let bytes = weight.bytes_per_copy(&formats);
            total = total.saturating_add(bytes.saturating_mul(weight.tensor_count()));
        });
        total
    }

    /// Every tensor of the (unquantized) checkpoint, sorted by name.
    pub fn checkpoint_tensors(&self) -> Vec<Tensor> {
        let mut tensors = Vec::new();
        self.visit_weights(&mut |weight| weight::expand_tensors(weight, &mut tensors));
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        tensors
    }
}
