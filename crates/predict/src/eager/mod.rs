//! The kernels that transformers launches in eager mode with its default attention, from the blocks of a model.
//!
//! Counted from the modules of transformers 5.17 as torch's dispatcher sees them; `tests/eager.rs` compares every family
//! with what was traced. Number formats other than 16 and 32 bits change the bytes, not the kernels.

mod attention;
mod habits;
mod moe;
mod parts;

use llmprof_theory::{
    Decoder, Model, Routing, Workload,
    block::{Arrangement, FeedForward, Layer, Mixer},
    kernels::{Access, Kernel, Stored},
};

use crate::{routing::equal_tokens, sequences::StepSequences};
use habits::{EagerHabits, Rotation};

/// A step of a static batch on its way to kernels.
struct EagerStep<'s> {
    sink: &'s mut dyn FnMut(&Kernel, f64),
    habits: EagerHabits,
    batch: f64,
    /// New tokens of a sequence.
    queries: f64,
    /// Cached tokens of a sequence.
    past: f64,
    rows: f64,
    /// Bytes of one element of an activation.
    size: f64,
    /// Identical layers that the kernels stand for.
    layers: f64,
    routing: Routing,
    /// Positions of a KV cache that has its full size from the start; decode then always has a mask.
    static_length: Option<f64>,
    /// Tokens that would reach as many experts of the layer by uniform choice.
    distinct_tokens: f64,
}

/// Sends the kernels of a static batch to `sink`, with how often each is launched; none for a model without a decoder, and for one
/// with gated delta layers, whose kernels are traced.
pub(crate) fn lower_batch(
    model: &Model,
    workload: &Workload,
    sequences: &StepSequences,
    static_length: Option<f64>,
    sink: &mut dyn FnMut(&Kernel, f64),
) {
    let Some(decoder) = model.decoder.as_ref().filter(|_| !model.has_gated_delta()) else {
        return;
    };
    let batch = sequences.pad_to_longest();
    let formats = model.number_formats(&workload.precision);
    let size = f64::from(formats.activations.bits()) / 8.0;
    let mut step = EagerStep {
        sink,
        habits: EagerHabits::of_family(model.family),
        batch: batch.count,
        queries: batch.new,
        past: batch.cached,
        rows: batch.count * batch.new,
        size,
        layers: 1.0,
        routing: workload.routing,
        static_length,
        distinct_tokens: 1.0,
    };
    step.lower_decoder(decoder, sequences.logits);
}

impl EagerStep<'_> {
    fn emit_kernel(&mut self, kernel: &Kernel) {
        let layers = self.layers;
        (self.sink)(kernel, layers);
    }

    fn emit_stream(&mut self, access: Access, bytes: f64, elements: f64) {
        self.by_row(access, bytes, elements, 0.0);
    }

    /// A kernel over rows of `width` elements.
    fn by_row(&mut self, access: Access, bytes: f64, elements: f64, width: f64) {
        self.emit_kernel(&Kernel::Stream {
            access,
            bytes,
            elements,
            width,
        });
    }

    fn emit_gemm(&mut self, m: f64, n: f64, k: f64) {
        let size = self.size;
        let aligned = n % 8.0 == 0.0 && k % 8.0 == 0.0;
        self.emit_kernel(&Kernel::Gemm {
            groups: 1.0,
            m,
            n,
            k,
            size,
            aligned,
            stored: Stored::Plain,
        });
    }

    /// `count` kernels too small for their size to matter.
    fn emit_small(&mut self, access: Access, count: f64) {
        let layers = self.layers;
        let kernel = Kernel::Stream {
            access,
            bytes: 256.0,
            elements: 32.0,
            width: 0.0,
        };
        (self.sink)(&kernel, layers * count);
    }

    fn lower_decoder(&mut self, decoder: &Decoder, logits: f64) {
        self.lower_setup(decoder);
        for group in &decoder.groups {
            self.layers = group.layers.len() as f64;
            self.distinct_tokens = match (&group.layer.feed, self.routing) {
                (FeedForward::Moe(moe), Routing::Measured { prefill, decode }) => {
                    let touched = if self.queries > 1.0 { prefill } else { decode };
                    equal_tokens(moe, touched)
                }
                _ => self.rows,
            };
            self.lower_layer(&group.layer);
        }
        self.layers = 1.0;
        if let Some(norm) = &decoder.final_norm {
            self.lower_norm(norm, self.rows, true);
        }
        if let Some(linear) = &decoder.project_out {
            self.emit_gemm(self.rows, linear.outputs as f64, linear.inputs as f64);
        }
        if logits > 0.0 {
            let linear = &decoder.head.linear;
            self.emit_gemm(logits, linear.outputs as f64, linear.inputs as f64);
            if decoder.head.softcap.is_some() {
                let elements = logits * linear.outputs as f64;
                for access in [Access::Pointwise, Access::Transcendental, Access::Pointwise] {
                    self.emit_stream(access, 2.0 * elements * self.size, elements);
                }
            }
        }
    }

    fn lower_layer(&mut self, layer: &Layer) {
        let rows = self.rows;
        let width = layer.width as f64;
        match layer.arrangement {
            Arrangement::PreNorm => {
                self.lower_norm(&layer.mixer_norm, rows, true);
                self.lower_mixer(layer);
                self.emit_add(rows * width);
                self.lower_norm(&layer.feed_norm, rows, true);
                self.lower_feed_forward(layer);
                self.emit_add(rows * width);
            }
            Arrangement::Parallel => {
                self.lower_norm(&layer.mixer_norm, rows, true);
                self.lower_mixer(layer);
                self.lower_norm(&layer.feed_norm, rows, true);
                self.lower_feed_forward(layer);
                self.emit_add(rows * width);
                self.emit_add(rows * width);
            }
            Arrangement::PostNorm => {
                self.lower_mixer(layer);
                self.emit_add(rows * width);
                self.lower_norm(&layer.mixer_norm, rows, true);
                self.lower_feed_forward(layer);
                self.emit_add(rows * width);
                self.lower_norm(&layer.feed_norm, rows, true);
            }
        }
    }

    fn lower_mixer(&mut self, layer: &Layer) {
        match &layer.mixer {
            Mixer::Attention(attention) => self.lower_attention(attention),
            Mixer::Mla(latent) => self.lower_latent(latent),
            // `lower` sends nothing of such a model.
            Mixer::GatedDelta(_) => {}
        }
        if let Some(norm) = &layer.after_mixer_norm {
            self.lower_norm(norm, self.rows, true);
        }
    }

    fn lower_feed_forward(&mut self, layer: &Layer) {
        match &layer.feed {
            FeedForward::Dense(mlp) => self.lower_mlp(mlp),
            FeedForward::Moe(moe) => self.lower_moe(moe),
        }
        if let Some(norm) = &layer.after_feed_norm {
            self.lower_norm(norm, self.rows, true);
        }
    }
}
